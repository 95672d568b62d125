#include "dialects/Graph/GraphBuilder.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

#define GET_OP_CLASSES
#include "dialects/Graph/Contraction.cpp.inc"

void GraphDialect::addContraction() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Graph/Contraction.cpp.inc"
      >();
}

//===- matmul -------------------------------------------------------------===//

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto lhs = tensorType(adaptor.getLhs()), rhs = tensorType(adaptor.getRhs());
  int64_t rank = lhs.getRank();
  if (rank < 2 || rhs.getRank() != rank)
    return emitOptionalError(loc, "constraint 1: matmul expects two operands of one rank of at least 2, got ", lhs,
                             " and ", rhs);
  if (lhs.getElementType() != rhs.getElementType())
    return emitOptionalError(loc, "constraint 2: matmul operands differ in element type: ", lhs, " and ", rhs);
  SmallVector<int64_t> shape(lhs.getShape());
  for (int64_t d = 0; d < rank - 2; ++d)
    if (lhs.getDimSize(d) != rhs.getDimSize(d))
      return emitOptionalError(loc, "constraint 3: matmul operands differ in batch dimension ", d, ": ", lhs, " and ",
                               rhs);
  bool ta = adaptor.getTransposeLhs(), tb = adaptor.getTransposeRhs();
  if (lhs.getDimSize(ta ? rank - 2 : rank - 1) != rhs.getDimSize(tb ? rank - 1 : rank - 2))
    return emitOptionalError(loc, "constraint 4: matmul contracts dimensions of different size: ", lhs, " and ", rhs);
  shape[rank - 2] = lhs.getDimSize(ta ? rank - 1 : rank - 2);
  shape[rank - 1] = rhs.getDimSize(tb ? rank - 2 : rank - 1);
  types.push_back(RankedTensorType::get(shape, lhs.getElementType()));
  return success();
}

Values MatmulOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0], x = getLhs(), y = getRhs();
  if (!g)
    return {Value(), Value()};
  bool ta = getTransposeLhs(), tb = getTransposeRhs();
  g = b.cast(g, tensorType(x).getElementType());
  Value dx = ta ? b.matmul(y, g, tb, true) : b.matmul(g, y, false, !tb);
  Value dy = tb ? b.matmul(g, x, true, ta) : b.matmul(x, g, !ta, false);
  return {dx, dy};
}

/// What NVIDIA recommends for cuBLASLt on its latest GPUs. Small products need it, too: the fastest algorithms for them
/// split the common dimension, and are refused for too little. The workspaces of products lie in one place, as far as
/// other values allow.
static Workspace workspaceOfProduct() { return {.fixed = 32 << 20}; }
Workspace MatmulOp::getLibraryWorkspace() { return workspaceOfProduct(); }
Workspace MatmulEpilogueOp::getLibraryWorkspace() { return workspaceOfProduct(); }

dist::ShardingRule MatmulOp::getShardingRule() {
  std::string batch, lhs = getTransposeLhs() ? "k m" : "m k", rhs = getTransposeRhs() ? "n k" : "k n";
  for (int64_t d = 0; d < tensorType(getLhs()).getRank() - 2; ++d)
    batch += "b" + std::to_string(d) + " ";
  dist::ShardingRule rule(batch + lhs + "," + batch + rhs + "->" + batch + "m n", *this);
  return rule.contract("k", dist::Reduction::sum).linearIn(dist::Linear::each);
}

//===- matmul_epilogue ----------------------------------------------------===//

