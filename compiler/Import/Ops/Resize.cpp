#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Contraction.h"
#include "dialects/Graph/WholeNumber.h"

#include <cmath>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

namespace {
/// One resized dimension, and how its positions map to those of the original one.
struct Axis {
  int64_t dim, from, to;
  double scale, roiStart = 0, roiEnd = 1;
};

struct Settings {
  std::string mode, transformation, nearest;
  double cubic, extrapolation;
  bool excludeOutside, antialias;
};
} // namespace

/// More interpolation weights are refused.
static constexpr int64_t mostWeights = 1 << 24;

//===- Coordinates --------------------------------------------------------===//

/// The position in the original dimension for position i of the resized one.
static double original(const Axis &a, const std::string &transformation, int64_t i) {
  double length = a.scale * a.from, x = i;
  if (transformation == "align_corners")
    return length == 1 ? 0 : x * (a.from - 1) / (length - 1);
  if (transformation == "asymmetric")
    return x / a.scale;
  if (transformation == "tf_crop_and_resize") {
    double span = (a.roiEnd - a.roiStart) * (a.from - 1);
    return (length == 1 ? span / 2 : x * span / (length - 1)) + a.roiStart * (a.from - 1);
  }
  double half = (x + 0.5) / a.scale - 0.5;
  if (transformation == "pytorch_half_pixel")
    return length == 1 ? -0.5 : half;
  if (transformation == "half_pixel")
    return half;
  if (transformation == "half_pixel_symmetric")
    return half + a.from / 2.0 * (1 - a.to / length);
  fail("coordinate_transformation_mode '", transformation, "' is not known");
}

static int64_t nearestTo(double x, const std::string &mode) {
  if (mode == "round_prefer_floor")
    return std::ceil(x - 0.5);
  if (mode == "round_prefer_ceil")
    return std::floor(x + 0.5);
  if (mode == "floor")
    return std::floor(x);
  if (mode == "ceil")
    return std::ceil(x);
  fail("nearest_mode '", mode, "' is not known");
}

