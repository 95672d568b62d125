#include "passes/Training/Contraction.h"
#include "passes/Training/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace divisi;

namespace divisi::training {
#define GEN_PASS_DEF_USETF32PASS
#include "passes/Training/Passes.h.inc"

namespace {
struct UseTf32Pass : impl::UseTf32PassBase<UseTf32Pass> {
  using UseTf32PassBase::UseTf32PassBase;

  void runOnOperation() final {
    getOperation().walk([&](Operation *op) {
      if (isContraction(op) && graph::tensorType(op->getResult(0)).getElementType().isF32())
        op->setAttr(graph::names::tf32, UnitAttr::get(&getContext()));
    });
  }
};
} // namespace
} // namespace divisi::training
