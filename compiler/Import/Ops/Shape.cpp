#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

static Results importIdentity(N &n) {
  if (n.numInputs() != 1)
    fail("it needs one input");
  const Item &item = n.item(0);
  bool stops = CallNotes(n.node).isDetach() && !n.model.options.forwardOnly && item.tensor &&
               n.isFloat(item.tensor) && !item.tensor.getDefiningOp<ConstantOp>();
  return {stops ? Item(n.withoutGradient(item.tensor)) : item};
}

//===- Reshape and its kin ------------------------------------------------===//

static Results importReshape(N &n) {
  Value x = n.in(0);
  Shape shape = n.integersInput(1, "shape");
  int64_t known = 1, unknown = -1;
  for (auto [d, size] : llvm::enumerate(shape)) {
    if (size == -1) {
      if (unknown >= 0)
        fail("its shape leaves two dimensions open");
      unknown = d;
      continue;
    }
    if (size == 0 && !n.integer("allowzero", 0)) {
      if ((int64_t)d >= n.rankOf(x))
        fail("its shape copies dimension ", d, " of a tensor of rank ", n.rankOf(x));
      size = shapeOf(x)[d];
    }
    if (size < 0 || size > maxElements || (known *= size) > maxElements)
      fail("its shape is not valid: ", shapeText(shape));
  }
  int64_t count = tensorType(x).getNumElements();
  if (unknown >= 0) {
    if (known == 0 ? count != 0 : count % known != 0)
      fail("cannot reshape ", shapeText(shapeOf(x)), " to ", shapeText(shape));
    shape[unknown] = known ? count / known : 0;
  }
  return {n.reshape(x, shape)};
}

static Results importFlatten(N &n) {
  Value x = n.in(0);
  int64_t rank = n.rankOf(x), axis = n.integer("axis", 1);
  axis = axis == rank ? rank : n.axis(axis, rank);
  auto shape = shapeOf(x);
  return {n.reshape(x, {llvm::product_of(shape.take_front(axis)), llvm::product_of(shape.drop_front(axis))})};
}

static Results importSqueeze(N &n) {
  Value x = n.in(0);
  auto given = n.integersFrom("axes", 1);
  Shape axes = given ? n.axes(*given, n.rankOf(x)) : Shape(), shape;
  for (auto [d, size] : llvm::enumerate(shapeOf(x))) {
    bool named = llvm::is_contained(axes, (int64_t)d) && !(size != 1 && n.model.isFromPyTorch()); // PyTorch keeps such dimensions
    if (named && size != 1)
      fail("cannot squeeze dimension ", d, " of size ", size);
    if (given ? !named : size != 1)
      shape.push_back(size);
  }
  return {n.reshape(x, shape)};
}

static Results importUnsqueeze(N &n) {
  Value x = n.in(0);
  auto given = n.integersFrom("axes", 1);
  if (!given)
    fail("it has no axes");
  int64_t rank = n.rankOf(x) + given->size();
  Shape axes = n.axes(*given, rank), shape;
  for (int64_t d = 0, from = 0; d < rank; ++d)
    shape.push_back(llvm::is_contained(axes, d) ? 1 : shapeOf(x)[from++]);
  return {n.reshape(x, shape)};
}

static Results importTranspose(N &n) {
  Value x = n.in(0);
  Shape permutation = n.integers("perm").value_or(Shape(llvm::reverse(dimRange(0, n.rankOf(x)))));
  if ((int64_t)permutation.size() != n.rankOf(x))
    fail("perm has ", permutation.size(), " entries for a tensor of rank ", n.rankOf(x));
  return {n.transpose(x, permutation)};
}

//===- Expand, Tile -------------------------------------------------------===//

static Results importExpand(N &n) {
  Value x = n.in(0);
  Shape shape = n.integersInput(1, "shape");
  checkedElements(shape);
  return {n.broadcastTo(x, broadcastShape({shapeOf(x), shape}))};
}

/// Tiles by a broadcast: each dimension gets a new dimension before it, along which it is repeated.
static Results importTile(N &n) {
  Value x = n.in(0);
  Shape repeats = n.integersInput(1, "repeats"), wide, dims, shape;
  if ((int64_t)repeats.size() != n.rankOf(x))
    fail("repeats has ", repeats.size(), " entries for a tensor of rank ", n.rankOf(x));
  checkedElements(repeats);
  for (auto [d, size] : llvm::enumerate(shapeOf(x))) {
    if (repeats[d] != 1)
      wide.push_back(repeats[d]);
    dims.push_back(wide.size());
    wide.push_back(size);
    shape.push_back(repeats[d] * size);
  }
  checkedElements(shape);
  return {n.reshape(n.broadcast(x, wide, dims), shape)};
}

//===- Concat, Split, Slice -----------------------------------------------===//

