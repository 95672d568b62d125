#include "dialects/Graph/Nodes.h"
#include "passes/Identity/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

using namespace mlir;

namespace divisi::identity {
#define GEN_PASS_DEF_NAMENODESPASS
#define GEN_PASS_DEF_CSEACROSSNODESPASS
#include "passes/Identity/Passes.h.inc"

namespace {
struct NameNodesPass : impl::NameNodesPassBase<NameNodesPass> {
  void runOnOperation() final {
    graph::adoptNodes(getOperation());
    graph::nameNodes(getOperation());
  }
};

struct CseAcrossNodesPass : impl::CseAcrossNodesPassBase<CseAcrossNodesPass> {
  void runOnOperation() final {
    graph::HiddenNodes hidden(getOperation());
    IRRewriter rewriter(&getContext());
    eliminateCommonSubExpressions(rewriter, getAnalysis<DominanceInfo>(), getOperation());
  }
};
} // namespace
} // namespace divisi::identity
