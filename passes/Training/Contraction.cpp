#include "passes/Training/Contraction.h"

using namespace mlir;
using namespace divisi;

bool training::isContraction(Operation *op) {
  auto rules = dyn_cast<dist::ShardingRuleInterface>(op);
  return rules && rules.getShardingRule().isContraction();
}

Type training::smallFloat(StringRef name, MLIRContext *context) {
  return name == "f16" ? (Type)Float16Type::get(context) : BFloat16Type::get(context);
}

std::optional<double> training::numberOf(Value value) {
  while (auto broadcast = value.getDefiningOp<graph::BroadcastOp>())
    value = broadcast.getX();
  return graph::splatOf(value);
}