static Results importConcat(N &n) {
  auto inputs = n.all();
  if (!n.hasAttr("axis"))
    fail("it has no axis");
  return {n.concat(inputs, n.axisAttr(0, n.rankOf(inputs[0])))};
}

static Results importSplit(N &n) {
  Value x = n.in(0);
  int64_t axis = n.axisAttr(0, n.rankOf(x)), size = shapeOf(x)[axis], start = 0;
  auto given = n.integersFrom("split", 1);
  Shape sizes = given.value_or(Shape());
  if (!given) { // the last one may be smaller
    int64_t parts = n.integer("num_outputs", n.node.output_size());
    if (parts < 1 || parts > n.node.output_size())
      fail("cannot split into ", parts, " parts");
    int64_t each = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  Results results;
  for (int64_t part : sizes) {
    if (part < 0 || part > size - start)
      fail("its parts do not fit into dimension ", axis, " of size ", size);
    results.push_back(n.sliceDim(x, axis, start, part));
    start += part;
  }
  if (start != size)
    fail("its parts do not fill dimension ", axis, " of size ", size);
  return results;
}

static Value slice(N &n, Value x, const Shape &starts, const Shape &ends, Shape axes, Shape steps) {
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    fail("starts, ends, axes and steps differ in length");
  Shape first(n.rankOf(x), 0), sizes(shapeOf(x)), by(n.rankOf(x), 1);
  llvm::SmallBitVector seen(n.rankOf(x));
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t d = n.axis(axes[i], n.rankOf(x)), size = shapeOf(x)[d], step = steps[i];
    if (seen.test(d))
      fail("axis ", d, " is named twice");
    seen.set(d);
    if (step == 0)
      fail("a step is zero");
    step = std::clamp(step, -maxElements, maxElements);
    int64_t start = starts[i] < 0 ? std::max(starts[i], -size - 1) + size : starts[i];
    int64_t end = ends[i] < 0 ? std::max(ends[i], -size - 1) + size : ends[i];
    start = std::clamp<int64_t>(start, 0, step > 0 ? size : size - 1);
    end = std::clamp<int64_t>(end, step > 0 ? 0 : -1, size);
    int64_t span = step > 0 ? end - start : start - end;
    sizes[d] = span <= 0 || size == 0 ? 0 : (span + std::abs(step) - 1) / std::abs(step);
    first[d] = sizes[d] ? start : 0;
    by[d] = step;
  }
  return n.slice(x, first, sizes, by);
}
static Results importSlice(N &n) {
  Value x = n.in(0);
  Shape starts = n.integersInput(1, "starts"), ends = n.integersInput(2, "ends");
  Shape axes = n.has(3) ? n.integersInput(3, "axes") : dimRange(0, starts.size());
  Shape steps = n.has(4) ? n.integersInput(4, "steps") : Shape(starts.size(), 1);
  return {slice(n, x, starts, ends, axes, steps)};
}
/// Before opset 10, the bounds were attributes.
static Results importSlice1(N &n) {
  Shape starts = n.integers("starts").value_or(Shape()), ends = n.integers("ends").value_or(Shape());
  Shape axes = n.integers("axes").value_or(dimRange(0, starts.size()));
  return {slice(n, n.in(0), starts, ends, axes, Shape(starts.size(), 1))};
}

//===- Shape, Size --------------------------------------------------------===//

static Results importShape(N &n) {
  auto shape = shapeOf(n.in(0));
  int64_t rank = shape.size();
  auto bound = [&](int64_t value) {
    return std::clamp<int64_t>(value < 0 ? std::max(value, -rank) + rank : value, 0, rank);
  };
  int64_t start = bound(n.integer("start", 0)), end = bound(n.integer("end", rank));
  return {n.indices(shape.slice(start, std::max<int64_t>(0, end - start)))};
}
static Results importSize(N &n) {
  int64_t size = tensorType(n.in(0)).getNumElements();
  return {n.integerTensor(size, {})};
}

llvm::ArrayRef<Operator> divisi::compiler::shapeOperators() {
  static constexpr Operator rows[] = {
      {"Concat", 4, newest, importConcat},       {"Expand", 8, newest, importExpand},
      {"Flatten", 1, newest, importFlatten},     {"Identity", 1, newest, importIdentity},
      {"Reshape", 5, newest, importReshape},     {"Shape", 1, newest, importShape},
      {"Size", 1, newest, importSize},           {"Slice", 1, 9, importSlice1},
      {"Slice", 10, newest, importSlice},        {"Split", 2, newest, importSplit},
      {"Squeeze", 1, newest, importSqueeze},     {"Tile", 6, newest, importTile},
      {"Transpose", 1, newest, importTranspose}, {"Unsqueeze", 1, newest, importUnsqueeze},
  };
  return rows;
}
