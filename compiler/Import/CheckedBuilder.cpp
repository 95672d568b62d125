#include "compiler/Import/CheckedBuilder.h"

#include "dialects/Graph/WholeNumber.h"

#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;

Operation *CheckedBuilder::insert(OperationState &state) {
  for (Type type : state.types)
    checkedElements(mlir::cast<RankedTensorType>(type).getShape());
  Operation *op = getBuilder().insert(Operation::create(state));
  if (failed(mlir::verify(op))) {
    op->erase();
    throw ImportError{lastError};
  }
  return op;
}

/// The largest tensor that is written into the module element by element.
static constexpr int64_t maxConstant = int64_t(1) << 26;

Value CheckedBuilder::numbers(Dims shape, Type element, ArrayRef<double> values) {
  int64_t count = checkedElements(shape);
  if (count != (int64_t)values.size() || count > maxConstant)
    fail("a constant of shape ", shapeText(shape), " is too large");
  if (count && llvm::all_equal(values))
    return splatOf(shape, element, values[0]);
  auto type = RankedTensorType::get(shape, element);
  SmallVector<Attribute> attributes;
  for (double value : values) {
    if (auto floating = dyn_cast<FloatType>(element))
      attributes.push_back(FloatAttr::get(floating, value));
    else
      attributes.push_back(
          IntegerAttr::get(element, APInt(element.getIntOrFloatBitWidth(), divisi::graph::wholeNumber(value), true, true)));
  }
  return constant(DenseElementsAttr::get(type, attributes));
}

Value CheckedBuilder::reshape(Value x, Dims shape) {
  if (shapeOf(x) == shape)
    return x;
  if (checkedElements(shape) != tensorType(x).getNumElements())
    fail("cannot reshape ", shapeText(shapeOf(x)), " to ", shapeText(shape));
  return op<ReshapeOp>(type(shape, elementOf(x)), x);
}

Value CheckedBuilder::transpose(Value x, Dims permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, rankOf(x))))
    return x;
  return op<TransposeOp>(x, permutation);
}

Value CheckedBuilder::broadcast(Value x, Dims shape, Dims dims) {
  if (shapeOf(x) == shape)
    return x;
  auto to = type(shape, elementOf(x));
  if (auto known = x.getDefiningOp<ConstantOp>(); known && known.getValue().isSplat())
    return constant(mlir::cast<DenseElementsAttr>(known.getValue()).resizeSplat(to));
  return op<BroadcastOp>(to, x, dims);
}

Value CheckedBuilder::broadcastTo(Value x, Dims shape) {
  if (rankOf(x) > (int64_t)shape.size())
    fail("cannot broadcast ", shapeText(shapeOf(x)), " to ", shapeText(shape));
  return broadcast(x, shape, dimRange(shape.size() - rankOf(x), shape.size()));
}

Value CheckedBuilder::broadcastAlong(Value x, Dims shape, Dims reduced) {
  Shape dims;
  for (int64_t d : dimRange(0, shape.size()))
    if (!llvm::is_contained(reduced, d))
      dims.push_back(d);
  return broadcast(x, shape, dims);
}

Value CheckedBuilder::slice(Value x, Dims starts, Dims sizes, Dims steps) {
  Shape ones(starts.size(), 1);
  Dims by = steps.empty() ? Dims(ones) : steps;
  if (llvm::all_of(by, [](int64_t s) { return s == 1; }) && shapeOf(x) == sizes)
    return x;
  return op<SliceOp>(type(sizes, elementOf(x)), x, starts, by);
}

Value CheckedBuilder::sliceDim(Value x, int64_t dim, int64_t start, int64_t size) {
  Shape starts(rankOf(x), 0), sizes(shapeOf(x));
  starts[dim] = start, sizes[dim] = size;
  return slice(x, starts, sizes);
}

Value CheckedBuilder::pad(Value x, Dims low, Dims shape, double value) {
  if (shapeOf(x) == shape)
    return x;
  Shape ones(shape.size(), 1);
  return op<PadOp>(type(shape, elementOf(x)), x, low, Dims(ones), llvm::APFloat(value));
}

Value CheckedBuilder::concat(ValueRange values, int64_t dim) {
  return concatInGroups(values, [&](ValueRange group) { return op<ConcatOp>(group, dim); });
}

Value CheckedBuilder::iota(Dims shape, int64_t dim, Type element) {
  return op<IotaOp>(type(shape, element ? element : i64()), dim);
}

Value CheckedBuilder::reduceMean(Value x, Dims dims) {
  int64_t count = 1;
  for (int64_t d : dims)
    count *= shapeOf(x)[d];
  Value sum = reduceSum(x, dims);
  return isFloat(x) ? scale(sum, 1.0 / count) : div(sum, splatLike(sum, count));
}

Value CheckedBuilder::sumAll(Value x) { return reduceSum(x, dimRange(0, rankOf(x))); }

Value CheckedBuilder::keepDims(Value reduced, Dims shape, Dims dims) {
  Shape kept(shape);
  for (int64_t d : dims)
    kept[d] = 1;
  return reshape(reduced, kept);
}

CheckedBuilder::Shape divisi::compiler::broadcastShape(ArrayRef<ArrayRef<int64_t>> shapes) {
  CheckedBuilder::Shape result;
  for (ArrayRef<int64_t> shape : shapes) {
    if (shape.size() > result.size())
      result.insert(result.begin(), shape.size() - result.size(), 1);
    for (size_t i = 0, offset = result.size() - shape.size(); i < shape.size(); ++i) {
      int64_t &size = result[offset + i];
      if (size == 1)
        size = shape[i];
      else if (shape[i] != 1 && shape[i] != size)
        fail("shapes do not fit together: ", llvm::join(llvm::map_range(shapes, shapeText), " and "));
    }
  }
  return result;
}

GraphBuilder::Values CheckedBuilder::broadcastTogether(ArrayRef<Value> values) {
  auto shape = broadcastShape(llvm::map_to_vector(values, [](Value v) { return shapeOf(v); }));
  return llvm::map_to_vector(values, [&](Value v) { return broadcastTo(v, shape); });
}
