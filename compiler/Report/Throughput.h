#pragma once
#include "passes/Planning/Cost/Cluster.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "llvm/Support/JSON.h"

#include <array>
#include <string>

namespace divisi::compiler {

/// What a training step works through, whatever its plan.
struct StepWork {
  double samples = 0; ///< of the batch; 0: no input has a batch
  double tokens = 0;  ///< positions of all samples, if each integer input is [samples, positions], else 0
  /// FLOPs of matmuls, convolutions and attention by the precision of their operands, as the model asks for them
  /// (PaLM, arXiv 2204.02311, appendix B): each once, attention whole where it is causal.
  std::array<double, planning::Cluster::Device::precisions> flops = {};

  /// Of a module that is not planned, at the level train.
  static mlir::FailureOr<StepWork> of(mlir::ModuleOp module);
};

/// Adds to each entry of a list of plans what follows from its step_ms: samples_per_s and tokens_per_s; on GPUs `mfu`
/// (model FLOPs utilization: the time that the FLOPs take at the devices' peaks, as a share of the step); with a price
/// of a device and hour `cost_per_million_samples`, or `cost_per_million_tokens` if tokens are known.
void addThroughput(llvm::json::Array &plans, const StepWork &work, const planning::Cluster &cluster, double price);

/// The cost of a plan with these fields for a table; "" without a price.
std::string costOf(const llvm::json::Object &plan);
/// One line for a terminal about a plan with these fields; "" if it has none.
std::string describeThroughput(const llvm::json::Object &plan);

} // namespace divisi::compiler
