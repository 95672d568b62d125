#include "test/execute/RandomModel.h"

#include "llvm/ADT/Sequence.h"

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::test;
using namespace divisi::graph;
using llvm::ArrayRef;

//===- contractions -------------------------------------------------------===//

Value RandomModel::linear(Value x) {
  int64_t rank = rankOf(x);
  if (rank < 2)
    return {};
  auto shape = shapeOf(x);
  Shape batches(shape.drop_back(2));
  bool flat = rank > 2 && draw.chance(0.4), left = draw.chance(0.2), tx = draw.chance(0.2), tw = draw.chance(0.5);
  if (flat) {
    int64_t rows = tensorType(x).getNumElements() / shape.back();
    x = b.reshape(x, {rows, shape.back()});
    tx = left = false;
  }
  auto last = shapeOf(x).take_back(2);
  int64_t inner = left ? (tx ? last[1] : last[0]) : (tx ? last[0] : last[1]), outer = size();
  Shape own = flat ? Shape() : batches;
  bool shared = !own.empty() && draw.chance(0.5);
  if (left)
    own.append(tw ? std::initializer_list<int64_t>{inner, outer} : std::initializer_list<int64_t>{outer, inner});
  else
    own.append(tw ? std::initializer_list<int64_t>{outer, inner} : std::initializer_list<int64_t>{inner, outer});
  Value w;
  if (shared) {
    int64_t own_rank = (int64_t)own.size();
    w = b.broadcast(parameter(ArrayRef<int64_t>(own).take_back(2)), own, {own_rank - 2, own_rank - 1});
  } else {
    w = parameter(own);
  }
  Value y = left ? b.matmul(w, x, tw, tx) : b.matmul(x, w, tx, tw);
  y = b.scale(y, 1 / std::sqrt((double)inner));
  if (!flat)
    return y;
  Shape back(shape);
  back.back() = outer;
  return b.reshape(y, back);
}

Value RandomModel::attention(Value x) {
  if (rankOf(x) < 2)
    return {};
  int64_t rank = rankOf(x);
  Value scores = b.scale(b.matmul(x, partner(x), false, true), 1 / std::sqrt((double)shapeOf(x).back()));
  scores = b.op<SoftmaxOp>(scores.getType(), scores, (uint64_t)(rank - 1));
  return b.matmul(scores, x);
}

Value RandomModel::convolution(Value x) {
  int64_t rank = rankOf(x), spatial = rank - 2;
  if (rank < 3 || rank > 4)
    return {};
  bool last = draw.chance(0.3);
  auto shape = shapeOf(x);
  int64_t channel = last ? rank - 1 : 1, in = shape[channel];
  int64_t groups = draw.chance(0.4) ? in : draw.chance(0.3) && in % 2 == 0 ? 2 : 1;
  int64_t out = groups * draw.of<int64_t>({1, 2, 2, 4, 3});
  Shape kernel = {out, in / groups}, result(shape), strides, dilations, low, high;
  result[channel] = out;
  for (int64_t s = 0; s < spatial; ++s) {
    int64_t d = s + (last ? 1 : 2), k = draw.between(1, 3);
    strides.push_back(draw.of<int64_t>({1, 1, 2}));
    dilations.push_back(draw.of<int64_t>({1, 1, 2}));
    low.push_back(draw.below(2));
    high.push_back(draw.below(2));
    kernel.push_back(k);
    int64_t padded = shape[d] + low.back() + high.back(), window = dilations.back() * (k - 1) + 1;
    if (padded < window)
      return {};
    result[d] = (padded - window) / strides.back() + 1;
  }
  int64_t inner = 1;
  for (int64_t k : ArrayRef<int64_t>(kernel).drop_front())
    inner *= k;
  Value filter = b.scale(parameter(kernel), 1 / std::sqrt((double)inner));
  if (groups * out > 32)
    return {};
  return b.op<ConvOp>(type(result, f32()), x, filter, strides, dilations, low, high, groups, last);
}

