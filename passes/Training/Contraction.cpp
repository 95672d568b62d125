#include "passes/Training/Contraction.h"

using namespace mlir;
using namespace divisi;

bool training::isContraction(Operation *op) {
  auto rules = dyn_cast<dist::ShardingRuleInterface>(op);
  if (!rules || op->getNumOperands() != 2 || op->getNumResults() != 1)
    return false;
  auto rule = rules.getShardingRule();
  return rule.linear == dist::Linear::each &&
         llvm::any_of(rule.factors, [](const auto &factor) { return factor.reduction == dist::Reduction::sum; });
}

Type training::smallFloat(StringRef name, MLIRContext *context) {
  return name == "f16" ? (Type)Float16Type::get(context) : BFloat16Type::get(context);
}
