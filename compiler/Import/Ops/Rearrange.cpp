#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

//===- Pad ----------------------------------------------------------------===//

namespace {
/// Numbers of elements that are added (or, if negative, removed) at both ends of each dimension.
struct Pads {
  Shape low, high;
};
} // namespace

static Pads padsOf(N &n, const Shape &given, const Shape &axes, int64_t rank) {
  if (given.size() != 2 * axes.size())
    fail("pads has ", given.size(), " entries for ", axes.size(), " dimensions");
  Pads pads{Shape(rank, 0), Shape(rank, 0)};
  for (auto [i, value] : llvm::enumerate(axes)) {
    int64_t d = n.axis(value, rank);
    if (std::max(std::abs(given[i] / 2), std::abs(given[i + axes.size()] / 2)) > maxElements / 2)
      fail("pads is too large");
    pads.low[d] = given[i], pads.high[d] = given[i + axes.size()];
  }
  return pads;
}

/// Crops by the negative pads, and sets them to zero.
static Value cropped(N &n, Value x, Pads &pads) {
  Shape starts(n.rankOf(x), 0), sizes(shapeOf(x));
  for (size_t d = 0; d < sizes.size(); ++d) {
    starts[d] = std::max<int64_t>(0, -pads.low[d]);
    sizes[d] -= starts[d] + std::max<int64_t>(0, -pads.high[d]);
    if (sizes[d] < 0)
      fail("pads cut more than dimension ", d, " has");
    pads.low[d] = std::max<int64_t>(0, pads.low[d]), pads.high[d] = std::max<int64_t>(0, pads.high[d]);
    starts[d] = sizes[d] ? starts[d] : 0;
  }
  return n.slice(x, starts, sizes);
}

static Value padConstant(N &n, Value x, const Pads &pads, double value) {
  Shape shape(shapeOf(x));
  for (size_t d = 0; d < shape.size(); ++d)
    shape[d] += pads.low[d] + pads.high[d];
  if (checkedElements(shapeOf(x)) == 0)
    return n.splatOf(shape, n.elementOf(x), value);
  return n.pad(x, pads.low, shape, value);
}

/// The position in [0, size) whose element is repeated at a position outside of it.
static int64_t repeated(const std::string &mode, int64_t position, int64_t size) {
  if (mode == "edge")
    return std::clamp<int64_t>(position, 0, size - 1);
  int64_t period = mode == "wrap" ? size : std::max<int64_t>(1, 2 * (size - 1));
  int64_t within = ((position % period) + period) % period;
  return within < size ? within : period - within;
}

static Value padRepeating(N &n, Value x, const Pads &pads, const std::string &mode) {
  for (int64_t d : dimRange(0, n.rankOf(x))) {
    int64_t size = shapeOf(x)[d], total = size + pads.low[d] + pads.high[d];
    if (total == size)
      continue;
    if (size == 0 || total > 1 << 24)
      fail("dimension ", d, " of size ", size, " cannot be padded to ", total);
    Shape from;
    for (int64_t i = 0; i < total; ++i)
      from.push_back(repeated(mode, i - pads.low[d], size));
    x = n.gather(x, n.indices(from), d);
  }
  return x;
}

static Value pad(N &n, Value x, Pads pads, double value) {
  std::string mode = n.text("mode", "constant");
  if (!llvm::is_contained({"constant", "reflect", "edge", "wrap"}, mode))
    fail("mode '", mode, "' is not known");
  x = cropped(n, x, pads);
  return mode == "constant" ? padConstant(n, x, pads, value) : padRepeating(n, x, pads, mode);
}
static Results importPad(N &n) {
  Value x = n.in(0);
  Shape axes = n.has(3) ? n.integersInput(3, "axes") : dimRange(0, n.rankOf(x));
  Pads pads = padsOf(n, n.integersInput(1, "pads"), axes, n.rankOf(x));
  bool computed = n.has(2) && n.text("mode", "constant") == "constant" && !n.known(n.in(2));
  if (!computed)
    return {pad(n, x, pads, n.has(2) ? n.numberInput(2, "constant_value") : 0)};
  // A computed value: selected where a padded tensor of ones is zero.
  Value padded = pad(n, x, pads, 0);
  Value inside = pad(n, n.splatOf(shapeOf(x), n.f32(), 1), pads, 0);
  Value value = n.broadcastTo(n.reshape(n.in(2), {}), shapeOf(padded));
  return {n.select(n.compareConst(Predicate::ne, inside, 0), padded, value)};
}
static Results importPad2(N &n) {
  Value x = n.in(0);
  Shape given = n.integers("pads").value_or(Shape());
  return {pad(n, x, padsOf(n, given, dimRange(0, n.rankOf(x)), n.rankOf(x)), n.number("value", 0))};
}

