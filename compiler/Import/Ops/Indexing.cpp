#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/KnownIndices.h"
#include "compiler/Import/Ops/Window.h"

#include <set>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

//===- Gather -------------------------------------------------------------===//

/// The rows of an embedding. The row of padding gets no gradient (torch.nn.Embedding's padding_idx).
static Value embedding(N &n, Value indices, Value rows) {
  CallNotes call(n.node);
  int64_t padding = -1;
  StringRef text = call.target;
  if (!text.starts_with("aten.embedding.") || n.model.options.forwardOnly || !n.isFloat(rows))
    return rows;
  if (call.argument(3, "scale_grad_by_freq") == "True")
    fail("scale_grad_by_freq of nn.Embedding is not supported: export the module without it");
  if (StringRef(call.argument(2, "padding_idx")).getAsInteger(10, padding) || padding < 0)
    return rows;
  Value trains = n.compareTo(Predicate::ne, indices, padding);
  return n.op<StraightThroughOp>(n.keepWhere(n.broadcast(trains, shapeOf(rows), dimRange(0, n.rankOf(indices))), rows),
                                 rows);
}

static Results importGather(N &n) {
  Value x = n.in(0);
  int64_t axis = n.axisAttr(0, n.rankOf(x));
  if (Value counted = gatherCounted(n, x, n.in(1), axis))
    return {axis == 0 ? embedding(n, n.in(1), counted) : counted};
  Value indices = n.index(n.in(1), shapeOf(x)[axis]), rows = n.gather(x, indices, axis);
  return {axis == 0 ? embedding(n, indices, rows) : rows};
}

static Results importGatherElements(N &n) {
  Value x = n.in(0);
  int64_t axis = n.axisAttr(0, n.rankOf(x));
  return {n.op<GatherElementsOp>(x, n.index(n.in(1), shapeOf(x)[axis]), axis)};
}

/// The length of index vectors into x, behind `batch` dimensions; checks that they are such vectors.
static int64_t depthOf(N &n, Value vectors, Value x, int64_t batch) {
  if (!isa<IntegerType>(n.elementOf(vectors)) || n.rankOf(vectors) < 1)
    fail("its indices are not vectors of integers");
  int64_t depth = shapeOf(vectors).back();
  if (batch < 0 || depth < 0 || batch > n.rankOf(x) || depth > n.rankOf(x) - batch)
    fail("index vectors of length ", depth, " are too long for ", shapeText(shapeOf(x)));
  return depth;
}

/// Index vectors without negative components, which count from the end of the dimensions of x.
static Value indexVectors(N &n, Value vectors, Value x, int64_t batch) {
  int64_t depth = depthOf(n, vectors, x, batch);
  return depth == 0 ? n.cast(vectors, n.i64()) : n.index(vectors, shapeOf(x).slice(batch, depth));
}

static Results importGatherNd(N &n) {
  Value x = n.in(0);
  int64_t batch = n.integer("batch_dims", 0), depth = depthOf(n, n.in(1), x, batch);
  if (!isTable(n, x))
    if (Value counted = gatherAtCounters(n, x, n.in(1), batch))
      return {counted};
  Value vectors = indexVectors(n, n.in(1), x, batch);
  if (batch != 0 || depth == 0 || !isTable(n, x))
    return {n.op<GatherNdOp>(x, vectors, batch)};
  // Slices of a table are a look-up along one dimension, which follows a split of the indices.
  Shape index(shapeOf(vectors).drop_back()), rows(shapeOf(x).drop_front(depth));
  int64_t count = 1;
  Value flat;
  for (int64_t k = depth - 1; k >= 0; --k) {
    Value component = n.reshape(n.sliceDim(vectors, index.size(), k, 1), index);
    flat = n.addMaybe(flat, count == 1 ? component : n.scale(component, (double)count));
    count *= shapeOf(x)[k];
  }
  rows.insert(rows.begin(), count);
  return {n.gather(n.reshape(x, rows), flat, 0)};
}

//===- Scatter ------------------------------------------------------------===//

static Combine combineOf(N &n) {
  std::string reduction = n.text("reduction", "none");
  if (reduction == "none")
    return Combine::assign;
  if (auto combine = symbolizeCombine(reduction); combine && *combine != Combine::assign)
    return *combine;
  fail("reduction '", reduction, "' is not known");
}