/// The interpolation kernel at distance x: a triangle, or Keys' cubic (IEEE ASSP 29(6), 1981).
static double weightAt(double x, const Settings &s) {
  x = std::abs(x);
  if (s.mode == "linear")
    return std::max(0.0, 1 - x);
  double a = s.cubic;
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Adds the weights of the original positions for one resized position to `row`.
static void addWeights(const Axis &a, const Settings &s, double x, llvm::MutableArrayRef<double> row) {
  double stretch = s.antialias ? std::min(a.scale, 1.0) : 1;
  int64_t left = (int64_t)std::ceil(x) - 1, start = (int64_t)std::floor(-(s.mode == "linear" ? 1 : 2) / stretch) + 1;
  double ratio = x - left, total = 0;
  auto weight = [&](int64_t offset) {
    int64_t at = left + offset;
    bool outside = at < 0 || at >= a.from;
    return s.excludeOutside && outside ? 0 : weightAt((offset - ratio) * stretch, s);
  };
  for (int64_t offset = start; offset < 2 - start; ++offset)
    total += weight(offset);
  for (int64_t offset = start; offset < 2 - start; ++offset)
    row[std::clamp<int64_t>(left + offset, 0, a.from - 1)] += weight(offset) / total;
}

//===- One dimension ------------------------------------------------------===//

/// Selects elements along a dimension: by a broadcast if each is repeated equally often, else by a gather.
static Value pick(N &n, Value x, int64_t dim, ArrayRef<int64_t> from) {
  int64_t size = shapeOf(x)[dim], times = size ? (int64_t)from.size() / size : 0;
  bool repeats = times && times * size == (int64_t)from.size();
  for (auto [i, position] : llvm::enumerate(from))
    repeats = repeats && position == (int64_t)i / times;
  if (!repeats)
    return n.gather(x, n.indices(from), dim);
  Shape shape(shapeOf(x)), wide = shape, dims = dimRange(0, shape.size());
  wide.insert(wide.begin() + dim + 1, times);
  for (int64_t d : dimRange(dim + 1, shape.size()))
    ++dims[d];
  shape[dim] *= times;
  return n.reshape(n.broadcast(x, wide, dims), shape);
}

/// Multiplies a tensor by a matrix of weights, [to, from], along one dimension.
static Value multiply(N &n, Value x, const Axis &a, ArrayRef<double> table) {
  int64_t rank = n.rankOf(x);
  Shape last = dimRange(0, rank);
  last.erase(last.begin() + a.dim);
  last.push_back(a.dim);
  Value moved = n.transpose(x, last);
  Shape shape(shapeOf(moved));
  Value flat = n.reshape(moved, {llvm::product_of(ArrayRef<int64_t>(shape).drop_back()), a.from});
  Value weights = n.numbers({a.to, a.from}, n.elementOf(x), table);
  shape.back() = a.to;
  Value result = n.reshape(n.matmul(flat, weights, false, true), shape);
  Shape back = dimRange(0, rank - 1);
  back.insert(back.begin() + a.dim, rank - 1);
  return n.transpose(result, back);
}

static Value resizeDim(N &n, Value x, const Axis &a, const Settings &s) {
  if (a.from == 0 || a.to == 0 || a.to > mostWeights || (s.mode != "nearest" && a.to * a.from > mostWeights))
    fail("cannot resize dimension ", a.dim, " from ", a.from, " to ", a.to);
  if (s.antialias && a.scale < 1e-6)
    fail("its scale ", a.scale, " is too small");
  Shape from;
  SmallVector<double> table(s.mode == "nearest" ? 0 : a.to * a.from);
  SmallVector<double> outside;
  bool same = a.from == a.to;
  for (int64_t i = 0; i < a.to; ++i) {
    double position = original(a, s.transformation, i);
    if (!std::isfinite(position) || std::abs(position) > 1e9)
      fail("its scale ", a.scale, " is not valid");
    outside.push_back(s.transformation == "tf_crop_and_resize" && (position < 0 || position > a.from - 1));
    same = same && position == i;
    if (s.mode == "nearest") // in float32, as runtimes do: 17 / 1.7 is 10, not less
      from.push_back(std::clamp<int64_t>(nearestTo((float)position, s.nearest), 0, a.from - 1));
    else
      addWeights(a, s, position, llvm::MutableArrayRef(table).slice(i * a.from, a.from));
  }
  if (same)
    return x;
  Value y = s.mode == "nearest" ? pick(n, x, a.dim, from) : multiply(n, x, a, table);
  if (llvm::none_of(outside, [](double o) { return o != 0; }))
    return y;
  Value beyond = n.along(n.numbers({a.to}, n.getBuilder().getI1Type(), outside), shapeOf(y), a.dim);
  return n.select(beyond, n.splatLike(y, s.extrapolation), y);
}

static Value resize(N &n, Value x, ArrayRef<Axis> axes, const Settings &s) {
  if (s.mode != "nearest" && s.mode != "linear" && s.mode != "cubic")
    fail("mode '", s.mode, "' is not known");
  Type element = n.elementOf(x);
  bool viaFloat = s.mode != "nearest" && !n.isFloat(x);
  Value result = viaFloat ? n.cast(x, n.f32()) : x;
  for (const Axis &axis : axes)
    result = resizeDim(n, result, axis, s);
  return n.cast(result, element);
}

//===- Resize, Upsample ---------------------------------------------------===//

/// The product is rounded to float32, as runtimes do: 10 * 0.7 is 7, though the file's 0.7 is a little less.
static int64_t scaledSize(int64_t from, double scale) {
  double to = std::floor((float)(from * scale));
  if (!(scale > 0) || !(to <= (double)maxElements))
    fail("its scale ", scale, " is not valid");
  return (int64_t)to;
}

/// The resized dimensions, from scales or from sizes with an aspect ratio policy.
static SmallVector<Axis> axesOf(N &n, Value x, const Shape &dims) {
  SmallVector<Axis> axes;
  if (n.has(2) && tensorType(n.in(2)).getNumElements() > 0) {
    auto scales = numbersOf(n.constantInput(2, "scales"));
    if (scales.size() != dims.size())
      fail("scales has ", scales.size(), " entries for ", dims.size(), " dimensions");
    for (auto [d, scale] : llvm::zip(dims, scales))
      axes.push_back({d, shapeOf(x)[d], scaledSize(shapeOf(x)[d], scale), scale});
    return axes;
  }
  Shape sizes = n.integersInput(3, "sizes");
  if (sizes.size() != dims.size())
    fail("sizes has ", sizes.size(), " entries for ", dims.size(), " dimensions");
  std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  for (auto [d, size] : llvm::zip(dims, sizes)) {
    if (size < 1 || size > maxElements || shapeOf(x)[d] < 1)
      fail("cannot resize dimension ", d, " from ", shapeOf(x)[d], " to ", size);
    double scale = (double)size / shapeOf(x)[d];
    axes.push_back({d, shapeOf(x)[d], size, scale});
    common = common == 0 ? scale : policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
  }
  if (policy != "stretch")
    for (Axis &axis : axes) {
      axis.scale = common;
      axis.to = wholeNumber(std::floor(common * axis.from + 0.5));
    }
  return axes;
}

static Results importResize(N &n) {
  Value x = n.in(0);
  Shape dims = n.integers("axes").value_or(dimRange(0, n.rankOf(x)));
  for (int64_t &d : dims)
    d = n.axis(d, n.rankOf(x));
  auto axes = axesOf(n, x, dims);
  Settings s{n.text("mode", "nearest"),
             n.text("coordinate_transformation_mode", "half_pixel"),
             n.text("nearest_mode", "round_prefer_floor"),
             n.number("cubic_coeff_a", -0.75),
             n.number("extrapolation_value", 0),
             n.integer("exclude_outside", 0) != 0,
             n.integer("antialias", 0) != 0};
  // By ONNX the last corner is that of a length that a scale need not make whole, by PyTorch that of the result.
  if (s.transformation == "align_corners" && n.model.isFromPyTorch()) {
    for (Axis &axis : axes)
      axis.scale = !s.antialias     ? (double)axis.to / axis.from
                   : axis.to > 1 ? (double)(axis.to - 1) / (axis.from - 1)
                                 : std::numeric_limits<double>::infinity(); // the first element
    if (s.antialias) // PyTorch's smoothing filter takes the scale from the corners, and does not align them
      s.transformation = "half_pixel";
  }
  if (s.transformation == "tf_crop_and_resize") {
    auto roi = numbersOf(n.constantInput(1, "roi"));
    if (roi.size() != 2 * axes.size())
      fail("roi has ", roi.size(), " entries for ", axes.size(), " dimensions");
    for (double end : roi)
      if (constexpr double most = 1e9; !(std::abs(end) <= most))
        fail("roi has an entry ", end);
    for (auto [i, axis] : llvm::enumerate(axes))
      axis.roiStart = roi[i], axis.roiEnd = roi[i + axes.size()];
  }
  return {resize(n, x, axes, s)};
}

/// Before opset 11: only scales, relative to the top left corner.
static Results importUpsample(N &n) {
  Value x = n.in(0);
  auto scales = n.hasAttr("scales") ? *n.floats("scales") : numbersOf(n.constantInput(1, "scales"));
  if ((int64_t)scales.size() != n.rankOf(x))
    fail("scales has ", scales.size(), " entries for a tensor of rank ", n.rankOf(x));
  SmallVector<Axis> axes;
  for (auto [d, scale] : llvm::enumerate(scales))
    axes.push_back({(int64_t)d, shapeOf(x)[d], scaledSize(shapeOf(x)[d], scale), scale});
  return {resize(n, x, axes, {n.text("mode", "nearest"), "asymmetric", "floor", -0.75, 0, false, false})};
}

//===- AffineGrid ---------------------------------------------------------===//

/// Multiplies homogeneous coordinates in [-1, 1], minor dimension first, by each matrix of a batch.
static Results importAffineGrid(N &n) {
  Value theta = n.in(0);
  Shape size = n.integersInput(1, "size");
  int64_t spatial = (int64_t)size.size() - 2;
  if ((spatial != 2 && spatial != 3) || n.rankOf(theta) != 3 || shapeOf(theta)[1] != spatial ||
      shapeOf(theta)[2] != spatial + 1 || !n.isFloat(theta))
    fail("matrices of shape ", shapeText(shapeOf(theta)), " do not fit the size ", shapeText(size));
  ArrayRef<int64_t> shape = ArrayRef<int64_t>(size).drop_front(2);
  int64_t points = checkedElements(shape), batch = shapeOf(theta)[0];
  if (points > mostWeights)
    fail("its size ", shapeText(size), " is too large");
  bool corners = n.integer("align_corners", 0);
  SmallVector<double> grid;
  for (int64_t point = 0; point < points; ++point) {
    int64_t rest = point;
    for (int64_t d = spatial - 1; d >= 0; rest /= shape[d--]) {
      double i = rest % shape[d], count = shape[d];
      grid.push_back(corners ? (count == 1 ? -1 : 2 * i / (count - 1) - 1) : (2 * i + 1) / count - 1);
    }
    grid.push_back(1);
  }
  Value coordinates =
      n.broadcastTo(n.numbers({points, spatial + 1}, n.elementOf(theta), grid), {batch, points, spatial + 1});
  Shape result{batch};
  llvm::append_range(result, shape);
  result.push_back(spatial);
  return {n.reshape(n.matmul(coordinates, theta, false, true), result)};
}

llvm::ArrayRef<Operator> divisi::compiler::resizeOperators() {
  static constexpr Operator rows[] = {
      {"AffineGrid", 20, newest, importAffineGrid},
      {"Resize", 10, 10, importUpsample},
      {"Resize", 11, newest, importResize},
      {"Upsample", 7, newest, importUpsample},
  };
  return rows;
}