LogicalResult MatmulEpilogueOp::verify() {
  auto lhs = tensorType(getLhs()), rhs = tensorType(getRhs()), result = tensorType(getResult());
  Type element = lhs.getElementType();
  if (lhs.getRank() != 2 || rhs.getRank() != 2 || !isa<FloatType>(element))
    return emitOpError("constraint 1: expected matrices of floats");
  int64_t m = lhs.getDimSize(getTransposeLhs()), k = lhs.getDimSize(!getTransposeLhs());
  int64_t n = rhs.getDimSize(!getTransposeRhs());
  if (rhs.getDimSize(getTransposeRhs()) != k || rhs.getElementType() != element)
    return emitOpError("constraint 2: operands do not fit: ") << lhs << " and " << rhs;
  Epilogue kind = getEpilogue();
  auto vector = [&](int64_t size) { return RankedTensorType::get({size}, element); };
  auto matrix = RankedTensorType::get({m, n}, element);
  Type operand, second; // the required types
  if (!sumsOperand())
    operand = kind == Epilogue::gelu_grad ? matrix : vector(n);
  if (sumsOperand())
    second = vector(kind == Epilogue::sum_lhs ? m : n);
  else if (kind == Epilogue::gelu)
    second = matrix;
  auto differ = [](Type actual, Type expected) { return !expected || !sameShapes({expected}, {actual}); };
  if (differ(result, matrix))
    return emitOpError("constraint 3: expected a result of ")
           << m << " x " << n << " " << element << ", got " << result;
  bool needsOperand = kind == Epilogue::bias || kind == Epilogue::gelu_grad;
  if (getOperand() ? differ(getOperand().getType(), operand) : needsOperand)
    return operand ? emitOpError("constraint 4: expected a third operand ") << operand
                   : emitOpError("constraint 4: expected no third operand");
  if (getSecond() ? differ(getSecond().getType(), second) : sumsOperand())
    return second ? emitOpError("constraint 5: expected a second result ") << second
                  : emitOpError("constraint 5: expected no second result");
  return success();
}

Values MatmulEpilogueOp::buildGradient(B &, ArrayRef<Value>) { return Values(getNumOperands()); }

Values MatmulEpilogueOp::decompose(B &b) {
  if (!tensorType(getLhs()).getElementType().isF64())
    return {};
  Value x = b.matmul(getLhs(), getRhs(), getTransposeLhs(), getTransposeRhs());
  Values results;
  if (sumsOperand()) {
    bool left = getEpilogue() == Epilogue::sum_lhs;
    results = {x, b.reduceSum(left ? getLhs() : getRhs(), {left ? !getTransposeLhs() : getTransposeRhs()})};
  } else if (getEpilogue() == Epilogue::gelu_grad) {
    results = {b.op<GeluGradOp>(getOperand(), x, /*tanh=*/true, /*whole=*/false)};
  } else {
    Value biased = getOperand() ? b.add(x, b.broadcastAlong(getOperand(), shapeOf(x), {0})) : x;
    results = {biased, biased};
    if (getEpilogue() == Epilogue::relu)
      results[0] = b.op<ReluOp>(biased);
    if (getEpilogue() == Epilogue::gelu)
      results[0] = b.op<GeluOp>(biased, /*tanh=*/true, /*whole=*/false);
  }
  results.resize(getNumResults());
  return results;
}

dist::ShardingRule MatmulEpilogueOp::getShardingRule() {
  std::string text = getTransposeLhs() ? "k m" : "m k";
  text += getTransposeRhs() ? ",n k" : ",k n";
  if (getOperand())
    text += getEpilogue() == Epilogue::gelu_grad ? ",m n" : ",n";
  text += "->m n";
  if (getSecond())
    text += getEpilogue() == Epilogue::sum_lhs ? ",m" : getEpilogue() == Epilogue::sum_rhs ? ",n" : ",m n";
  dist::ShardingRule rule(text, *this);
  for (const char *factor : {"m", "k", "n"})
    rule = rule.whole(factor);
  return rule;
}

//===- convolutions -------------------------------------------------------===//

namespace {
/// The tensors of a convolution: input x, output y, filter.
struct ConvShapes {
  RankedTensorType x, y, filter;
};
} // namespace

static ConvShapes shapesOf(ConvOp op) {
  return {tensorType(op.getX()), tensorType(op.getResult()), tensorType(op.getFilter())};
}
static ConvShapes shapesOf(ConvInputGradOp op) {
  return {tensorType(op.getResult()), tensorType(op.getGradient()), tensorType(op.getFilter())};
}
static ConvShapes shapesOf(ConvFilterGradOp op) {
  return {tensorType(op.getX()), tensorType(op.getGradient()), tensorType(op.getResult())};
}

