#include "passes/Planning/Passes.h"

using namespace mlir;

namespace divisi::planning {
#define GEN_PASS_DEF_PRINTSHARDINGRULESPASS
#include "passes/Planning/Passes.h.inc"

namespace {
struct PrintShardingRulesPass : impl::PrintShardingRulesPassBase<PrintShardingRulesPass> {
  void runOnOperation() final {
    getOperation().walk([](dist::ShardingRuleInterface op) {
      llvm::outs() << op->getName() << ": " << op.getShardingRule().str() << "\n";
    });
    markAllAnalysesPreserved();
  }
};
} // namespace
} // namespace divisi::planning
