#include "codegen/Kernels/Passes.h"
#include "dialects/Graph/GraphBuilder.h"

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_PREPAREKERNELSPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

/// The elements of what adds up or multiplies no elements.
std::optional<double> sumOfNothing(Operation &op) {
  if (!isa<graph::ReduceSumOp, graph::ReduceProdOp, graph::MatmulOp>(op) ||
      graph::tensorType(op.getOperand(0)).getNumElements() != 0)
    return std::nullopt;
  return isa<graph::ReduceProdOp>(op) ? 1 : 0;
}

/// Tensors without elements need no code.
void replaceEmpty(Block &block) {
  for (Operation &op : block.without_terminator())
    for (Value result : op.getResults()) {
      auto type = graph::tensorType(result);
      OpBuilder builder(&op);
      if (auto number = sumOfNothing(op); number && type.getNumElements() != 0) {
        result.replaceAllUsesWith(graph::GraphBuilder(builder, op.getLoc()).splat(type, *number));
        continue;
      }
      if (type.getNumElements() != 0 || isa<graph::ConstantOp>(op))
        continue;
      auto empty = DenseElementsAttr::get(type, ArrayRef<Attribute>());
      result.replaceAllUsesWith(graph::ConstantOp::create(builder, op.getLoc(), empty));
    }
}

/// Nobody merges operations any more. Leaves no views of views where barriers were.
void dropBarriers(Block &block) {
  for (auto barrier : llvm::make_early_inc_range(block.getOps<graph::ReshapeOp>())) {
    if (!barrier.getBarrier())
      continue;
    barrier.setBarrier(false);
    if (auto inner = barrier.getX().getDefiningOp<graph::ReshapeOp>())
      barrier.getXMutable().assign(inner.getX());
    for (Operation *user : llvm::make_early_inc_range(barrier->getUsers()))
      if (auto outer = dyn_cast<graph::ReshapeOp>(user))
        outer.getXMutable().assign(barrier.getX());
    if (barrier.getX().getType() == barrier.getType()) {
      barrier.replaceAllUsesWith(barrier.getX());
      barrier.erase();
    }
  }
}

/// A value of 16 bits that is widened and narrowed again, with another shape perhaps, is the same.
void dropRoundTrips(Block &block) {
  for (auto narrow : llvm::make_early_inc_range(block.getOps<graph::CastOp>())) {
    auto view = narrow.getX().getDefiningOp<graph::ReshapeOp>();
    auto wide = (view ? view.getX() : narrow.getX()).getDefiningOp<graph::CastOp>();
    if (!wide || !graph::tensorType(wide.getResult()).getElementType().isF32())
      continue;
    Type element = graph::tensorType(wide.getX()).getElementType();
    if (element != graph::tensorType(narrow.getResult()).getElementType() || !(element.isBF16() || element.isF16()))
      continue;
    if (llvm::is_contained(narrow->getUsers(), block.getTerminator()))
      continue; // an output has memory of its own
    OpBuilder builder(narrow);
    Value same = wide.getX();
    if (view)
      same = graph::GraphBuilder(builder, view.getLoc()).reshape(same, graph::shapeOf(narrow.getResult()));
    narrow.replaceAllUsesWith(same);
    narrow.erase();
  }
}

struct PrepareKernelsPass : impl::PrepareKernelsPassBase<PrepareKernelsPass> {
  using PrepareKernelsPassBase::PrepareKernelsPassBase;

  void runOnOperation() final {
    if (getOperation().isDeclaration())
      return;
    Block &block = getOperation().getBody().front();
    replaceEmpty(block);
    dropBarriers(block);
    dropRoundTrips(block);
    graph::eraseUnused(block);
  }
};
} // namespace
} // namespace divisi::codegen
