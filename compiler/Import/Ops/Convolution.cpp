#include "compiler/Import/Ops/Convolution.h"
#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Window.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

/// The largest number of elements of a block.
static constexpr int64_t maxBlock = 1 << 14;

/// The filter's spatial dimensions.
static Shape filterKernel(N &n, Value x, Value filter) {
  if (n.rankOf(filter) != n.rankOf(x) || n.rankOf(x) < 3 || n.rankOf(x) > 5)
    fail("input ", shapeText(shapeOf(x)), " and filter ", shapeText(shapeOf(filter)),
         " are not those of a 1- to 3-D "
         "convolution");
  if (n.elementOf(x) != n.elementOf(filter))
    fail("element types differ: ", n.elementOf(x), " and ", n.elementOf(filter));
  Shape kernel(shapeOf(filter).drop_front(2));
  if (auto said = n.integers("kernel_shape"); said && *said != kernel)
    fail("kernel_shape ", shapeText(*said), " is not the filter's ", shapeText(kernel));
  return kernel;
}

static int64_t groupsOf(N &n) {
  int64_t groups = n.integer("group", 1);
  if (groups < 1 || groups > INT32_MAX)
    fail("group is ", groups);
  return groups;
}

Value divisi::compiler::addPerChannel(N &n, Value y, Value bias) {
  if (n.rankOf(bias) != 1 || shapeOf(bias)[0] != shapeOf(y)[1])
    fail("its bias ", shapeText(shapeOf(bias)), " does not have one entry for each of ", shapeOf(y)[1], " channels");
  return n.add(y, n.along(bias, shapeOf(y), 1));
}
/// With torch.export a convolution without a bias has zeros of a shape that does not fit.
static Value addBias(N &n, Value y) {
  if (!n.has(2) || (n.model.isFromPyTorch() && n.knownNumber(n.in(2)) == 0.0))
    return y;
  return addPerChannel(n, y, n.in(2));
}

Value divisi::compiler::convolution(N &n, Value x, Value filter) {
  Window w(n, spatialShape(x), filterKernel(n, x, filter));
  Shape shape{shapeOf(x)[0], shapeOf(filter)[0]};
  llvm::append_range(shape, w.output);
  return n.op<ConvOp>(n.type(shape, n.elementOf(x)), x, filter, w.strides, w.dilations, w.low, w.high, groupsOf(n),
                      false);
}
static Results importConv(N &n) { return {addBias(n, convolution(n, n.in(0), n.in(1)))}; }

/// A depthwise convolution over past and present positions, [batch, channels, length], and the positions that the next
/// call continues.
static Results importCausalConvWithState(N &n) {
  Value x = n.in(0), filter = n.in(1), past = n.maybe(3);
  auto shape = shapeOf(x);
  if (shape.size() != 3 || n.rankOf(filter) != 3 || shapeOf(filter)[0] != shape[1] || shapeOf(filter)[1] != 1 ||
      shapeOf(filter)[2] < 1 || shape[1] > INT32_MAX || n.elementOf(x) != n.elementOf(filter))
    fail("input ", shapeText(shape), " and filter ", shapeText(shapeOf(filter)),
         " are not those of a depthwise "
         "convolution");
  int64_t before = shapeOf(filter)[2] - 1;
  Shape state{shape[0], shape[1], before}, one{1}, none{0};
  if (past && shapeOf(past) != ArrayRef<int64_t>(state))
    fail("its past state ", shapeText(shapeOf(past)), " is not ", shapeText(state));
  Value all = x;
  if (before)
    all = n.concat(ValueRange{past ? past : n.splatOf(state, n.elementOf(x), 0), x}, 2);
  Value y = n.op<ConvOp>(x.getType(), all, filter, one, one, none, none, shape[1], false);
  y = addBias(n, y);
  std::string activation = n.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = n.mul(y, n.op<SigmoidOp>(y));
  else if (activation != "none")
    fail("activation '", activation, "' is not known");
  return {y, n.sliceDim(all, 2, shape[2], before)};
}

//===- ConvTranspose ------------------------------------------------------===//

namespace {
/// The result's spatial dimensions, how many elements are cropped at both ends of the full result, and how many zeros follow.
struct Transposed {
  Shape strides, dilations, low, high, output, zeros;
};
} // namespace

