// Plan files: the plan's decisions, its pipeline and how replicas are kept in step, as a compilation follows them. What is accepted is
// written, accepted again, and then written the same; what is asked about the axes of stages agrees.
#include "compiler/PlanFile.h"
#include "passes/Planning/ParseDump.h"
#include "test/fuzz/compiler/Dumps.h"
#include "test/fuzz/compiler/Tokens.h"

#include <cstdlib>

using namespace divisi;

static void expect(bool holds, const char *what) {
  if (!holds) {
    llvm::errs() << "does not hold: " << what << "\n";
    std::abort();
  }
}

/// Asks what a compilation asks about the axes that stages have.
static void checkAxes(const dist::StageAxes &axes, int64_t stages, const dist::Mesh &mesh) {
  expect(axes.empty() || dist::StageAxes::parse(axes.text()) == axes, "the text of axes is read back");
  bool turns = false;
  int64_t before = 0;
  for (int64_t stage = 0; stage < stages; ++stage) {
    int64_t all = axes.devices(stage, mesh);
    expect(axes.devicesBefore(stage, mesh) == before, "the devices of earlier stages are their sum");
    before += all;
    for (int position : axes.lacking(stage, mesh))
      all *= mesh.axes[position].size;
    expect(all == dist::StageAxes().devices(stage, mesh), "a stage has or lacks each axis");
    turns |= axes.turnsOf(stage, mesh).has_value();
  }
  expect(axes.empty() || axes.takesTurns() == turns, "replicas of some stage take turns");
}

/// Notes how replicas are kept in step in a module with this plan, as level dist has it, and reads it and the pipeline back.
static void checkModule(dist::PlanOp plan, const compiler::MicrobatchOptions &pipeline, const dist::Sync &sync, const dist::Mesh &mesh) {
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(plan.getLoc());
  module->getBody()->push_back(plan.getOperation()->clone());
  if (failed(compiler::noteReplicas(*module, sync, mesh)))
    return;
  auto read = compiler::syncOfPlanned(*module);
  expect(failed(read) || *read == sync, "how replicas are kept in step is read back");
  expect(!compiler::isInMicrobatches(*module), "a plan alone is no step in microbatches");
  compiler::MicrobatchOptions split;
  expect(!pipeline.any() || (succeeded(compiler::readSplit(*module, sync, split)) && split.stages == pipeline.stages), "the pipeline is read back");
}

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
  if (failed(sync))
    return "";
  dist::Mesh mesh = dist::toMesh(plan.getMesh());
  checkAxes(pipeline->axes, pipeline->stages / pipeline->chunks, mesh);
  checkModule(plan, *pipeline, *sync, mesh);
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
