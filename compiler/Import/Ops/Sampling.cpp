#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Window.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

//===- Interpolation at computed places -----------------------------------===//

namespace {
enum class Padding { zeros, border, reflection };
enum class Mode { nearest, linear, cubic };

/// Images, [batch, channels, spatial..], that are read at places.
struct Images {
  Value rows; // [batch, product of spatial, channels]
  Shape spatial;
  int64_t batch, channels;
};

/// A neighbour along one dimension, [batch, places]: its whole coordinate, and its weight, or null for one.
struct Neighbour {
  Value at, weight;
};
} // namespace

static Images imagesOf(N &n, Value x) {
  Images images{{}, Shape(spatialShape(x)), shapeOf(x)[0], shapeOf(x)[1]};
  int64_t count = llvm::product_of(images.spatial), rank = n.rankOf(x);
  if (count == 0)
    fail("its input ", shapeText(shapeOf(x)), " is empty");
  Shape order = dimRange(2, rank);
  order.insert(order.begin(), 0);
  order.push_back(1);
  images.rows = n.reshape(n.transpose(x, order), {images.batch, count, images.channels});
  return images;
}

/// x mirrored at `low` and `high` until it is between them.
static Value reflected(N &n, Value x, double low, double high) {
  double span = high - low;
  if (span == 0)
    return n.splatLike(x, low);
  Value distance = n.op<AbsOp>(n.addConst(x, -low));
  Value turns = n.op<FloorOp>(n.scale(distance, 1 / (2 * span)));
  Value within = n.sub(distance, n.scale(turns, 2 * span));
  Value back = n.addConst(n.neg(within), 2 * span);
  return n.addConst(n.select(n.compareTo(Predicate::gt, within, span), back, within), low);
}

/// The elements at whole coordinates, one for each spatial dimension, as [batch, places, channels].
static Value elementsAt(N &n, const Images &images, ArrayRef<Value> at, Padding padding, bool alignCorners) {
  Value inside, flat;
  for (size_t d = 0; d < at.size(); ++d) {
    Value place = at[d];
    double last = (double)images.spatial[d] - 1;
    if (padding == Padding::zeros) {
      Value below = n.compareTo(Predicate::le, place, last);
      Value here = n.both(n.compareTo(Predicate::ge, place, 0), below);
      inside = inside ? n.both(inside, here) : here;
    }
    if (padding == Padding::reflection)
      place = alignCorners ? reflected(n, place, 0, last) : reflected(n, place, -0.5, last + 0.5);
    Value index = n.cast(n.clamp(place, 0, last), n.i64());
    flat = flat ? n.add(n.scale(flat, (double)images.spatial[d]), index) : index;
  }
  int64_t places = shapeOf(flat)[1];
  Value y = n.op<GatherNdOp>(images.rows, n.reshape(flat, {images.batch, places, 1}), 1);
  return inside ? n.keepWhere(n.broadcast(inside, shapeOf(y), {0, 1}), y) : y;
}

/// The neighbours of places along one dimension. Cubic weights: Keys (IEEE ASSP 29(6), 1981) with a = -0.75.
static SmallVector<Neighbour> neighboursOf(N &n, Value x, Mode mode) {
  if (mode == Mode::nearest)
    return {{n.op<RoundOp>(x), {}}};
  Value first = n.op<FloorOp>(x), t = n.sub(x, first), rest = n.addConst(n.neg(t), 1);
  if (mode == Mode::linear)
    return {{first, rest}, {n.addConst(first, 1), t}};
  const double a = -0.75;
  auto near = [&](Value d) { // distances up to 1
    Value inner = n.addConst(n.scale(d, a + 2), -(a + 3));
    return n.addConst(n.mul(inner, n.mul(d, d)), 1);
  };
  auto far = [&](Value d) { // distances from 1 to 2
    Value inner = n.addConst(n.scale(d, a), -5 * a);
    return n.addConst(n.mul(n.addConst(n.mul(inner, d), 8 * a), d), -4 * a);
  };
  return {{n.addConst(first, -1), far(n.addConst(t, 1))},
          {first, near(t)},
          {n.addConst(first, 1), near(rest)},
          {n.addConst(first, 2), far(n.addConst(rest, 1))}};
}

