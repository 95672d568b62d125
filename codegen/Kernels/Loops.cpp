#include "codegen/Kernels/Loops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

std::optional<int64_t> divisi::codegen::extentOf(scf::ForOp loop) {
  if (getConstantIntValue(loop.getLowerBound()) != 0 || getConstantIntValue(loop.getStep()) != 1)
    return std::nullopt;
  return getConstantIntValue(loop.getUpperBound());
}

std::optional<int64_t> divisi::codegen::addedTo(Value counter, Value index) {
  int64_t sum = 0;
  while (index != counter) {
    Operation *op = index.getType().isIndex() ? index.getDefiningOp() : nullptr;
    auto added = isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op) ? getConstantIntValue(op->getOperand(1)) : std::nullopt;
    if (!added)
      return std::nullopt;
    sum += isa<arith::AddIOp>(op) ? *added : -*added;
    index = op->getOperand(0);
  }
  return sum;
}
