#include "test/execute/RandomModel.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::test;
using namespace divisi::graph;
using llvm::ArrayRef;

/// Of a value between blocks.
static constexpr int64_t mostElements = 1024;

RandomModel::RandomModel(MLIRContext *context, Draw &draw)
    : draw(draw), module(ModuleOp::create(UnknownLoc::get(context))), builder(context),
      b(builder, UnknownLoc::get(context)) {}

OwningOpRef<ModuleOp> RandomModel::build() {
  static const Block blocks[] = {&RandomModel::unary,
                                 &RandomModel::binary,
                                 &RandomModel::masked,
                                 &RandomModel::bias,
                                 &RandomModel::linear,
                                 &RandomModel::linear,
                                 &RandomModel::attention,
                                 &RandomModel::convolution,
                                 &RandomModel::pooling,
                                 &RandomModel::reduction,
                                 &RandomModel::centered,
                                 &RandomModel::reshape,
                                 &RandomModel::transpose,
                                 &RandomModel::slice,
                                 &RandomModel::pad,
                                 &RandomModel::concat,
                                 &RandomModel::repeat,
                                 &RandomModel::gather,
                                 &RandomModel::gatherElements,
                                 &RandomModel::gatherNd,
                                 &RandomModel::scatterAdd,
                                 &RandomModel::scatterElements,
                                 &RandomModel::scatterNd,
                                 &RandomModel::topK,
                                 &RandomModel::cumsum,
                                 &RandomModel::extreme,
                                 &RandomModel::normalize,
                                 &RandomModel::batchNorm,
                                 &RandomModel::dropout,
                                 &RandomModel::wide,
                                 &RandomModel::convolution};
  builder.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(builder, module->getLoc(), "loss", builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  batch = size();
  Value x = stem();
  values.push_back(x);
  for (int64_t left = draw.between(2, 5), tries = 0; left > 0 && tries < 50; ++tries) {
    Value next = (this->*blocks[draw.below(std::size(blocks))])(x);
    if (!next || tensorType(next).getNumElements() > mostElements || rankOf(next) == 0)
      continue; // unused values are removed as dead code
    values.push_back(x = next);
    --left;
  }
  head(x);
  return std::move(module);
}

//===- arguments ----------------------------------------------------------===//

Value RandomModel::argument(ArrayRef<int64_t> shape, Type element, ArrayRef<NamedAttribute> attributes) {
  unsigned last = function.getNumArguments();
  if (failed(function.insertArgument(last, type(shape, element), builder.getDictionaryAttr(attributes), b.getLoc())))
    llvm::report_fatal_error("an argument cannot be added");
  return function.getArgument(last);
}
Value RandomModel::parameter(ArrayRef<int64_t> shape, bool mayFreeze) {
  std::string name = "w" + std::to_string(parameters++);
  SmallVector<NamedAttribute> attributes = {builder.getNamedAttr(names::parameter, builder.getStringAttr(name))};
  if (mayFreeze && draw.chance(0.05))
    attributes.push_back(builder.getNamedAttr(names::frozen, builder.getUnitAttr()));
  return argument(shape, f32(), attributes);
}
Value RandomModel::buffer(ArrayRef<int64_t> shape, StringRef suffix) {
  std::string name = "b" + std::to_string(buffers) + suffix.str();
  return argument(shape, f32(), {builder.getNamedAttr(names::buffer, builder.getStringAttr(name))});
}
Value RandomModel::input(ArrayRef<int64_t> shape) {
  std::string name = "x" + std::to_string(inputs++);
  return argument(shape, f32(), {builder.getNamedAttr(names::input, builder.getStringAttr(name))});
}
Value RandomModel::indices(ArrayRef<int64_t> shape, int64_t low, int64_t high) {
  std::string name = "i" + std::to_string(inputs++);
  return argument(shape, i64(),
                  {builder.getNamedAttr(names::input, builder.getStringAttr(name)),
                   builder.getNamedAttr("graph.range", builder.getDenseI64ArrayAttr({low, high}))});
}

Value RandomModel::partner(Value x) {
  SmallVector<Value> same;
  for (Value value : values)
    if (value.getType() == x.getType())
      same.push_back(value);
  return same.empty() || draw.chance(0.3) ? parameter(shapeOf(x)) : draw.in(same);
}

Value RandomModel::distinct(Value x) {
  double step = 0.0173;
  for (int64_t d = 0; d < rankOf(x); ++d, step *= 0.61)
    x = b.add(x, b.scale(b.cast(b.iota(shapeOf(x), d), f32()), step));
  return x;
}

//===- first and last -----------------------------------------------------===//

Value RandomModel::stem() {
  switch (draw.below(4)) {
  case 0:
    return input({batch, size()});
  case 1: // tokens
    return b.gather(parameter({size() * 2, size()}), indices({batch, draw.of<int64_t>({2, 4, 3})}, 0, 4), 0);
  case 2:
    return input({batch, size(), draw.of<int64_t>({2, 4, 3})});
  default: // images
    return input({std::min<int64_t>(batch, 6), draw.of<int64_t>({2, 4, 6, 3}), draw.of<int64_t>({4, 6, 5}),
                  draw.of<int64_t>({4, 3, 5})});
  }
}

/// Loss: classification (with ignored labels, and perhaps padded rows), or a mean of squares.
void RandomModel::head(Value x) {
  x = b.mul(x, b.broadcast(parameter({shapeOf(x).back()}, false), shapeOf(x), {rankOf(x) - 1}));
  Value loss;
  double scale;
  if (rankOf(x) >= 2 && shapeOf(x)[1] > 1 && draw.chance(0.6)) {
    Shape shape(shapeOf(x));
    int64_t classes = shape[1];
    x = b.add(x, b.broadcast(parameter({classes}), shapeOf(x), {1}));
    shape.erase(shape.begin() + 1);
    std::string name = "label";
    Value labels = argument(shape, i64(),
                            {builder.getNamedAttr(names::input, builder.getStringAttr(name)),
                             builder.getNamedAttr(names::label, builder.getUnitAttr()),
                             builder.getNamedAttr("graph.padding", builder.getI64IntegerAttr(-1)),
                             builder.getNamedAttr("graph.range", builder.getDenseI64ArrayAttr({-1, classes + 1}))});
    loss = b.op<CrossEntropyOp>(type(shape, f32()), x, labels);
    if (draw.chance(0.4)) {
      Value rows = argument({}, i64(), {builder.getNamedAttr(names::scalar, builder.getStringAttr("rows"))});
      Value inside = b.compare(Predicate::lt, b.iota(shape, 0), b.broadcast(rows, shape, {}));
      loss = b.keepWhere(inside, loss);
    }
  } else {
    Value difference = b.sub(tame(x), input(shapeOf(x)));
    loss = b.mul(difference, difference);
  }
  scale = 1.0 / (double)tensorType(loss).getNumElements();
  loss = b.scale(b.sumAll(loss), scale);
  SmallVector<Value> results = {loss};
  SmallVector<DictionaryAttr> attributes = {
      builder.getDictionaryAttr(builder.getNamedAttr(names::loss, builder.getUnitAttr()))};
  for (auto &[name, value] : renewed) {
    results.push_back(value);
    attributes.push_back(builder.getDictionaryAttr(builder.getNamedAttr(names::renews, builder.getStringAttr(name))));
  }
  func::ReturnOp::create(builder, b.getLoc(), results);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), TypeRange(ValueRange(results))));
  function.setAllResultAttrs(attributes);
}