template <typename OpT> static LogicalResult verifyConv(OpT op) {
  auto [x, y, filter] = shapesOf(op);
  if (x.getElementType() != y.getElementType() || x.getElementType() != filter.getElementType())
    return op.emitOpError("constraint 1: expected one element type");
  int64_t rank = x.getRank(), spatial = rank - 2;
  if (spatial < 1 || spatial > 3 || y.getRank() != rank || filter.getRank() != rank)
    return op.emitOpError("constraint 2: expected tensors of one rank from 3 to 5");
  for (auto attr : {op.getStrides(), op.getDilations(), op.getPadsLow(), op.getPadsHigh()})
    if ((int64_t)attr.size() != spatial)
      return op.emitOpError("constraint 3: expected attributes with ") << spatial << " entries";
  int64_t channel = op.getChannelsLast() ? rank - 1 : 1, first = op.getChannelsLast() ? 1 : 2;
  int64_t groups = op.getGroups(), in = x.getDimSize(channel), out = y.getDimSize(channel);
  if (groups < 1 || in % groups || out % groups)
    return op.emitOpError("constraint 4: channels ")
           << in << " and " << out << " do not divide into " << groups << " groups";
  if (filter.getDimSize(0) != out || filter.getDimSize(1) != in / groups)
    return op.emitOpError("constraint 5: filter ")
           << filter << " does not fit " << in << " input and " << out << " output channels in " << groups << " groups";
  if (x.getDimSize(0) != y.getDimSize(0))
    return op.emitOpError("constraint 6: batch sizes differ");
  constexpr int64_t most = 1 << 30; // limit of numbers along a dimension: their sums and products fit into 64 bits
  for (int64_t s = 0; s < spatial; ++s) {
    int64_t stride = op.getStrides()[s], dilation = op.getDilations()[s];
    if (stride < 1 || dilation < 1)
      return op.emitOpError("constraint 7: strides and dilations must be positive");
    for (int64_t number : {stride, dilation, op.getPadsLow()[s], op.getPadsHigh()[s], filter.getDimSize(s + 2)})
      if (number > most || number < -most)
        return op.emitOpError("constraint 8: strides, dilations, pads and filters must not be larger than 2^30, got ") << number;
    int64_t window = dilation * (filter.getDimSize(s + 2) - 1) + 1;
    int64_t padded = x.getDimSize(first + s) + op.getPadsLow()[s] + op.getPadsHigh()[s];
    int64_t size = padded < window ? 0 : (padded - window) / stride + 1;
    if (y.getDimSize(first + s) != size)
      return op.emitOpError("constraint 9: output size ")
             << y.getDimSize(first + s) << " in spatial dimension " << s << " should be " << size;
  }
  return success();
}
LogicalResult ConvOp::verify() { return verifyConv(*this); }
LogicalResult ConvInputGradOp::verify() { return verifyConv(*this); }
LogicalResult ConvFilterGradOp::verify() { return verifyConv(*this); }

/// Multiply-adds: every output element sums in_channels / groups * kernel products.
template <typename OpT> static int64_t convFlops(OpT op) {
  auto [x, y, filter] = shapesOf(op);
  return 2 * y.getNumElements() * (filter.getNumElements() / std::max<int64_t>(1, filter.getDimSize(0)));
}
/// Workspace for rearranged operands: most algorithms need less than twice what they read and write.
static Workspace workspaceOfConv() { return {.perByte = 2, .most = 1 << 30}; }
Workspace ConvOp::getLibraryWorkspace() { return workspaceOfConv(); }
Workspace ConvInputGradOp::getLibraryWorkspace() { return workspaceOfConv(); }
Workspace ConvFilterGradOp::getLibraryWorkspace() { return workspaceOfConv(); }

int64_t ConvOp::getFlops() { return convFlops(*this); }
int64_t ConvInputGradOp::getFlops() { return convFlops(*this); }
int64_t ConvFilterGradOp::getFlops() { return convFlops(*this); }

namespace {
/// The elements of its neighbours that a shard of a spatial dimension needs: the last `low` of the shard before it and
/// the first `high` of the one after it (negative: its own last elements are not needed).
struct Halo {
  int64_t dim = 0, low = 0, high = 0; // dim: of x and y
  bool split = false;                 // whether the dimension can be sharded at all
};
} // namespace

