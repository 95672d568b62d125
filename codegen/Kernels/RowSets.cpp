#include "codegen/Kernels/RowSets.h"

using namespace divisi;

step::RowSet codegen::rowsThrough(mlir::Operation *op, unsigned operand) {
  return step::rowsThrough(cast<dist::ShardingRuleInterface>(op).getShardingRule(), operand,
                           graph::shapeOf(op->getOperand(operand)), graph::shapeOf(op->getResult(0)));
}
