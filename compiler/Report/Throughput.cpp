#include "compiler/Report/Throughput.h"

#include "compiler/Report/Lines.h"
#include "compiler/Report/Numbers.h"
#include "passes/Planning/Cost/CostModel.h"
#include "passes/Planning/ModuleProblem.h"

using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

mlir::FailureOr<StepWork> StepWork::of(mlir::ModuleOp module) {
  auto built = ModuleProblem::build(module);
  if (mlir::failed(built))
    return mlir::failure();
  const Problem &problem = built->problem;
  StepWork work;
  for (auto [tensor, dim] : problem.batchDims)
    if (problem.tensors[tensor].role == Problem::Role::input)
      work.samples = std::max(work.samples, (double)problem.tensors[tensor].shape[dim]);
  double positions = 0;
  bool same = work.samples > 0;
  for (auto [t, tensor] : llvm::enumerate(problem.tensors)) {
    if (tensor.role != Problem::Role::input || !mlir::getElementTypeOrSelf(built->types[t]).isInteger() ||
        mlir::getElementTypeOrSelf(built->types[t]).isInteger(1))
      continue;
    same &= tensor.shape.size() == 2 && (double)tensor.shape[0] == work.samples &&
            (positions == 0 || positions == (double)tensor.shape[1]);
    if (same)
      positions = (double)tensor.shape[1];
  }
  work.tokens = same ? work.samples * positions : 0;
  for (auto [op, entry] : llvm::zip(built->ops, problem.ops))
    if (auto cost = mlir::dyn_cast<graph::CostInterface>(op);
        cost && !entry.forward && !entry.seldom &&
        (entry.form == graph::Form::product || entry.form == graph::Form::attention))
      work.flops[entry.precision] += (double)cost.getModelFlops() * (double)entry.repeats;
  return work;
}

void compiler::addThroughput(llvm::json::Array &plans, const StepWork &work, const Cluster &cluster, double price) {
  for (llvm::json::Value &value : plans) {
    llvm::json::Object &plan = *value.getAsObject();
    const double seconds = number(plan, "step_ms") / 1e3, devices = number(plan, "devices");
    if (!(seconds > 0) || !(work.samples > 0))
      continue;
    plan["samples_per_s"] = work.samples / seconds;
    if (work.tokens > 0)
      plan["tokens_per_s"] = work.tokens / seconds;
    if (cluster.device.kind == "cuda") { // what CPUs could reach at most, nobody has said
      double least = 0;
      for (auto [flops, peak] : llvm::zip(work.flops, cluster.device.flops))
        least += flops / peak;
      plan["mfu"] = least / devices / seconds;
    }
    if (price > 0)
      plan[work.tokens > 0 ? "cost_per_million_tokens" : "cost_per_million_samples"] =
          price * devices * seconds / 3600 / (work.tokens > 0 ? work.tokens : work.samples) * 1e6;
  }
}

std::string compiler::costOf(const llvm::json::Object &plan) {
  for (const char *unit : {"samples", "tokens"})
    if (auto cost = plan.getNumber(std::string("cost_per_million_") + unit))
      return digits(*cost);
  return "";
}

/// Three significant digits, with commas between thousands.
static std::string grouped(double value) {
  const std::string text = digits(value);
  const size_t point = std::min(text.find('.'), text.size());
  std::string result;
  for (auto [at, c] : llvm::enumerate(text)) {
    if (at > 0 && at < point && (point - at) % 3 == 0)
      result += ',';
    result += c;
  }
  return result;
}

std::string compiler::describeThroughput(const llvm::json::Object &plan) {
  auto samples = plan.getNumber("samples_per_s");
  if (!samples)
    return "";
  std::string line = grouped(*samples) + " samples/s";
  if (auto tokens = plan.getNumber("tokens_per_s"))
    line += ", " + grouped(*tokens) + " tokens/s";
  if (auto mfu = plan.getNumber("mfu"))
    line += ", MFU " + percent(*mfu);
  if (std::string cost = costOf(plan); !cost.empty())
    line += ", a million " + std::string(plan.getNumber("tokens_per_s") ? "tokens" : "samples") + " cost " + cost;
  return line;
}
