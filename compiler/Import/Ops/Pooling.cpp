#include "compiler/Import/ExportNotes.h"
#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Window.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

/// Extends a spatial attribute by entries for batch and channels.
static Shape whole(const Shape &spatial, int64_t fill) {
  Shape all{fill, fill};
  llvm::append_range(all, spatial);
  return all;
}
static Shape pooledShape(Value x, const Window &w) {
  Shape shape(shapeOf(x).take_front(2));
  llvm::append_range(shape, w.output);
  return shape;
}
static Window windowOf(N &n, Value x) {
  if (!n.hasAttr("kernel_shape"))
    fail("it has no kernel_shape");
  return Window(n, spatialShape(x), std::nullopt);
}

static Value sumPool(N &n, Value x, const Window &w) {
  return n.op<SumPoolOp>(n.type(pooledShape(x, w), n.elementOf(x)), x, whole(w.kernel, 1), whole(w.strides, 1),
                         whole(w.dilations, 1), whole(w.low, 0));
}

//===- MaxPool ------------------------------------------------------------===//

/// The flat index into x of the element at `position` within each window.
static Value flatIndex(N &n, Value x, Value position, const Window &w, bool columnMajor) {
  auto shape = shapeOf(position), from = shapeOf(x);
  int64_t rank = shape.size(), inner = 1, plane = llvm::product_of(from.drop_front(2)),
          stride = columnMajor ? 1 : plane;
  position = n.cast(position, n.i64());
  Value channel = n.scale(n.iota(shape, 1), plane);
  Value flat = n.add(n.scale(n.iota(shape, 0), from[1] * plane), channel);
  for (int64_t d : dimRange(2, rank))
    inner *= w.kernel[d - 2];
  for (int64_t d : dimRange(2, rank)) {
    size_t s = d - 2;
    inner /= w.kernel[s];
    Value size = n.splatLike(position, w.kernel[s]);
    Value within = n.op<RemOp>(n.div(position, n.splatLike(position, inner)), size);
    Value moved = n.scale(within, w.dilations[s]);
    Value at = n.addConst(n.add(n.scale(n.iota(shape, d), w.strides[s]), moved), -w.low[s]);
    stride = columnMajor ? stride : stride / from[d];
    flat = n.add(flat, n.scale(at, stride));
    stride = columnMajor ? stride * from[d] : stride;
  }
  return flat;
}

static Results importMaxPool(N &n) {
  Value x = n.in(0);
  Window w = windowOf(n, x);
  Shape shape = pooledShape(x, w);
  Operation *op = n.create<MaxPoolOp>(n.type(shape, n.elementOf(x)), n.type(shape, n.getBuilder().getI32Type()), x,
                                      whole(w.kernel, 1), whole(w.strides, 1), whole(w.dilations, 1), whole(w.low, 0));
  if (!n.wants(1))
    return {op->getResult(0)};
  return {op->getResult(0), flatIndex(n, x, op->getResult(1), w, n.integer("storage_order", 0))};
}

//===- AveragePool, LpPool ------------------------------------------------===//

/// The largest number of windows for which elements are counted.
static constexpr int64_t maxCounts = 1 << 24;

/// The number of elements of each window, in [output spatial..]: those of the input, or also those of the padding.
static SmallVector<double> windowCounts(llvm::ArrayRef<int64_t> input, const Window &w, bool withPadding) {
  SmallVector<double> counts{1};
  for (size_t d = 0; d < input.size(); ++d) {
    int64_t first = withPadding ? -w.low[d] : 0, last = input[d] + (withPadding ? w.high[d] : 0);
    SmallVector<double> own, product;
    if (w.output[d] > maxCounts / (int64_t)counts.size())
      fail("its output is too large");
    for (int64_t o = 0; o < w.output[d]; ++o) {
      // The positions start + k * dilation in [first, last), with 0 <= k < kernel.
      int64_t start = o * w.strides[d] - w.low[d], step = w.dilations[d];
      int64_t from = std::max<int64_t>(0, (first - start + step - 1) / step);
      int64_t to = std::min(w.kernel[d], start >= last ? 0 : (last - start + step - 1) / step);
      own.push_back(std::max<int64_t>(1, to - from));
    }
    for (double a : counts)
      for (double b : own)
        product.push_back(a * b);
    counts = product;
  }
  return counts;
}

static Results importAveragePool(N &n) {
  Value x = n.in(0);
  Window w = windowOf(n, x);
  checkedElements(pooledShape(x, w));
  auto counts = windowCounts(spatialShape(x), w, n.integer("count_include_pad", 0));
  // ONNX has no divisor_override; torch.export notes it.
  CallNotes call(n.node);
  const std::string override = StringRef(call.target).starts_with("aten.avg_pool") ? call.argument(6, "divisor_override") : "";
  int64_t divisor = 0;
  const bool isNoted = !StringRef(override).getAsInteger(10, divisor) && divisor != 0;
  for (double &count : counts)
    count = 1 / (isNoted ? (double)divisor : count);
  Value sum = sumPool(n, x, w), share = n.numbers(w.output, n.elementOf(x), counts);
  return {n.mul(sum, n.broadcastTo(share, shapeOf(sum)))};
}

/// (sum |x|^p)^(1/p), with the sum that `sum` computes.
template <typename Sum> static Value lpNorm(N &n, Value x, double p, Sum sum) {
  auto power = [&](Value v, double by) { return n.op<PowOp>(v, n.splatLike(v, by)); };
  if (p == 1)
    return sum(n.op<AbsOp>(x));
  if (p == 2)
    return n.op<SqrtOp>(sum(n.mul(x, x)));
  if (p == 0)
    fail("p is zero");
  return power(sum(power(n.op<AbsOp>(x), p)), 1 / p);
}
static Results importLpPool(N &n) {
  Value x = n.in(0);
  Window w = windowOf(n, x);
  return {lpNorm(n, x, n.integer("p", 2), [&](Value v) { return sumPool(n, v, w); })};
}

//===- Global pooling -----------------------------------------------------===//

template <typename Reduce> static Results global(N &n, Reduce reduce) {
  Value x = n.in(0);
  if (n.rankOf(x) < 3)
    fail("its input ", shapeText(shapeOf(x)), " has no spatial dimensions");
  Shape dims = dimRange(2, n.rankOf(x));
  return {n.keepDims(reduce(x, dims), shapeOf(x), dims)};
}
static Results importGlobalAveragePool(N &n) {
  return global(n, [&](Value x, const Shape &dims) { return n.reduceMean(x, dims); });
}
static Results importGlobalMaxPool(N &n) {
  return global(n, [&](Value x, const Shape &dims) { return n.reduceMax(x, dims); });
}
static Results importGlobalLpPool(N &n) {
  return global(n, [&](Value x, const Shape &dims) {
    return lpNorm(n, x, n.integer("p", 2), [&](Value v) { return n.reduceSum(v, dims); });
  });
}

llvm::ArrayRef<Operator> divisi::compiler::poolingOperators() {
  static constexpr Operator rows[] = {
      {"AveragePool", 1, newest, importAveragePool},
      {"GlobalAveragePool", 1, newest, importGlobalAveragePool},
      {"GlobalLpPool", 2, newest, importGlobalLpPool},
      {"GlobalMaxPool", 1, newest, importGlobalMaxPool},
      {"LpPool", 2, newest, importLpPool},
      {"MaxPool", 1, newest, importMaxPool},
  };
  return rows;
}