/// Calls `visit(element, weight)` with each neighbour of the places, [batch, places, channels]; a null weight is one.
static void forEachNeighbour(N &n, const Images &images, ArrayRef<Value> places, Mode mode, Padding padding,
                             bool alignCorners, llvm::function_ref<void(Value, Value)> visit) {
  SmallVector<SmallVector<Neighbour>> all;
  for (Value place : places)
    all.push_back(neighboursOf(n, place, mode));
  SmallVector<size_t> choice(places.size(), 0);
  for (bool more = true; more;) {
    SmallVector<Value> at;
    Value weight;
    for (auto [d, c] : llvm::enumerate(choice)) {
      const Neighbour &one = all[d][c];
      at.push_back(one.at);
      weight = weight && one.weight ? n.mul(weight, one.weight) : weight ? weight : one.weight;
    }
    Value y = elementsAt(n, images, at, padding, alignCorners);
    visit(y, weight ? n.broadcast(n.cast(weight, n.elementOf(y)), shapeOf(y), {0, 1}) : Value());
    more = false;
    for (size_t d = choice.size(); d-- > 0 && !more;)
      more = ++choice[d] < all[d].size() || (choice[d] = 0);
  }
}

static Value interpolated(N &n, const Images &images, ArrayRef<Value> places, Mode mode, Padding padding,
                          bool alignCorners) {
  Value sum;
  forEachNeighbour(n, images, places, mode, padding, alignCorners,
                   [&](Value y, Value weight) { sum = n.addMaybe(sum, weight ? n.mul(y, weight) : y); });
  return sum;
}

/// Coordinates are computed in single precision, or in double.
static Value coordinates(N &n, Value x) {
  if (!n.isFloat(x))
    fail("its coordinates are of the type ", n.elementOf(x));
  return n.widened(x);
}

//===- GridSample ---------------------------------------------------------===//

/// The images at normalized places: grid is [batch, places.., spatial], with the last spatial dimension first.
static Results importGridSample(N &n) {
  Value x = n.in(0), grid = coordinates(n, n.in(1));
  Images images = imagesOf(n, x);
  size_t count = images.spatial.size();
  auto shape = shapeOf(grid);
  if (count > 3 || shape.size() != count + 2 || shape[0] != images.batch || shape.back() != (int64_t)count)
    fail("its grid ", shapeText(shape), " does not fit the input ", shapeText(shapeOf(x)));
  std::string mode = n.text("mode", n.opset < 20 ? "bilinear" : "linear"), outside = n.text("padding_mode", "zeros");
  bool corners = n.integer("align_corners", 0);
  std::optional<Mode> how;
  if (mode == "bilinear" || mode == "linear")
    how = Mode::linear;
  else if (mode == "bicubic" || mode == "cubic")
    how = Mode::cubic;
  else if (mode == "nearest")
    how = Mode::nearest;
  std::optional<Padding> padding;
  if (outside == "zeros")
    padding = Padding::zeros;
  else if (outside == "border")
    padding = Padding::border;
  else if (outside == "reflection")
    padding = Padding::reflection;
  if (!how || !padding)
    fail("mode '", mode, "' with padding_mode '", outside, "' is not known");
  Shape result{images.batch};
  llvm::append_range(result, shape.drop_front().drop_back());
  int64_t places = llvm::product_of(ArrayRef<int64_t>(result).drop_front());
  SmallVector<Value> at;
  for (size_t d = 0; d < count; ++d) {
    double size = (double)images.spatial[d];
    Value place = n.sliceDim(grid, (int64_t)shape.size() - 1, (int64_t)(count - 1 - d), 1);
    place = n.scale(n.addConst(n.reshape(place, {images.batch, places}), 1), (corners ? size - 1 : size) / 2);
    place = corners ? place : n.addConst(place, -0.5);
    if (*how != Mode::cubic && *padding == Padding::border)
      place = n.clamp(place, 0, size - 1);
    else if (*how != Mode::cubic && *padding == Padding::reflection)
      place = corners ? reflected(n, place, 0, size - 1) : reflected(n, place, -0.5, size - 0.5);
    at.push_back(place);
  }
  Value y = interpolated(n, images, at, *how, *padding, corners);
  result.push_back(images.channels);
  Shape order = dimRange(1, result.size() - 1);
  order.insert(order.begin(), {0, (int64_t)result.size() - 1});
  return {n.transpose(n.reshape(y, result), order)};
}