/// Whether indices along an axis are known to differ, as those of TopK do.
static bool areDistinct(N &n, Value indices, int64_t axis) {
  auto shape = shapeOf(indices);
  if (shape[axis] <= 1)
    return true;
  if (auto known = n.known(indices)) {
    int64_t stride = 1;
    for (int64_t size : shape.drop_front(axis + 1))
      stride *= size;
    std::set<std::pair<int64_t, int64_t>> seen; // position without the axis, index
    for (auto [i, index] : llvm::enumerate(integersOf(*known)))
      if (!seen.insert({(int64_t)i / (stride * shape[axis]) * stride + (int64_t)i % stride, index}).second)
        return false;
    return true;
  }
  while (isa_and_nonnull<CastOp>(indices.getDefiningOp()))
    indices = indices.getDefiningOp()->getOperand(0);
  auto topK = dyn_cast_or_null<TopKOp>(indices.getDefiningOp());
  return topK && (int64_t)topK.getDim() == axis;
}

/// TorchScript's exporter writes index_add without a reduction, so that of values with one index a single one stays.
static void warnOfRepeats(N &n, int64_t axis) {
  Value updates = n.in(2);
  auto known = n.known(updates);
  const bool fits = n.rankOf(n.in(1)) == n.rankOf(n.in(0)); // else the operation refuses them
  if (fits && combineOf(n) == Combine::assign && n.isFloat(updates) && !(known && known->isSplat()) &&
      n.model.isFromPyTorch() && CallNotes(n.node).target.empty() && !areDistinct(n, n.in(1), axis))
    n.model.warn(textOf(
        "node '", describe(n.node, n.name),
        "' (ScatterElements) has no reduction: where its indices repeat, one of the values ",
        "stays. If it is an index_add of the module, the exporter has dropped the sum: export with dynamo=True"));
}

/// Whether the node belongs to a torch.scatter_reduce with the mean, which torch.export writes without a reduction.
static bool isScatteredMean(N &n, const CallNotes &call) {
  return StringRef(call.target).starts_with("aten.scatter_reduce.") && call.argument(4, "reduce") == "mean" &&
         combineOf(n) == Combine::assign;
}

static Results importScatterElements(N &n) {
  Value x = n.in(0), updates = n.in(2);
  int64_t axis = n.axisAttr(0, n.rankOf(x));
  warnOfRepeats(n, axis);
  Value indices = n.index(n.in(1), shapeOf(x)[axis]);
  auto scatter = [&](Value into, Value what, Combine combine) {
    return n.op<ScatterElementsOp>(into.getType(), into, indices, what, axis, combine);
  };
  CallNotes call(n.node);
  const bool withSelf = call.argument(5, "include_self") != "False";
  // Without `include_self`, a first node replaces x by zero where the second one adds something.
  if (!isScatteredMean(n, call) || (!withSelf && n.knownNumber(updates) == 0.0))
    return {scatter(x, updates, combineOf(n))};
  if (!n.isFloat(x))
    fail("the mean of integers is not supported: scatter floats");
  Value sum = scatter(x, updates, Combine::add), own = n.splatLike(x, withSelf), ones = n.splatLike(updates, 1);
  Value count = scatter(own, ones, Combine::add);
  return {n.div(sum, n.op<MaxOp>(count, n.splatLike(x, 1)))};
}

static Results importScatterNd(N &n) {
  Value x = n.in(0);
  int64_t batch = 0, depth = depthOf(n, n.in(1), x, batch);
  Shape slices(shapeOf(n.in(1)).drop_back());
  llvm::append_range(slices, shapeOf(x).drop_front(depth));
  if (shapeOf(n.in(2)) != ArrayRef<int64_t>(slices))
    fail("its updates ", shapeText(shapeOf(n.in(2))), " should be ", shapeText(slices));
  Value vectors = withoutCounters(n, x, n.in(1), batch);
  if (!vectors)
    vectors = indexVectors(n, n.in(1), x, batch);
  return {n.op<ScatterNdOp>(x.getType(), x, vectors, n.in(2), batch, combineOf(n))};
}

//===- OneHot, TopK, CumSum -----------------------------------------------===//

