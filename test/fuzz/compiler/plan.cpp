// Plan files: the plan's decisions, its pipeline and how replicas are kept in step, as a compilation follows them. What is accepted is
// written, accepted again, and then written the same.
#include "compiler/PlanFile.h"
#include "passes/Planning/ParseDump.h"
#include "test/fuzz/compiler/Dumps.h"
#include "test/fuzz/compiler/Tokens.h"

#include <cstdlib>

using namespace divisi;

/// The text of a plan after it was read and written; "" if it is refused.
static std::string rewritten(const std::string &text) {
  mlir::MLIRContext &context = fuzz::context();
  fuzz::Heard heard(context);
  mlir::OwningOpRef<mlir::ModuleOp> file;
  compiler::TrainOptions train;
  dist::PlanOp plan = planning::parsePlan(file, fuzz::fileOf(text), &context);
  auto pipeline = plan ? compiler::follow(plan, train) : mlir::FailureOr<compiler::MicrobatchOptions>(mlir::failure());
  heard.expectError(failed(pipeline));
  if (failed(pipeline))
    return "";
  auto sync = compiler::readSync(plan);
  heard.expectError(failed(sync));
  plan->removeDiscardableAttr(dist::names::pipeline);
  plan->removeDiscardableAttr("sync");
  compiler::writePipeline(*file, *pipeline, {plan.getModel().str(), plan.getTarget().str()});
  compiler::writeSync(*file, *sync);
  std::string printed;
  llvm::raw_string_ostream(printed) << *file;
  return printed;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string once = rewritten(std::string(fuzz::text(data, size)));
  if (std::string twice = once.empty() ? "" : rewritten(once); once != twice) {
    llvm::errs() << "what was written:\n" << once << "\nbecame:\n" << twice;
    std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return fuzz::mutateTokens(data, size, most, seed);
}
