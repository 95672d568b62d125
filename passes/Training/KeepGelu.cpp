#include "dialects/Graph/Graph.h"
#include "passes/Training/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace divisi;

namespace divisi::training {
#define GEN_PASS_DEF_KEEPGELUPASS
#include "passes/Training/Passes.h.inc"

namespace {
struct KeepGeluPass : impl::KeepGeluPassBase<KeepGeluPass> {
  using KeepGeluPassBase::KeepGeluPassBase;

  void runOnOperation() final {
    auto keep = [](auto op) {
      if (op.getTanh())
        op.setWhole(true);
    };
    getOperation().walk([&](graph::GeluOp op) { keep(op); });
    getOperation().walk([&](graph::GeluGradOp op) { keep(op); });
  }
};
} // namespace
} // namespace divisi::training