//===- RoiAlign -----------------------------------------------------------===//

/// Means (or largest elements) over a grid of places in each cell of regions, [regions, 4] with left, top, right, bottom.
static Results importRoiAlign(N &n) {
  Value x = n.in(0), regions = coordinates(n, n.in(1)), batch = n.in(2);
  int64_t height = n.integer("output_height", 1), width = n.integer("output_width", 1);
  int64_t samples = n.integer("sampling_ratio", 0), count = n.rankOf(regions) == 2 ? shapeOf(regions)[0] : -1;
  std::string mode = n.text("mode", "avg");
  std::string corners = n.text("coordinate_transformation_mode", n.opset < 16 ? "output_half_pixel" : "half_pixel");
  if (samples == 0)
    fail("a sampling_ratio of 0 counts places by the sizes of regions, which must be known when compiling");
  if (n.rankOf(x) != 4 || count < 0 || shapeOf(regions)[1] != 4 || height < 1 || width < 1 || samples < 0 ||
      std::max({height, width, samples}) > 1 << 12 || (mode != "avg" && mode != "max"))
    fail("regions ", shapeText(shapeOf(regions)), " do not fit the input ", shapeText(shapeOf(x)));
  if (shapeOf(batch) != ArrayRef<int64_t>(count))
    fail("its batch_indices ", shapeText(shapeOf(batch)), " do not name the image of each of ", count, " regions");
  Images images = imagesOf(n, n.gather(x, n.index(batch, shapeOf(x)[0]), 0));
  bool half = corners == "half_pixel";
  int64_t places = height * width * samples * samples;
  Shape grid{count, height, width, samples, samples}, flat{count, places};
  checkedElements(grid);
  Type element = n.elementOf(regions);
  double scale = n.number("spatial_scale", 1);
  auto edge = [&](int64_t column) {
    Value v = n.scale(n.reshape(n.sliceDim(regions, 1, column, 1), {count}), scale);
    return half ? n.addConst(v, -0.5) : v;
  };
  Value inside;
  SmallVector<Value> at;
  for (int64_t d : {0, 1}) { // rows and columns
    Value start = edge(1 - d), size = n.sub(edge(3 - d), start);
    int64_t cells = d ? width : height;
    double last = (double)images.spatial[d] - 1;
    if (!half)
      size = n.op<MaxOp>(size, n.splatLike(size, 1));
    Value cell = n.scale(n.broadcast(size, grid, {0}), 1.0 / cells);
    Value within = n.scale(n.addConst(n.iota(grid, 3 + d, element), 0.5), 1.0 / samples);
    Value offset = n.mul(cell, n.add(n.iota(grid, 1 + d, element), within));
    Value place = n.add(n.broadcast(start, grid, {0}), offset);
    place = n.reshape(place, flat);
    Value below = n.compareTo(Predicate::le, place, last + 1);
    Value here = n.both(n.compareTo(Predicate::ge, place, -1), below);
    inside = inside ? n.both(inside, here) : here;
    at.push_back(n.clamp(place, 0, last));
  }
  Value y;
  forEachNeighbour(n, images, at, Mode::linear, Padding::border, true, [&](Value one, Value weight) {
    Value part = n.mul(one, weight);
    y = !y ? part : mode == "avg" ? n.add(y, part) : n.op<MaxOp>(y, part);
  });
  y = n.keepWhere(n.broadcast(inside, shapeOf(y), {0, 1}), y);
  y = n.reshape(y, {count, height, width, samples * samples, images.channels});
  y = mode == "avg" ? n.reduceMean(y, {3}) : n.reduceMax(y, {3});
  return {n.transpose(y, {0, 3, 1, 2})};
}