/// Pads or crops evenly at both ends.
static Results importCenterCropPad(N &n) {
  Value x = n.in(0);
  Shape target = n.integersInput(1, "shape"), axes = n.integers("axes").value_or(dimRange(0, n.rankOf(x)));
  if (target.size() != axes.size())
    fail("its shape has ", target.size(), " entries for ", axes.size(), " dimensions");
  checkedElements(target);
  Pads pads{Shape(n.rankOf(x), 0), Shape(n.rankOf(x), 0)};
  for (auto [i, value] : llvm::enumerate(axes)) {
    int64_t d = n.axis(value, n.rankOf(x)), more = target[i] - shapeOf(x)[d];
    pads.low[d] = more >= 0 ? more / 2 : -(-more / 2);
    pads.high[d] = more - pads.low[d];
  }
  x = cropped(n, x, pads);
  return {padConstant(n, x, pads, 0)};
}

//===- Blocks of space and depth ------------------------------------------===//

static int64_t blockOf(N &n, Value x) {
  int64_t block = n.integer("blocksize", 0);
  if (block < 1 || block > 1 << 15 || n.rankOf(x) != 4)
    fail("blocksize ", block, " does not fit the input ", shapeText(shapeOf(x)));
  return block;
}
static Results importDepthToSpace(N &n) {
  Value x = n.in(0);
  int64_t b = blockOf(n, x), c = shapeOf(x)[1] / (b * b), h = shapeOf(x)[2], w = shapeOf(x)[3], batch = shapeOf(x)[0];
  if (c * b * b != shapeOf(x)[1])
    fail("blocksize ", b, " does not divide ", shapeOf(x)[1], " channels");
  std::string mode = n.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    fail("mode '", mode, "' is neither DCR nor CRD");
  Value y = mode == "DCR" ? n.transpose(n.reshape(x, {batch, b, b, c, h, w}), {0, 3, 4, 1, 5, 2})
                          : n.transpose(n.reshape(x, {batch, c, b, b, h, w}), {0, 1, 4, 2, 5, 3});
  return {n.reshape(y, {batch, c, h * b, w * b})};
}
static Results importSpaceToDepth(N &n) {
  Value x = n.in(0);
  int64_t b = blockOf(n, x), c = shapeOf(x)[1], h = shapeOf(x)[2] / b, w = shapeOf(x)[3] / b, batch = shapeOf(x)[0];
  if (h * b != shapeOf(x)[2] || w * b != shapeOf(x)[3])
    fail("blocksize ", b, " does not divide ", shapeText(shapeOf(x)));
  bool channelsFirst = n.text("mode", "DCR") == "CRD";
  Shape order = channelsFirst ? Shape{0, 1, 3, 5, 2, 4} : Shape{0, 3, 5, 1, 2, 4};
  Value y = n.transpose(n.reshape(x, {batch, c, h, b, w, b}), order);
  return {n.reshape(y, {batch, c * b * b, h, w})};
}

//===- Trilu --------------------------------------------------------------===//

static Results importTrilu(N &n) {
  Value x = n.in(0);
  int64_t rank = n.rankOf(x), k = n.has(1) ? n.integerInput(1, "k") : 0;
  if (rank < 2)
    fail("its input ", shapeText(shapeOf(x)), " is not a matrix");
  k = std::clamp(k, -maxElements, maxElements);
  auto matrix = shapeOf(x).take_back(2);
  Value row = n.iota(matrix, 0), offset = n.sub(n.iota(matrix, 1), row), bound = n.splatLike(offset, k);
  Value kept = n.compare(n.integer("upper", 1) ? Predicate::ge : Predicate::le, offset, bound);
  return {n.keepWhere(n.broadcastTo(kept, shapeOf(x)), x)};
}

llvm::ArrayRef<Operator> divisi::compiler::rearrangeOperators() {
  static constexpr Operator rows[] = {
      {"CenterCropPad", 18, newest, importCenterCropPad},
      {"DepthToSpace", 1, newest, importDepthToSpace},
      {"Pad", 2, 10, importPad2},
      {"Pad", 11, newest, importPad},
      {"SpaceToDepth", 1, newest, importSpaceToDepth},
      {"Trilu", 14, newest, importTrilu},
  };
  return rows;
}
