#include "dialects/Graph/Precision.h"

#include "dialects/Graph/Graph.h"

using namespace mlir;
using namespace divisi;

graph::Precision graph::precisionOf(Operation *op) {
  auto cost = dyn_cast<CostInterface>(op);
  if (!cost || !isCall(cost.getForm()))
    return fp32;
  if (op->hasAttr(names::tf32))
    return tf32;
  Type type = op->getNumOperands() > 0 ? getElementTypeOrSelf(op->getOperand(0).getType()) : nullptr;
  return !type ? fp32 : type.isF16() ? fp16 : type.isBF16() ? bf16 : fp32;
}
