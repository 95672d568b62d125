#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

/// A reduction of x over dims; with keepdims, reduced dimensions have size 1.
using Reduce = Value (*)(N &n, Value x, const Shape &dims);
template <Reduce reduce> static Results reduction(N &n) {
  Value x = n.in(0);
  Shape dims = n.reducedDims();
  Value result = reduce(n, x, dims);
  return {n.integer("keepdims", 1) ? n.keepDims(result, shapeOf(x), dims) : result};
}

static Value sum(N &n, Value x, const Shape &dims) { return n.reduceSum(x, dims); }
static Value mean(N &n, Value x, const Shape &dims) { return n.reduceMean(x, dims); }
static Value product(N &n, Value x, const Shape &dims) { return n.reduce<ReduceProdOp>(x, dims); }

static Value sumOfAbs(N &n, Value x, const Shape &dims) { return n.reduceSum(n.op<AbsOp>(x), dims); }
static Value sumOfSquares(N &n, Value x, const Shape &dims) { return n.reduceSum(n.mul(x, x), dims); }
static Value norm(N &n, Value x, const Shape &dims) { return n.length(sumOfSquares(n, x, dims)); }
static Value logOfSum(N &n, Value x, const Shape &dims) { return n.op<LogOp>(n.reduceSum(x, dims)); }

/// log(sum(e^x)) = m + log(sum(e^(x - m))) with m the maximum, where that is finite.
static Value logOfSumOfExp(N &n, Value x, const Shape &dims) {
  if (dims.empty())
    return x;
  if (!n.isFloat(x))
    fail("its input is not of floats");
  Value most = n.reduceMax(x, dims);
  Value infinite = n.op<IsInfOp>(n.type(shapeOf(most), n.getBuilder().getI1Type()), most);
  most = n.select(infinite, n.splatLike(most, 0), most);
  Value shifted = n.sub(x, n.broadcastAlong(most, shapeOf(x), dims));
  return n.add(most, n.op<LogOp>(n.reduceSum(n.op<ExpOp>(shifted), dims)));
}

template <typename OpT> static Results argReduction(N &n) {
  Value x = n.in(0);
  int64_t axis = n.axisAttr(0, n.rankOf(x));
  if (shapeOf(x)[axis] == 0)
    fail("dimension ", axis, " is empty");
  Value result = n.op<OpT>(x, axis, n.integer("select_last_index", 0) != 0);
  return {n.integer("keepdims", 1) ? n.keepDims(result, shapeOf(x), {axis}) : result};
}

llvm::ArrayRef<Operator> divisi::compiler::reductionOperators() {
  static constexpr Operator rows[] = {
      {"ArgMax", 1, newest, argReduction<ArgMaxOp>},    {"ArgMin", 1, newest, argReduction<ArgMinOp>},
      {"ReduceL1", 1, newest, reduction<sumOfAbs>},     {"ReduceL2", 1, newest, reduction<norm>},
      {"ReduceLogSum", 1, newest, reduction<logOfSum>}, {"ReduceLogSumExp", 1, newest, reduction<logOfSumOfExp>},
      {"ReduceMean", 1, newest, reduction<mean>},       {"ReduceProd", 1, newest, reduction<product>},
      {"ReduceSum", 1, newest, reduction<sum>},         {"ReduceSumSquare", 1, newest, reduction<sumOfSquares>},
  };
  return rows;
}
