#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Window.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

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

static Value addBias(N &n, Value y) {
  Value bias = n.maybe(2);
  if (!bias)
    return y;
  if (n.rankOf(bias) != 1 || shapeOf(bias)[0] != shapeOf(y)[1])
    fail("its bias ", shapeText(shapeOf(bias)), " does not have one entry for each of ", shapeOf(y)[1], " channels");
  return n.add(y, n.along(bias, shapeOf(y), 1));
}

static Results importConv(N &n) {
  Value x = n.in(0), filter = n.in(1);
  Window w(n, spatialShape(x), filterKernel(n, x, filter));
  Shape shape{shapeOf(x)[0], shapeOf(filter)[0]};
  llvm::append_range(shape, w.output);
  Value y =
      n.op<ConvOp>(n.type(shape, n.elementOf(x)), x, filter, w.strides, w.dilations, w.low, w.high, groupsOf(n), false);
  return {addBias(n, y)};
}

//===- ConvTranspose ------------------------------------------------------===//

namespace {
/// The result's spatial dimensions, and how many elements are cropped at both ends of the full result.
struct Transposed {
  Shape strides, dilations, low, high, output;
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
    g.low.push_back(low);
    g.high.push_back(high);
    g.output.push_back(given ? output[d] : same ? input[d] * g.strides[d] : full - low - high);
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
  Value y = n.op<ConvInputGradOp>(n.type(shape, n.elementOf(x)), x, filter, g.strides, g.dilations, g.low, g.high,
                                  groups, false);
  return {addBias(n, y)};
}

static constexpr Operator rows[] = {
    {"Conv", 1, newest, importConv},
    {"ConvTranspose", 1, newest, importConvTranspose},
};
llvm::ArrayRef<Operator> divisi::compiler::convolutionOperators() { return rows; }