Value RandomModel::pooling(Value x) {
  auto shape = shapeOf(x);
  Shape window, strides, dilations, low, result;
  int64_t elements = 1;
  for (int64_t size : shape) {
    bool pools = draw.chance(0.4);
    window.push_back(pools ? draw.between(1, 3) : 1);
    strides.push_back(pools ? draw.between(1, 2) : 1);
    dilations.push_back(pools ? draw.of<int64_t>({1, 1, 2}) : 1);
    low.push_back(pools && window.back() > 1 ? draw.below(2) : 0);
    int64_t padded = size + low.back(), reach = dilations.back() * (window.back() - 1) + 1;
    if (padded < reach)
      return {};
    result.push_back((padded - reach) / strides.back() + 1);
    elements *= window.back();
  }
  if (draw.chance(0.5))
    return b.scale(b.op<SumPoolOp>(type(result, f32()), x, window, strides, dilations, low), 1.0 / (double)elements);
  return b.op<MaxPoolOp>(TypeRange{type(result, f32()), type(result, builder.getI32Type())}, distinct(x), window,
                         strides, dilations, low);
}

//===- reductions ---------------------------------------------------------===//

Value RandomModel::reduction(Value x) {
  int64_t rank = rankOf(x);
  SmallVector<int64_t> dims;
  for (int64_t d = 0; d < rank; ++d)
    if (draw.chance(0.4))
      dims.push_back(d);
  if (dims.empty() || (int64_t)dims.size() == rank)
    return {};
  switch (draw.below(5)) {
  case 0:
    return b.reduceMean(x, dims);
  case 1:
    return b.reduceMax(distinct(x), dims);
  case 2:
    return b.reduce<ReduceMinOp>(distinct(x), dims);
  case 3:
    return b.reduce<ReduceProdOp>(b.addConst(b.scale(tame(x), 0.2), 1), dims);
  default:
    return tame(b.reduceSum(x, dims));
  }
}

/// A reduction of a value and the value itself.
Value RandomModel::centered(Value x) {
  SmallVector<int64_t> dims;
  for (int64_t d = 0; d < rankOf(x); ++d)
    if (draw.chance(0.5))
      dims.push_back(d);
  if (dims.empty())
    return {};
  Value y = draw.chance(0.5) ? b.reduceMean(x, dims) : b.reduceMax(distinct(x), dims);
  return b.sub(x, b.broadcastAlong(y, shapeOf(x), dims));
}

Value RandomModel::cumsum(Value x) {
  return tame(b.scale(b.op<CumsumOp>(x.getType(), x, (uint64_t)dimOf(x), draw.chance(0.5), draw.chance(0.5)), 0.5));
}

/// The position of an extremum, as one-hot weights and as an index.
Value RandomModel::extreme(Value x) {
  x = distinct(x);
  int64_t d = dimOf(x);
  Value place = draw.chance(0.5) ? b.op<ArgMaxOp>(x, d, false) : b.op<ArgMinOp>(x, d, draw.chance(0.5));
  Value hit = b.compare(Predicate::eq, b.iota(shapeOf(x), d), b.broadcastAlong(place, shapeOf(x), {d}));
  return b.select(hit, x, b.scale(x, 0.25));
}

Value RandomModel::topK(Value x) {
  x = distinct(x);
  int64_t d = dimOf(x), k = draw.between(1, shapeOf(x)[d]);
  auto top = TopKOp::create(builder, b.getLoc(), x, k, d, draw.chance(0.3));
  if (draw.chance(0.5))
    return top.getValues();
  return b.op<GatherElementsOp>(partner(x), top.getIndices(), d);
}

//===- normalization ------------------------------------------------------===//

Value RandomModel::normalize(Value x) {
  int64_t d = dimOf(x);
  Shape own(shapeOf(x).drop_front(d));
  llvm::APFloat epsilon(0.1); // small variances do not amplify
  switch (draw.below(4)) {
  case 0:
    return b.op<SoftmaxOp>(x.getType(), x, (uint64_t)d);
  case 1:
    return b.op<LogSoftmaxOp>(x.getType(), x, (uint64_t)d);
  case 2:
    return b.op<LayerNormOp>(x.getType(), x, parameter(own), parameter(own), (uint64_t)d, epsilon);
  default:
    return b.op<RmsNormOp>(x.getType(), x, parameter(own), (uint64_t)d, epsilon);
  }
}