/// A spatial dimension can be sharded if a shard of y corresponds to a shard of x that is `stride` times as long.
template <typename OpT> static Halo haloOf(OpT op, int64_t s) {
  auto [x, y, filter] = shapesOf(op);
  Halo halo;
  halo.dim = s + (op.getChannelsLast() ? 1 : 2);
  int64_t stride = op.getStrides()[s], window = op.getDilations()[s] * (filter.getDimSize(s + 2) - 1) + 1;
  halo.low = op.getPadsLow()[s];
  halo.high = window - stride - halo.low;
  halo.split = halo.low >= 0 && x.getDimSize(halo.dim) == stride * y.getDimSize(halo.dim) && y.getDimSize(halo.dim) > 1;
  return halo;
}

/// Factors: batch n, groups g, input channels i and output channels o of a group; h0, h1, ... are the spatial
/// dimensions, whose shards exchange borders.
template <typename OpT> static dist::ShardingRule convRule(OpT op, StringRef order, StringRef contracted) {
  auto [xType, yType, filterType] = shapesOf(op);
  int64_t channel = op.getChannelsLast() ? xType.getRank() - 1 : 1, groups = op.getGroups();
  dist::ShardingRule rule;
  int n = rule.addFactor("n", xType.getDimSize(0)), g = rule.addFactor("g", groups);
  int i = rule.addFactor("i", xType.getDimSize(channel) / groups),
      o = rule.addFactor("o", yType.getDimSize(channel) / groups);
  dist::ShardingRule::Dims x(xType.getRank()), y(xType.getRank()), filter(xType.getRank());
  x[0] = y[0] = {n};
  x[channel] = {g, i}, y[channel] = {g, o};
  filter[0] = {g, o}, filter[1] = {i};
  for (int64_t s = 0; s < xType.getRank() - 2; ++s) {
    Halo halo = haloOf(op, s);
    if (!halo.split)
      continue;
    int h = rule.addFactor("h" + std::to_string(s), yType.getDimSize(halo.dim));
    int64_t stride = op.getStrides()[s];
    rule.factors[h].windowed = true;
    rule.factors[h].least = std::max<int64_t>({1, (halo.low + stride - 1) / stride, (halo.high + stride - 1) / stride});
    x[halo.dim] = y[halo.dim] = {h};
  }
  auto dims = [&](char c) { return c == 'x' ? x : c == 'y' ? y : filter; };
  rule.operands = {dims(order[0]), dims(order[1])};
  rule.results = {dims(order[2])};
  if (contracted == "n")
    for (auto &factor : rule.factors)
      if (factor.windowed)
        factor.reduction = dist::Reduction::sum;
  return rule.contract(contracted, dist::Reduction::sum).linearIn(dist::Linear::each);
}
dist::ShardingRule ConvOp::getShardingRule() { return convRule(*this, "xfy", "i"); }
dist::ShardingRule ConvInputGradOp::getShardingRule() { return convRule(*this, "yfx", "o"); }
dist::ShardingRule ConvFilterGradOp::getShardingRule() { return convRule(*this, "xyf", "n"); }

/// The elements that a neighbour sends: member r of the axes' group gets those of member r - shift, and zeros at the
/// border of the tensor.
static Value fromNeighbour(B &b, dist::LocalContext &context, Value x, dist::AxesRef axes, int64_t shift) {
  ArrayAttr names = dist::axisNames(axes, context.mesh(), b.getBuilder().getContext());
  return dist::PermuteOp::create(b.getBuilder(), b.getLoc(), x.getType(), x, shift, names);
}

/// x with the borders of its neighbours' shards.
static Value withHalo(B &b, dist::LocalContext &context, Value x, const Halo &halo, dist::AxesRef axes) {
  int64_t size = shapeOf(x)[halo.dim];
  SmallVector<Value> parts;
  if (halo.low > 0)
    parts.push_back(fromNeighbour(b, context, b.sliceDim(x, halo.dim, size - halo.low, halo.low), axes, 1));
  parts.push_back(halo.high < 0 ? b.sliceDim(x, halo.dim, 0, size + halo.high) : x);
  if (halo.high > 0)
    parts.push_back(fromNeighbour(b, context, b.sliceDim(x, halo.dim, 0, halo.high), axes, -1));
  return parts.size() == 1 ? parts[0] : b.concat(parts, halo.dim);
}

