#include "dialects/Graph/GraphBuilder.h"

#include "dialects/Graph/WholeNumber.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace divisi::graph;

Value GraphBuilder::splat(RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute attr;
  if (auto floating = dyn_cast<FloatType>(element)) {
    APFloat number(value);
    bool lossy;
    number.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
    attr = FloatAttr::get(floating, number);
  } else {
    attr = IntegerAttr::get(element, APInt(element.getIntOrFloatBitWidth(), wholeNumber(value), /*isSigned=*/true, true));
  }
  return constant(DenseElementsAttr::get(type, attr));
}

Value GraphBuilder::indices(ArrayRef<int64_t> values) {
  return constant(
      DenseIntElementsAttr::get(RankedTensorType::get({(int64_t)values.size()}, builder.getI64Type()), values));
}

Value GraphBuilder::compare(Predicate predicate, Value a, Value b) {
  auto type = RankedTensorType::get(shapeOf(a), builder.getI1Type());
  return op<CompareOp>(type, predicate, a, b);
}

Value GraphBuilder::isWithin(Value x, double low, double high) {
  Value below = compareConst(Predicate::lt, x, high);
  return op<AndOp>(compareConst(Predicate::ge, x, low), below);
}

Value GraphBuilder::indicator(Value condition, Value like) {
  Value none = splatLike(like, 0);
  return select(condition, splatLike(like, 1), none);
}

Value GraphBuilder::distance(Value a, Value b) {
  Value size = op<AbsOp>(sub(a, b)), none = splatLike(a, 0);
  return select(compare(Predicate::eq, a, b), none, size);
}

Value GraphBuilder::cast(Value x, Type element) {
  if (tensorType(x).getElementType() == element)
    return x;
  return op<CastOp>(RankedTensorType::get(shapeOf(x), element), x);
}

Value GraphBuilder::reshape(Value x, ArrayRef<int64_t> shape) {
  if (shapeOf(x) == shape)
    return x;
  return op<ReshapeOp>(RankedTensorType::get(shape, tensorType(x).getElementType()), x);
}

Value GraphBuilder::transpose(Value x, ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return x;
  return op<TransposeOp>(x, permutation);
}

Value GraphBuilder::broadcast(Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  if (shapeOf(x) == shape)
    return x;
  return op<BroadcastOp>(RankedTensorType::get(shape, tensorType(x).getElementType()), x, dims);
}

Value GraphBuilder::broadcastTo(Value x, ArrayRef<int64_t> shape) {
  int64_t rank = shapeOf(x).size();
  return broadcast(x, shape, llvm::to_vector(llvm::seq<int64_t>(shape.size() - rank, shape.size())));
}

Value GraphBuilder::broadcastAlong(Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> reduced) {
  SmallVector<int64_t> dims;
  for (int64_t d : llvm::seq<int64_t>(0, shape.size()))
    if (!llvm::is_contained(reduced, d))
      dims.push_back(d);
  return broadcast(x, shape, dims);
}

Value GraphBuilder::slice(Value x, ArrayRef<int64_t> starts, ArrayRef<int64_t> sizes, ArrayRef<int64_t> steps) {
  SmallVector<int64_t> ones(starts.size(), 1);
  ArrayRef<int64_t> by = steps.empty() ? ArrayRef<int64_t>(ones) : steps;
  bool unit = llvm::all_of(by, [](int64_t s) { return s == 1; });
  if (unit && shapeOf(x) == sizes)
    return x;
  return op<SliceOp>(RankedTensorType::get(sizes, tensorType(x).getElementType()), x, starts, by);
}

Value GraphBuilder::sliceDim(Value x, int64_t dim, int64_t start, int64_t size) {
  SmallVector<int64_t> starts(shapeOf(x).size(), 0), sizes(shapeOf(x));
  starts[dim] = start, sizes[dim] = size;
  return slice(x, starts, sizes);
}

Value graph::concatInGroups(ValueRange values, llvm::function_ref<Value(ValueRange)> join) {
  constexpr size_t mostOperands = 64;
  if (values.size() == 1)
    return values[0];
  if (values.size() <= mostOperands)
    return join(values);
  const size_t each = llvm::divideCeil(values.size(), llvm::divideCeil(values.size(), mostOperands));
  SmallVector<Value> groups;
  for (; !values.empty(); values = values.drop_front(std::min(each, values.size())))
    groups.push_back(concatInGroups(values.take_front(std::min(each, values.size())), join));
  return concatInGroups(groups, join);
}

Value GraphBuilder::pad(Value x, ArrayRef<int64_t> low, ArrayRef<int64_t> shape, double value,
                        ArrayRef<int64_t> steps) {
  if (shapeOf(x) == shape)
    return x;
  SmallVector<int64_t> ones(shape.size(), 1);
  return op<PadOp>(RankedTensorType::get(shape, tensorType(x).getElementType()), x, low,
                   steps.empty() ? ArrayRef<int64_t>(ones) : steps, llvm::APFloat(value));
}

Value GraphBuilder::iota(ArrayRef<int64_t> shape, int64_t dim, Type element) {
  return op<IotaOp>(RankedTensorType::get(shape, element ? element : builder.getI64Type()), dim);
}

Value GraphBuilder::reduceMean(Value x, ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t d : dims)
    count *= shapeOf(x)[d];
  return scale(reduceSum(x, dims), 1.0 / count);
}

Value GraphBuilder::sumAll(Value x) { return reduceSum(x, llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(x).size()))); }