Value RandomModel::batchNorm(Value x) {
  int64_t d = rankOf(x) > 1 ? draw.between(1, rankOf(x) - 1) : 0, channels = shapeOf(x)[d];
  auto own = type({channels}, f32());
  bool runs = draw.chance(0.7);
  SmallVector<Value> running, operands = {x, parameter({channels}), parameter({channels})};
  if (runs) {
    running = {buffer({channels}, ".running_mean"), buffer({channels}, ".running_var")};
    ++buffers;
  }
  llvm::append_range(operands, running);
  NamedAttribute attributes[] = {builder.getNamedAttr("dim", builder.getI64IntegerAttr(d)),
                                 builder.getNamedAttr("epsilon", builder.getF64FloatAttr(0.1))};
  auto norm = BatchNormOp::create(builder, b.getLoc(), TypeRange{x.getType(), own, own}, operands, attributes);
  auto renew = [&](Value old, Value now, StringRef suffix) {
    renewed.push_back({"b" + std::to_string(buffers - 1) + suffix.str(), b.add(b.scale(old, 0.9), b.scale(now, 0.1))});
  };
  if (runs) {
    renew(running[0], norm.getMean(), ".running_mean");
    renew(running[1], norm.getVariance(), ".running_var");
  }
  return norm.getResult();
}

Value RandomModel::dropout(Value x) {
  return b.op<DropoutOp>(x.getType(), x, ValueRange(), llvm::APFloat(0.3), (uint64_t)streams++);
}

//===- shape --------------------------------------------------------------===//

Value RandomModel::reshape(Value x) {
  Shape shape(shapeOf(x));
  for (int64_t turns = draw.between(1, 2); turns > 0; --turns) {
    int64_t d = draw.below((int64_t)shape.size());
    int64_t by = draw.of<int64_t>({2, 3, 4, 1});
    if (draw.chance(0.5) && d + 1 < (int64_t)shape.size()) {
      shape[d] *= shape[d + 1];
      shape.erase(shape.begin() + d + 1);
    } else if (shape[d] % by == 0 && shape.size() < 5) {
      shape[d] /= by;
      shape.insert(shape.begin() + d + (draw.chance(0.5) ? 0 : 1), by);
    }
  }
  if (draw.chance(0.15)) { // sizes that do not nest
    int64_t all = tensorType(x).getNumElements();
    int64_t by = draw.of<int64_t>({2, 3, 4, 6, 8});
    if (all % by == 0)
      shape = {all / by, by};
  }
  return b.reshape(x, shape);
}

Value RandomModel::transpose(Value x) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[draw.below((int64_t)i)]);
  return b.transpose(x, order);
}

Value RandomModel::slice(Value x) {
  Shape starts, sizes, steps;
  for (int64_t size : shapeOf(x)) {
    int64_t step = draw.of<int64_t>({1, 1, 1, 1, 2, -1, -1, -2}), start = 0, count = size;
    if (draw.chance(0.6)) {
      start = draw.below(size);
      int64_t room = step > 0 ? (size - 1 - start) / step + 1 : start / -step + 1;
      count = draw.between((room + 1) / 2, room);
    } else if (step < 0 && size > 1) {
      step = -1, start = size - 1; // reversed
    } else {
      step = 1;
    }
    starts.push_back(start), sizes.push_back(count), steps.push_back(step);
  }
  return b.slice(x, starts, sizes, steps);
}

Value RandomModel::pad(Value x) {
  Shape low, shape, steps;
  for (int64_t size : shapeOf(x)) {
    bool grows = draw.chance(0.4);
    steps.push_back(grows ? draw.of<int64_t>({1, 1, 2}) : 1);
    low.push_back(grows ? draw.below(3) : 0);
    shape.push_back(low.back() + (size - 1) * steps.back() + 1 + (grows ? draw.below(3) : 0));
  }
  return b.pad(x, low, shape, draw.of<double>({0, 0, 0.5}), steps);
}

Value RandomModel::concat(Value x) {
  int64_t d = dimOf(x);
  Value y = partner(x);
  if (draw.chance(0.5))
    y = b.sliceDim(y, d, 0, (shapeOf(y)[d] + 1) / 2);
  SmallVector<Value> parts = {x, y};
  if (draw.chance(0.2))
    parts.push_back(b.splatLike(y, draw.of<double>({0, 1})));
  return b.concat(parts, d);
}

