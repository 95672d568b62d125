#pragma once
#include "dialects/Graph/Precision.h"
#include "step/Work.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::codegen {

/// One call of a task that runs in every step, as the runtime sees it.
struct ProgramCall {
  std::string kind; // kernel, gemm, conv_forward, ..., all_reduce, ..., copy, await
  std::string name; // of the model's nodes
  std::string key;  // equal for calls that take equally long on equal machines
  int64_t id = -1;  // of a collective, or of the one that an await waits for
  std::string operation; // of a library call: "graph.matmul"
  step::Work work;  // of a collective or message: the bytes of the operands
  graph::Precision precision = graph::fp32;
  bool collective = false;
  bool packed = false;   // a collective of several tensors
  dist::Axes axes;       // of the task's mesh, that a collective spans
  int64_t group = 1;     // ranks that take part in it
};

/// The calls of a task at the level exec that run in every step, in order: those that Program.cpp emits without a
/// condition.
std::vector<ProgramCall> callsOf(mlir::func::FuncOp task);

/// A collective of these operands along axes of a mesh.
ProgramCall callOf(mlir::Operation *collective, mlir::ValueRange inputs, const dist::Mesh &mesh);

} // namespace divisi::codegen
