#pragma once
#include "dialects/Graph/Graph.h"
#include "step/Block.h"

namespace divisi::codegen {

/// A straight-line block of the IR, or the body of a kernel, as one without IR. It has no outputs.
struct DescribedBlock {
  explicit DescribedBlock(mlir::Block &block);

  step::Block block;
  llvm::DenseMap<mlir::Value, int> numbers;
  std::vector<mlir::Operation *> operations; // by number
};

} // namespace divisi::codegen
