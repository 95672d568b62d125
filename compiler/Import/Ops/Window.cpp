#include "compiler/Import/Ops/Window.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;

CheckedBuilder::Shape divisi::compiler::spatialAttr(N &n, llvm::StringRef name, size_t count, int64_t missing,
                                                    int64_t least) {
  auto values = n.integers(name).value_or(CheckedBuilder::Shape(count, missing));
  if (values.size() != count)
    fail(name, " has ", values.size(), " entries for ", count, " spatial dimensions");
  for (int64_t value : values)
    if (value < least || value > INT32_MAX)
      fail(name, " has the entry ", value);
  return values;
}

llvm::ArrayRef<int64_t> divisi::compiler::spatialShape(Value x) {
  if (shapeOf(x).size() < 3)
    fail("its input ", shapeText(shapeOf(x)), " has no spatial dimensions");
  return shapeOf(x).drop_front(2);
}

/// Sets the padding so that there is one window for each stride.
static void padSame(Window &w, llvm::ArrayRef<int64_t> input, bool upper) {
  for (size_t d = 0; d < input.size(); ++d) {
    int64_t count = (input[d] + w.strides[d] - 1) / w.strides[d];
    int64_t total = std::max<int64_t>(0, (count - 1) * w.strides[d] + w.extent(d) - input[d]);
    w.low[d] = upper ? total / 2 : total - total / 2;
    w.high[d] = total - w.low[d];
  }
}

Window::Window(N &n, llvm::ArrayRef<int64_t> input, std::optional<Shape> filter) {
  size_t count = input.size();
  kernel = spatialAttr(n, "kernel_shape", count, 0, 0);
  if (filter)
    kernel = *filter;
  strides = spatialAttr(n, "strides", count, 1, 1);
  dilations = spatialAttr(n, "dilations", count, 1, 1);
  for (size_t d = 0; d < count; ++d)
    if (kernel[d] < 1 || kernel[d] > INT32_MAX || input[d] > INT32_MAX)
      fail("its window ", shapeText(kernel), " is not valid");
  Shape pads = n.integers("pads").value_or(Shape(2 * count, 0));
  if (pads.size() != 2 * count)
    fail("pads has ", pads.size(), " entries for ", count, " spatial dimensions");
  for (int64_t pad : pads)
    if (pad < 0 || pad > INT32_MAX)
      fail("pads has the entry ", pad);
  low.assign(pads.begin(), pads.begin() + count);
  high.assign(pads.begin() + count, pads.end());
  std::string automatic = n.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    padSame(*this, input, automatic == "SAME_UPPER");
  else if (automatic == "VALID")
    low.assign(count, 0), high.assign(count, 0);
  else if (automatic != "NOTSET")
    fail("auto_pad '", automatic, "' is not known");
  bool ceil = n.integer("ceil_mode", 0) && automatic == "NOTSET";
  for (size_t d = 0; d < count; ++d) {
    int64_t span = input[d] + low[d] + high[d] - extent(d);
    if (span < 0 && !(ceil && span + strides[d] > 0))
      fail("its window of ", extent(d), " is larger than dimension ", d + 2, " of size ", input[d],
           " with its padding");
    int64_t size = (span + (ceil ? strides[d] - 1 : 0)) / strides[d] + 1;
    if (ceil && (size - 1) * strides[d] >= input[d] + low[d]) // no window begins in the padding at the end
      --size;
    output.push_back(size);
  }
}