Value RandomModel::repeat(Value x) {
  Shape shape(shapeOf(x)), dims = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
  int64_t at = draw.between(0, rankOf(x));
  shape.insert(shape.begin() + at, draw.of<int64_t>({2, 4, 3}));
  for (int64_t d = at; d < rankOf(x); ++d)
    ++dims[d];
  return rankOf(x) < 4 ? b.broadcast(x, shape, dims) : Value();
}

//===- indexing -----------------------------------------------------------===//

Value RandomModel::gather(Value x) {
  if (draw.chance(0.4)) { // a table, indexed by the values
    int64_t d = dimOf(x);
    return b.gather(parameter({shapeOf(x)[d], size()}), b.op<ArgMaxOp>(distinct(x), d, false), 0);
  }
  int64_t d = dimOf(x);
  Shape shape = {size()};
  if (draw.chance(0.3))
    shape.push_back(2);
  if (draw.chance(0.3)) {
    SmallVector<int64_t> constant;
    for (int64_t i = 0; i < shape[0]; ++i)
      constant.push_back(draw.below(shapeOf(x)[d]));
    return b.gather(x, b.indices(constant), d);
  }
  return b.gather(x, indices(shape, 0, shapeOf(x)[d]), d);
}

Value RandomModel::gatherElements(Value x) {
  int64_t d = dimOf(x);
  Shape shape(shapeOf(x));
  shape[d] = draw.between(1, shape[d]);
  if (int64_t e = dimOf(x); e != d && draw.chance(0.3))
    shape[e] = draw.between(1, shape[e]);
  return b.op<GatherElementsOp>(x, indices(shape, 0, shapeOf(x)[d]), d);
}

Value RandomModel::scatterElements(Value x) {
  int64_t d = dimOf(x);
  Shape shape(shapeOf(x));
  shape[d] = draw.between(1, shape[d]);
  Value updates = b.scale(parameter(shape), 0.5);
  auto combine = draw.of<Combine>({Combine::add, Combine::assign});
  Value at = indices(shape, 0, shapeOf(x)[d]);
  return b.op<ScatterElementsOp>(x.getType(), x, at, updates, d, combine);
}

Value RandomModel::scatterAdd(Value x) {
  int64_t d = dimOf(x), count = size();
  Shape shape(shapeOf(x));
  shape[d] = count;
  Value updates = b.scale(parameter(shape), 0.5);
  Value base = draw.chance(0.5) ? x : b.splatLike(x, 0);
  Value y = b.op<ScatterAddOp>(base, indices({count}, 0, shapeOf(x)[d]), updates, d);
  return base == x ? y : b.add(x, y);
}

Value RandomModel::gatherNd(Value x) {
  int64_t batches = draw.below(rankOf(x)), depth = draw.between(1, rankOf(x) - batches);
  int64_t most = shapeOf(x)[batches];
  for (int64_t k = 0; k < depth; ++k)
    most = std::min(most, shapeOf(x)[batches + k]);
  Shape shape(shapeOf(x).take_front(batches));
  shape.append({draw.of<int64_t>({2, 4, 3}), depth});
  return b.op<GatherNdOp>(x, indices(shape, 0, most), batches);
}

Value RandomModel::scatterNd(Value x) {
  int64_t batches = draw.below(rankOf(x)), depth = draw.between(1, rankOf(x) - batches);
  int64_t most = shapeOf(x)[batches];
  for (int64_t k = 0; k < depth; ++k)
    most = std::min(most, shapeOf(x)[batches + k]);
  Shape shape(shapeOf(x).take_front(batches));
  shape.push_back(draw.of<int64_t>({2, 4, 3}));
  Shape updates = shape;
  shape.push_back(depth);
  llvm::append_range(updates, shapeOf(x).drop_front(batches + depth));
  auto combine = draw.of<Combine>({Combine::add, Combine::assign});
  Value at = indices(shape, 0, most);
  return b.op<ScatterNdOp>(x.getType(), x, at, b.scale(parameter(updates), 0.5), batches, combine);
}