//===- DeformConv ---------------------------------------------------------===//

/// A convolution of images whose window's elements are moved by offsets and multiplied by a mask.
static Results importDeformConv(N &n) {
  Value x = n.in(0), filter = n.in(1), offset = n.in(2);
  if (n.rankOf(x) != 4 || n.rankOf(filter) != 4 || n.rankOf(offset) != 4 || n.elementOf(x) != n.elementOf(filter))
    fail("it takes images with two spatial dimensions, not ", shapeText(shapeOf(x)));
  Shape kernel(shapeOf(filter).drop_front(2));
  Window w(n, spatialShape(x), kernel);
  int64_t groups = n.integer("group", 1), parts = n.integer("offset_group", 1), batch = shapeOf(x)[0];
  int64_t channels = shapeOf(x)[1], out = shapeOf(filter)[0], size = kernel[0] * kernel[1];
  int64_t rows = w.output[0], columns = w.output[1], count = rows * columns;
  if (groups < 1 || parts < 1 || channels % groups || channels % parts || out % groups ||
      shapeOf(filter)[1] != channels / groups)
    fail("filter ", shapeText(shapeOf(filter)), " does not fit ", channels, " channels in ", groups, " groups");
  Shape each{batch * parts, kernel[0], kernel[1], rows, columns}, expected{batch, parts * size * 2, rows, columns};
  if (parts > INT32_MAX || size > INT32_MAX || shapeOf(offset) != ArrayRef<int64_t>(expected))
    fail("its offsets ", shapeText(shapeOf(offset)), " are not ", shapeText(expected));
  checkedElements(each);
  Value moves = n.reshape(coordinates(n, offset), {batch * parts, kernel[0], kernel[1], 2, rows, columns});
  SmallVector<Value> at;
  for (int64_t d : {0, 1}) {
    Type element = n.elementOf(moves);
    Value start = n.scale(n.iota(each, 3 + d, element), (double)w.strides[d]);
    Value place = n.add(n.scale(n.iota(each, 1 + d, element), (double)w.dilations[d]), start);
    place = n.addConst(place, -(double)w.low[d]);
    at.push_back(n.reshape(n.add(place, n.reshape(n.sliceDim(moves, 3, d, 1), each)), {batch * parts, size * count}));
  }
  Images images = imagesOf(n, n.reshape(x, {batch * parts, channels / parts, shapeOf(x)[2], shapeOf(x)[3]}));
  Value y = interpolated(n, images, at, Mode::linear, Padding::zeros, true);
  if (Value mask = n.maybe(4)) {
    Value flat = n.reshape(mask, {batch * parts, size * count});
    y = n.mul(y, n.broadcast(n.cast(flat, n.elementOf(y)), shapeOf(y), {0, 1}));
  }
  int64_t own = channels / groups * size;
  y = n.transpose(n.reshape(y, {batch, parts, size, count, channels / parts}), {0, 1, 4, 2, 3});
  y = n.reshape(y, {batch, groups, own, count});
  Shape weights{batch, groups, out / groups, own};
  Value f = n.broadcast(n.reshape(filter, {groups, out / groups, own}), weights, {1, 2, 3});
  y = n.reshape(n.matmul(f, y), {batch, out, rows, columns});
  if (Value bias = n.maybe(3))
    y = n.add(y, n.along(bias, shapeOf(y), 1));
  return {y};
}

llvm::ArrayRef<Operator> divisi::compiler::samplingOperators() {
  static constexpr Operator rows[] = {
      {"DeformConv", 19, newest, importDeformConv},
      {"GridSample", 16, newest, importGridSample},
      {"RoiAlign", 10, newest, importRoiAlign},
  };
  return rows;
}
