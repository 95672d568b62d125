#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::codegen {

/// One call of a task that runs in every step, as the runtime sees it.
struct ProgramCall {
  std::string kind; // kernel, gemm, conv_forward, ..., all_reduce, ..., copy, await
  std::string name; // of the model's nodes
  std::string key;  // equal for calls that take equally long on equal machines
  int64_t id = -1;  // of a collective, or of the one that an await waits for
  double flops = 0, bytes = 0;
  bool collective = false; // `bytes` are those of the operands, and `group` ranks take part
  int64_t group = 1;
};

/// The calls of a task at the level exec that run in every step, in order: those that Program.cpp emits without a
/// condition.
std::vector<ProgramCall> callsOf(mlir::func::FuncOp task);

} // namespace divisi::codegen
