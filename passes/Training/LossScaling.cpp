#include "passes/Training/LossScaling.h"

#include "dialects/Graph/Nodes.h"

#include <limits>

using namespace mlir;
using namespace divisi;
using namespace divisi::training;
using B = divisi::graph::GraphBuilder;
using graph::Predicate;
namespace names = divisi::graph::names;

// All state starts at zero, so the state is the difference between the factor and its first value. float represents
// that difference exactly for all powers of two up to `most`.
static constexpr double first = 65536, least = 1, most = 4294967296.0;
static constexpr int64_t stepsToGrow = 2000;

LossScaling::LossScaling(StepFunction &step, Location loc) {
  Builder builder(loc.getContext());
  offset = step.addState(RankedTensorType::get({}, builder.getF32Type()), lossScaleOffset, scalingRole, loc);
  auto count = RankedTensorType::get({}, builder.getI64Type());
  good = step.addState(count, "divisi.finite_steps", scalingRole, loc);
  skipped = step.addState(count, skippedSteps, scalingRole, loc);
}

Value LossScaling::scale(B &b, Value loss) const { return b.mul(loss, b.addConst(offset, first)); }

void LossScaling::unscale(B &b, ArrayRef<Value *> gradients) {
  Value factor = b.op<graph::ReciprocalOp>(b.addConst(offset, first));
  for (Value *gradient : llvm::reverse(gradients)) { // as the backward pass goes through stages
    if ((*gradient).getDefiningOp<graph::ConstantOp>())
      continue; // the loss does not depend on the parameter
    auto type = graph::tensorType(*gradient);
    *gradient = b.mul(*gradient, b.broadcast(b.cast(factor, type.getElementType()), type.getShape(), {}));
    Value isFinite =
        b.compareConst(Predicate::lt, b.op<graph::AbsOp>(*gradient), std::numeric_limits<double>::infinity());
    Value one = b.splat(type, 1), none = b.splat(type, 0);
    Value bad = b.sumAll(b.select(isFinite, none, one));
    wrong = b.addMaybe(wrong, b.cast(bad, b.getBuilder().getF32Type()));
  }
}

void LossScaling::decide(B &b, bool mark) {
  if (!wrong) // the loss depends on no parameter
    wrong = b.splat(RankedTensorType::get({}, b.getBuilder().getF32Type()), 0);
  if (mark)
    wrong = graph::AccumulateOp::create(b.getBuilder(), graph::withRole(b.getLoc(), "accumulate"), wrong);
  finite = b.compareConst(Predicate::eq, wrong, 0);
}

Value LossScaling::effective(B &b, Value step) const { return b.sub(step, skipped); }

Value LossScaling::choose(B &b, Value renewed, Value before) const {
  return b.select(b.broadcast(finite, graph::shapeOf(renewed), {}), renewed, before);
}

void LossScaling::renew(B &b, StepFunction &step) const {
  Value factor = b.addConst(offset, first), more = b.addConst(good, 1);
  Value grows = b.compareConst(Predicate::ge, more, stepsToGrow);
  Value greatest = b.splatLike(factor, most);
  Value larger = b.op<graph::MinOp>(b.scale(factor, 2), greatest);
  Value smallest = b.splatLike(factor, least);
  Value smaller = b.op<graph::MaxOp>(b.scale(factor, 0.5), smallest);
  Value next = b.select(finite, b.select(grows, larger, factor), smaller), none = b.splatLike(good, 0);
  step.addResult(b.addConst(next, -first), names::renews, step.nameOf(offset));
  step.addResult(b.select(finite, b.select(grows, none, more), none), names::renews, step.nameOf(good));
  step.addResult(b.select(finite, skipped, b.addConst(skipped, 1)), names::renews, step.nameOf(skipped));
}