/// Compares indices with a counter along an axis: values[1] where they are equal, else values[0]. Any index is valid.
static Results importOneHot(N &n) {
  Value indices = n.in(0), values = n.in(2);
  int64_t depth = n.integerInput(1, "depth"), rank = n.rankOf(indices) + 1, axis = n.axisAttr(-1, rank);
  if (shapeOf(values) != ArrayRef<int64_t>(2))
    fail("its values are not two");
  Shape shape(shapeOf(indices));
  shape.insert(shape.begin() + axis, depth);
  checkedElements(shape);
  indices = n.cast(indices, n.i64());
  Value fromEnd = n.addConst(indices, depth);
  indices = n.select(n.compareTo(Predicate::lt, indices, 0), fromEnd, indices);
  Value place = n.broadcastAlong(indices, shape, {axis});
  Value hit = n.compare(Predicate::eq, n.iota(shape, axis), place);
  auto entry = [&](int64_t i) { return n.broadcastTo(n.sliceDim(values, 0, i, 1), shape); };
  Value off = entry(0);
  return {n.select(hit, entry(1), off)};
}

static Results importTopK(N &n) {
  Value x = n.in(0);
  int64_t axis = n.axisAttr(-1, n.rankOf(x));
  int64_t k = n.opset < 10 ? n.integer("k", -1) : n.integerInput(1, "k");
  if (k < 0)
    fail("k is ", k);
  Operation *op = n.create<TopKOp>(x, k, axis, n.integer("largest", 1) == 0);
  return {op->getResult(0), op->getResult(1)};
}

/// Running sums of integers that are known during import: shapes follow from them (repeat_interleave).
static Shape runningSums(Shape values, llvm::ArrayRef<int64_t> shape, int64_t axis, bool exclusive, bool reverse) {
  int64_t size = shape[axis], inner = llvm::product_of(shape.drop_front(axis + 1)), all = values.size();
  for (int64_t outer = 0; outer < all; outer += size * inner)
    for (int64_t first = outer; first < outer + inner; ++first) {
      uint64_t sum = 0;
      for (int64_t i = 0; i < size; ++i) {
        int64_t &value = values[first + (reverse ? size - 1 - i : i) * inner];
        uint64_t next = sum + (uint64_t)value;
        value = exclusive ? sum : next;
        sum = next;
      }
    }
  return values;
}

static Results importCumSum(N &n) {
  Value x = n.in(0);
  Type element = n.elementOf(x);
  int64_t axis = n.axis(n.integerInput(1, "axis"), n.rankOf(x));
  bool exclusive = n.integer("exclusive", 0) != 0, reverse = n.integer("reverse", 0) != 0;
  if (element.isInteger(64))
    if (auto known = n.known(x))
      return {n.integerTensor(runningSums(integersOf(*known), shapeOf(x), axis, exclusive, reverse), shapeOf(x))};
  return {n.op<CumsumOp>(x.getType(), x, axis, exclusive, reverse)};
}

/// The running product: each step doubles the number of factors.
static Results importCumProd(N &n) {
  Value x = n.in(0);
  int64_t axis = n.axis(n.integerInput(1, "axis"), n.rankOf(x)), size = shapeOf(x)[axis];
  bool exclusive = n.integer("exclusive", 0), reverse = n.integer("reverse", 0);
  // x moved by `by` places along the axis; ones come in.
  auto moved = [&](Value v, int64_t by) {
    Shape low(n.rankOf(v), 0), shape(shapeOf(v));
    low[axis] = reverse ? 0 : by;
    return n.pad(n.sliceDim(v, axis, reverse ? by : 0, size - by), low, shape, 1);
  };
  Value y = exclusive && size ? moved(x, 1) : x;
  for (int64_t by = 1; by < size; by *= 2)
    y = n.mul(y, moved(y, by));
  return {y};
}

//===- Compress, ReverseSequence, TensorScatter ---------------------------===//

/// Keeps the slices for which the condition is true. It must be known during import.
static Results importCompress(N &n) {
  Value x = n.in(0);
  Shape condition = n.integersInput(1, "condition"), kept;
  if (!n.hasAttr("axis"))
    x = n.reshape(x, {tensorType(x).getNumElements()});
  int64_t axis = n.axisAttr(0, n.rankOf(x));
  for (auto [i, keep] : llvm::enumerate(condition))
    if (keep && (int64_t)i < shapeOf(x)[axis])
      kept.push_back(i);
  return {n.gather(x, n.indices(kept), axis)};
}

/// Reverses the first `length` elements along time and keeps the others; each batch entry has its own length.
static Results importReverseSequence(N &n) {
  Value x = n.in(0), lengths = n.in(1);
  int64_t time = n.axis(n.integer("time_axis", 0), n.rankOf(x)),
          batch = n.axis(n.integer("batch_axis", 1), n.rankOf(x));
  auto shape = shapeOf(x);
  if (time == batch || shapeOf(lengths) != ArrayRef<int64_t>(shape[batch]))
    fail("its sequence lengths do not fit ", shapeText(shape));
  n.limit(lengths, 0, shape[time] + 1);
  Value position = n.iota(shape, time), length = n.along(n.cast(lengths, n.i64()), shape, batch);
  Value mirrored = n.addConst(n.sub(length, position), -1);
  Value from = n.select(n.compare(Predicate::lt, position, length), mirrored, position);
  return {n.op<GatherElementsOp>(x, from, time)};
}

