#include "codegen/Kernels/Passes.h"
#include "dialects/Graph/GraphBuilder.h"

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_DECOMPOSEPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {
struct DecomposePass : impl::DecomposePassBase<DecomposePass> {
  using DecomposePassBase::DecomposePassBase;

  void runOnOperation() final {
    SmallVector<Operation *> composites;
    getOperation().walk([&](graph::DecomposeInterface op) {
      if (all)
        op->removeAttr(graph::names::whole);
      composites.push_back(op);
    });
    while (!composites.empty()) {
      Operation *op = composites.pop_back_val();
      OpBuilder builder(op);
      struct Collect : OpBuilder::Listener {
        SmallVectorImpl<Operation *> &list;
        explicit Collect(SmallVectorImpl<Operation *> &list) : list(list) {}
        void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
          if (isa<graph::DecomposeInterface>(op))
            list.push_back(op);
        }
      } collect(composites);
      builder.setListener(&collect);
      graph::GraphBuilder graphBuilder(builder, op->getLoc());
      auto results = cast<graph::DecomposeInterface>(op).decompose(graphBuilder);
      if (results.empty())
        continue;
      op->replaceAllUsesWith(results);
      op->erase();
    }
  }
};
} // namespace
} // namespace divisi::codegen