//===- elementwise --------------------------------------------------------===//

Value RandomModel::unary(Value x) {
  auto aboveOne = [&] { return b.addConst(b.mul(x, x), 1); };
  switch (draw.below(17)) {
  case 0:
    return b.op<ReluOp>(x);
  case 1:
    return b.op<TanhOp>(x);
  case 2:
    return b.op<SigmoidOp>(x);
  case 3:
    return b.op<GeluOp>(x, draw.chance(0.5));
  case 4:
    return b.op<SoftplusOp>(x);
  case 5:
    return b.op<SinOp>(x);
  case 6:
    return b.neg(x);
  case 7:
    return b.op<AbsOp>(x);
  case 8:
    return b.op<ErfOp>(x);
  case 9:
    return b.op<AtanOp>(x);
  case 10:
    return b.op<ExpOp>(tame(x));
  case 11:
    return b.op<LogOp>(aboveOne());
  case 12:
    return b.op<SqrtOp>(aboveOne());
  case 13:
    return b.op<RsqrtOp>(aboveOne());
  case 14:
    return b.op<ReciprocalOp>(aboveOne());
  case 15:
    return b.op<AsinhOp>(x);
  default:
    return b.addConst(b.scale(x, 0.7), 0.2);
  }
}

Value RandomModel::binary(Value x) {
  Value y = partner(x);
  switch (draw.below(9)) {
  case 0:
  case 1:
    return b.add(x, y);
  case 2:
    return b.sub(x, y);
  case 3:
    return b.mul(tame(x), y);
  case 4:
    return b.op<MaxOp>(x, y);
  case 5:
    return b.op<MinOp>(x, y);
  case 6:
    return b.div(x, b.addConst(b.mul(y, y), 1));
  case 7:
    return b.op<PowOp>(b.addConst(b.op<SigmoidOp>(x), 0.5), tame(y));
  default:
    return b.select(b.compare(Predicate::lt, x, y), b.scale(x, 0.5), y);
  }
}

/// By position: causal masks, one-hot.
Value RandomModel::masked(Value x) {
  auto shape = shapeOf(x);
  int64_t d = dimOf(x), e = dimOf(x);
  Value place = b.iota(shape, d);
  Value inside = d == e ? b.compareConst(Predicate::lt, place, (double)draw.below(shape[d] + 1))
                        : b.compare(Predicate::le, place, b.iota(shape, e));
  if (draw.chance(0.3))
    return b.mul(x, b.addConst(b.scale(b.cast(place, f32()), 0.1), 0.5));
  return b.select(inside, x, draw.chance(0.5) ? b.splatLike(x, -0.5) : partner(x));
}

Value RandomModel::bias(Value x) {
  auto shape = shapeOf(x);
  Shape own, dims;
  for (auto [d, size] : llvm::enumerate(shape))
    if (draw.chance(0.5)) {
      own.push_back(draw.chance(0.2) ? 1 : size);
      dims.push_back((int64_t)d);
    }
  Value repeated = b.broadcast(parameter(own), shape, dims);
  return draw.chance(0.5) ? b.add(x, repeated) : b.mul(x, repeated);
}

/// In another precision.
Value RandomModel::wide(Value x) {
  Value y = b.cast(x, builder.getF64Type());
  if (int64_t d = dimOf(x); draw.chance(0.5))
    y = b.sub(y, b.broadcastAlong(b.reduceMean(y, {d}), shapeOf(y), {d}));
  return b.cast(b.op<TanhOp>(y), f32());
}