static Transposed transposedGeometry(N &n, llvm::ArrayRef<int64_t> input, const Shape &kernel) {
  size_t count = input.size();
  Transposed g;
  g.strides = spatialAttr(n, "strides", count, 1, 1);
  g.dilations = spatialAttr(n, "dilations", count, 1, 1);
  Shape extra = spatialAttr(n, "output_padding", count, 0, 0);
  Shape pads = n.integers("pads").value_or(Shape(2 * count, 0));
  if (pads.size() != 2 * count || llvm::any_of(pads, [](int64_t p) { return p < 0 || p > INT32_MAX; }))
    fail("its pads are not valid");
  std::string automatic = n.text("auto_pad", "NOTSET");
  bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER", given = n.hasAttr("output_shape");
  if (!same && automatic != "NOTSET" && automatic != "VALID")
    fail("auto_pad '", automatic, "' is not known");
  Shape output = given ? spatialAttr(n, "output_shape", count, 0, 0) : Shape(count, 0);
  for (size_t d = 0; d < count; ++d) {
    if (input[d] > INT32_MAX || kernel[d] > INT32_MAX || kernel[d] < 1)
      fail("its filter is not valid");
    int64_t full = g.strides[d] * (input[d] - 1) + extra[d] + (kernel[d] - 1) * g.dilations[d] + 1;
    int64_t low = pads[d], high = pads[d + count];
    if (given || same) {
      int64_t total = std::max<int64_t>(0, full - (given ? output[d] : input[d] * g.strides[d]));
      low = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
    } else if (automatic == "VALID") {
      low = high = 0;
    }
    g.output.push_back(given ? output[d] : same ? input[d] * g.strides[d] : full - low - high);
    // Whole strides of padding are cropped less, or else are zeros behind the result.
    high -= std::max<int64_t>(extra[d], 0) / std::max<int64_t>(g.strides[d], 1) * g.strides[d];
    g.zeros.push_back(std::clamp<int64_t>(-high, 0, std::max<int64_t>(g.output[d], 0)));
    g.output[d] -= g.zeros[d];
    g.low.push_back(low);
    g.high.push_back(std::max<int64_t>(high, 0));
  }
  return g;
}

/// ConvTranspose is the gradient of the convolution whose result is this node's input.
static Results importConvTranspose(N &n) {
  Value x = n.in(0), filter = n.in(1);
  Shape kernel = filterKernel(n, x, filter);
  int64_t groups = groupsOf(n), channels;
  if (llvm::MulOverflow(shapeOf(filter)[1], groups, channels))
    fail("group is ", groups);
  Transposed g = transposedGeometry(n, spatialShape(x), kernel);
  Shape shape{shapeOf(x)[0], channels};
  llvm::append_range(shape, g.output);
  Shape whole = shape;
  bool onlyZeros = false;
  for (size_t d = 0; d < g.zeros.size(); ++d) {
    whole[d + 2] += g.zeros[d];
    onlyZeros |= g.zeros[d] > 0 && g.output[d] == 0;
  }
  if (onlyZeros)
    return {addBias(n, n.splatOf(whole, n.elementOf(x), 0))};
  Value y = n.op<ConvInputGradOp>(n.type(shape, n.elementOf(x)), x, filter, g.strides, g.dilations, g.low, g.high,
                                  groups, false);
  return {addBias(n, whole == shape ? y : n.pad(y, Shape(shape.size(), 0), whole, 0))};
}

//===- Col2Im -------------------------------------------------------------===//

/// The sum of blocks at their places in an image: the gradient of a convolution whose filters each pick one element of a
/// block.
static Results importCol2Im(N &n) {
  Value x = n.in(0);
  Shape image = n.integersInput(1, "image_shape"), block = n.integersInput(2, "block_shape");
  size_t count = image.size();
  if (n.rankOf(x) != 3 || count < 1 || count > 3 || block.size() != count)
    fail("input ", shapeText(shapeOf(x)), " does not have the blocks of an image of 1 to 3 dimensions");
  Shape strides = spatialAttr(n, "strides", count, 1, 1), dilations = spatialAttr(n, "dilations", count, 1, 1);
  Shape pads = n.integers("pads").value_or(Shape(2 * count, 0)), blocks;
  if (pads.size() != 2 * count || llvm::any_of(pads, [](int64_t p) { return p < 0 || p > INT32_MAX; }))
    fail("its pads are not valid");
  int64_t size = 1;
  for (size_t d = 0; d < count; ++d) {
    if (block[d] < 1 || block[d] > INT32_MAX || image[d] < 1 || image[d] > INT32_MAX || size > maxBlock)
      fail("its block or image is not valid");
    size *= block[d];
    int64_t span = image[d] + pads[d] + pads[d + count] - dilations[d] * (block[d] - 1) - 1;
    blocks.push_back(span < 0 ? 0 : span / strides[d] + 1);
  }
  auto shape = shapeOf(x);
  int64_t channels = shape[1] / size;
  if (channels * size != shape[1] || llvm::product_of(blocks) != shape[2] || size > maxBlock || channels > INT32_MAX)
    fail("input ", shapeText(shape), " does not have the blocks ", shapeText(blocks), " of ", size, " elements");
  Shape parted{shape[0], shape[1]}, result{shape[0], channels}, filter{shape[1], 1};
  llvm::append_range(parted, blocks);
  llvm::append_range(result, image);
  llvm::append_range(filter, block);
  // Filter i of each channel is one at element i of the block.
  Value entry = n.iota({shape[1], size}, 1), divisor = n.splatLike(entry, size);
  Value own = n.op<RemOp>(n.iota({shape[1], size}, 0), divisor);
  Value picks = n.reshape(n.cast(n.compare(Predicate::eq, entry, own), n.elementOf(x)), filter);
  Shape low(pads.begin(), pads.begin() + count), high(pads.begin() + count, pads.end());
  return {n.op<ConvInputGradOp>(n.type(result, n.elementOf(x)), n.reshape(x, parted), picks, strides, dilations, low,
                                high, channels, false)};
}

llvm::ArrayRef<Operator> divisi::compiler::convolutionOperators() {
  static constexpr Operator rows[] = {
      {"CausalConvWithState", 27, newest, importCausalConvWithState},
      {"Col2Im", 18, newest, importCol2Im},
      {"Conv", 1, newest, importConv},
      {"ConvTranspose", 1, newest, importConvTranspose},
  };
  return rows;
}
