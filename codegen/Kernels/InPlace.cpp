#include "codegen/Kernels/InPlace.h"

#include "codegen/Kernels/RowSets.h"
#include "codegen/Lowering/ScalarBuilder.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

/// The extents of the loops over a value's elements, without those of 1.
static SmallVector<int64_t> loopsOf(Value value) {
  SmallVector<int64_t> extents;
  for (int64_t extent : cast<RankedTensorType>(value.getType()).getShape())
    if (extent != 1)
      extents.push_back(extent);
  return extents;
}

bool codegen::writesOnlyWhereItReads(exec::KernelOp kernel, unsigned result, unsigned input) {
  auto target = cast<RankedTensorType>(kernel.getOutputs()[result].getType());
  Value source = kernel.getBody().getArgument(input);
  auto sourceType = cast<RankedTensorType>(source.getType());
  if (sourceType.getElementType() != target.getElementType() || sourceType.getNumElements() != target.getNumElements())
    return false;
  bool eachAlone = (int64_t)kernel.getRows() == target.getNumElements(); // each row is one element
  // The input, and values that depend on it or are materialized: reading these at another index needs another pass.
  llvm::DenseSet<Value> dependent = {source};
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    auto loop = dyn_cast<LoopInterface>(op);
    if (!isa<graph::ConstantOp>(op) && (!loop || loop.getLoopDomain().hasReduction()))
      return false;
    // All materialized values with the same loops share one pass over the elements, in which every read precedes the
    // writes.
    bool stage = op.hasAttr(exec::names::stage);
    if (stage && cast<RankedTensorType>(op.getResult(0).getType()).getNumElements() != target.getNumElements())
      return false;
    if (stage && !eachAlone && loopsOf(op.getResult(0)) != loopsOf(kernel.getResult(result)))
      return false;
    for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
      if (!dependent.contains(operand))
        continue;
      if (rowsThrough(&op, i).back() != target.getNumElements())
        return false;
      dependent.insert(op.getResult(0));
    }
    if (stage)
      dependent.insert(op.getResult(0));
  }
  return true;
}