/// Writes updates into a cache along an axis, from an index of each batch entry on.
static Results importTensorScatter(N &n) {
  Value x = n.in(0), updates = n.in(1);
  int64_t axis = n.axisAttr(-2, n.rankOf(x)), size = shapeOf(x)[axis];
  std::string mode = n.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    fail("mode '", mode, "' is neither linear nor circular");
  auto shape = shapeOf(updates);
  Value at = axis < (int64_t)shape.size() ? n.iota(shape, axis) : Value();
  if (Value first = n.maybe(2); first && at) {
    if (shapeOf(first) != ArrayRef<int64_t>(shape[0]))
      fail("its write_indices ", shapeText(shapeOf(first)), " do not fit ", shapeText(shape));
    n.limit(first, 0, mode == "circular" ? int64_t(1) << 31 : size - shape[axis] + 1);
    at = n.add(at, n.along(n.cast(first, n.i64()), shape, 0));
  }
  if (!at || !size)
    fail("updates ", shapeText(shape), " do not fit ", shapeText(shapeOf(x)));
  if (mode == "circular")
    at = n.op<RemOp>(at, n.splatLike(at, size));
  return {n.op<ScatterElementsOp>(x.getType(), x, at, updates, axis, Combine::assign)};
}

/// Puts elements back to where MaxPool took them from: indices count the elements of the whole result.
static Results importMaxUnpool(N &n) {
  Value x = n.in(0), indices = n.in(1);
  auto spatial = spatialShape(x);
  size_t count = spatial.size();
  Shape kernel = spatialAttr(n, "kernel_shape", count, 0, 1), strides = spatialAttr(n, "strides", count, 1, 1);
  Shape pads = n.integers("pads").value_or(Shape(2 * count, 0)), shape(shapeOf(x).take_front(2)), flat, tight = shape;
  if (pads.size() != 2 * count || shapeOf(indices) != shapeOf(x))
    fail("its pads or indices do not fit ", shapeText(shapeOf(x)));
  for (size_t d = 0; d < count; ++d) {
    if (spatial[d] > INT32_MAX)
      fail("its input ", shapeText(shapeOf(x)), " is too large");
    tight.push_back((spatial[d] - 1) * strides[d] + kernel[d] - pads[d] - pads[d + count]);
  }
  shape = n.has(2) ? n.integersInput(2, "output_shape") : tight;
  // Indices count in the tight shape. A larger result is filled behind it.
  int64_t total = checkedElements(tight), number = tensorType(x).getNumElements();
  if (shape.size() != tight.size())
    fail("its output_shape has ", shape.size(), " dimensions, not ", tight.size());
  checkedElements(shape);
  Value zeros = n.splatOf({total}, n.elementOf(x), 0), at = n.index(n.reshape(indices, {number}), total);
  Value y = n.op<ScatterElementsOp>(zeros.getType(), zeros, at, n.reshape(x, {number}), 0, Combine::assign);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] < tight[d])
      fail("its output_shape ", shapeText(shape), " is smaller than ", shapeText(tight));
  return {n.pad(n.reshape(y, tight), Shape(shape.size(), 0), shape)};
}

llvm::ArrayRef<Operator> divisi::compiler::indexingOperators() {
  static constexpr Operator rows[] = {
      {"Compress", 9, newest, importCompress},
      {"CumProd", 26, newest, importCumProd},
      {"CumSum", 11, newest, importCumSum},
      {"Gather", 1, newest, importGather},
      {"GatherElements", 11, newest, importGatherElements},
      {"GatherND", 11, newest, importGatherNd},
      {"MaxUnpool", 9, newest, importMaxUnpool},
      {"OneHot", 9, newest, importOneHot},
      {"ReverseSequence", 10, newest, importReverseSequence},
      {"Scatter", 9, newest, importScatterElements},
      {"ScatterElements", 11, newest, importScatterElements},
      {"ScatterND", 11, newest, importScatterNd},
      {"TensorScatter", 24, newest, importTensorScatter},
      {"TopK", 1, newest, importTopK},
  };
  return rows;
}