/// The transposed map: sends what was computed for the neighbours' borders back to them, where it is added.
static Value addHalo(B &b, dist::LocalContext &context, Value x, const Halo &halo, dist::AxesRef axes, int64_t size) {
  SmallVector<int64_t> shape(shapeOf(x)), low(shape.size(), 0);
  shape[halo.dim] = size;
  Value sum = b.sliceDim(x, halo.dim, std::max<int64_t>(halo.low, 0), size + std::min<int64_t>(halo.high, 0));
  sum = b.pad(sum, low, shape);
  auto add = [&](int64_t from, int64_t count, int64_t to, int64_t shift) {
    if (count <= 0)
      return;
    Value part = fromNeighbour(b, context, b.sliceDim(x, halo.dim, from, count), axes, shift);
    low[halo.dim] = to;
    sum = b.add(sum, b.pad(part, low, shape));
  };
  add(0, halo.low, size - halo.low, -1);
  add(halo.low + size, halo.high, 0, 1);
  return sum;
}

/// Makes a convolution local: the device's groups; with sharded spatial dimensions, the convolution of a shard and its
/// borders without padding.
template <typename OpT> static Value localConv(OpT op, dist::LocalContext &context, bool xIsOperand, bool xIsResult) {
  op.setGroups(op.getGroups() / context.mesh().parts(context.factorAxes()[context.factorOf("g")]));
  B b(context.builder(), op.getLoc());
  SmallVector<std::pair<Halo, dist::AxesRef>> halos;
  SmallVector<int64_t> low(op.getPadsLow()), high(op.getPadsHigh());
  for (int64_t s = 0; s < (int64_t)low.size(); ++s) {
    int factor = context.factorOf("h" + std::to_string(s));
    if (factor < 0 || context.factorAxes()[factor].empty())
      continue;
    halos.push_back({haloOf(op, s), context.factorAxes()[factor]});
    low[s] = high[s] = 0;
  }
  if (halos.empty())
    return {};
  SmallVector<Value> operands(op->getOperands());
  auto resultType = tensorType(op.getResult());
  SmallVector<int64_t> result(resultType.getShape()), sizes;
  for (auto [halo, axes] : halos) {
    sizes.push_back(result[halo.dim]);
    if (xIsOperand)
      operands[0] = withHalo(b, context, operands[0], halo, axes);
    if (xIsResult)
      result[halo.dim] += halo.low + halo.high;
  }
  auto type = RankedTensorType::get(result, resultType.getElementType());
  Value value = b.op<OpT>(type, operands[0], operands[1], op.getStrides(), op.getDilations(), low, high, op.getGroups(),
                          op.getChannelsLast(), op.getTf32());
  for (size_t k = halos.size(); xIsResult && k-- > 0;)
    value = addHalo(b, context, value, halos[k].first, halos[k].second, sizes[k]);
  return value;
}
Value ConvOp::makeLocal(dist::LocalContext &context) { return localConv(*this, context, true, false); }
Value ConvInputGradOp::makeLocal(dist::LocalContext &context) { return localConv(*this, context, false, true); }
Value ConvFilterGradOp::makeLocal(dist::LocalContext &context) { return localConv(*this, context, true, false); }

template <typename To, typename From> static Value convLike(B &b, From op, Type type, Value first, Value second) {
  return b.op<To>(type, first, second, op.getStrides(), op.getDilations(), op.getPadsLow(), op.getPadsHigh(),
                  op.getGroups(), op.getChannelsLast());
}

Values ConvOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0];
  if (!g)
    return {Value(), Value()};
  return {convLike<ConvInputGradOp>(b, *this, getX().getType(), g, getFilter()),
          convLike<ConvFilterGradOp>(b, *this, getFilter().getType(), getX(), g)};
}
Values ConvInputGradOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0];
  if (!g)
    return {Value(), Value()};
  return {convLike<ConvOp>(b, *this, getGradient().getType(), g, getFilter()),
          convLike<ConvFilterGradOp>(b, *this, getFilter().getType(), g, getGradient())};
}
Values ConvFilterGradOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0];
  if (!g)
    return {Value(), Value()};
  return {convLike<ConvInputGradOp>(b, *this, getX().getType(), getGradient(), g),
          convLike<ConvOp>(b, *this, getGradient().getType(), getX(), g)};
}
