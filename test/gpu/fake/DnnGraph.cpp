// The graphs that the fake cuDNN supports: conditions for them to be valid, and to have an engine.
#include "test/gpu/fake/DnnGraph.h"

#include <algorithm>
#include <set>

using namespace fake;

namespace {
int64_t widthOf(int type) { return type == Double ? 8 : type == Float || type == Int32 ? 4 : type == Boolean ? 1 : 2; }
bool isHalf(int type) { return type == Half || type == Brain; }
int64_t tiles(int64_t length, int64_t tile) { return (length + tile - 1) / tile * tile; }

/// Whether dimensions are equal, or 1 where they are repeated.
bool repeats(const Tensor &from, const Tensor &to) {
  for (size_t d = 0; d < to.dims.size(); ++d)
    if (from.dims[d] != to.dims[d] && from.dims[d] != 1)
      return false;
  return true;
}

std::string pointwise(const Operation &o) {
  size_t operands = o.mode == Select                                                          ? 3
                    : o.mode == Exp || o.mode == Log || o.mode == Identity || o.mode == Index ? 1
                                                                                              : 2;
  if (o.inputs.size() != operands)
    return "wrong number of operands of a pointwise operation";
  if ((o.mode == GreaterOrEqual) != (o.result.type == Boolean))
    return "comparisons, and nothing else, have a boolean result";
  if (o.mode == Select && o.inputs[2].type != Boolean)
    return "choice without a boolean";
  if (o.mode == Index && (o.axis < 0 || o.axis >= (int64_t)o.result.dims.size() || o.result.type != Int32))
    return "index without an axis or not as an integer";
  if (o.mode != Index && o.axis >= 0)
    return "axis of an operation that has none";
  bool whole = false;
  for (const Tensor &input : o.inputs) {
    if (!repeats(input, o.result))
      return "dimensions of a pointwise operation do not fit";
    whole |= input.dims == o.result.dims;
  }
  return whole ? "" : "no operand of a pointwise operation has its result's dimensions";
}

std::string matmul(const Operation &o) {
  const Tensor &a = o.inputs[0], &b = o.inputs[1], &c = o.result;
  size_t row = c.dims.size() - 2, column = row + 1;
  for (size_t d = 0; d < row; ++d)
    if (a.dims[d] != c.dims[d] || b.dims[d] != c.dims[d])
      return "batch dimensions of a product do not fit";
  if (a.dims[row] != c.dims[row] || b.dims[column] != c.dims[column] || a.dims[column] != b.dims[row])
    return "matrices of a product do not fit";
  return "";
}

std::string convolution(const Operation &o) {
  const Tensor &x = o.x(), &w = o.w(), &y = o.y();
  const Windows &c = o.windows;
  if (x.dims.size() < 4 || x.dims.size() > 5 || c.strides.size() != x.dims.size() - 2)
    return "a convolution of fewer than two or more than three dimensions";
  if (x.dims[0] != y.dims[0] || y.dims[1] != w.dims[0] || x.dims[1] % w.dims[1] != 0 ||
      w.dims[0] % (x.dims[1] / w.dims[1]) != 0)
    return "images and filter of a convolution do not fit";
  if (x.type != w.type || x.type != y.type || x.type == Int32 || x.type == Boolean)
    return "types of a convolution do not fit";
  for (size_t d = 0; d < c.strides.size(); ++d) {
    int64_t reach = c.dilations[d] * (w.dims[d + 2] - 1) + 1, padded = x.dims[d + 2] + c.low[d] + c.high[d];
    if (padded < reach || y.dims[d + 2] != (padded - reach) / c.strides[d] + 1)
      return "the size of a convolution's result does not fit";
  }
  return "";
}

/// Whether an image or a filter lies without gaps, with its channels last or not.
bool isDense(const Tensor &t, bool last) {
  int64_t stride = last ? t.dims[1] : 1;
  for (size_t d = t.dims.size(); d-- > 0;) {
    if (d == 1 && last)
      continue;
    if (t.dims[d] > 1 && t.strides[d] != stride)
      return false;
    stride *= t.dims[d];
  }
  return !last || t.dims[1] == 1 || t.strides[1] == 1;
}

std::string obstacleOfConvolution(const Operation &o) {
  bool last = isDense(o.x(), true) && isDense(o.y(), true), first = isDense(o.x(), false) && isDense(o.y(), false);
  if (!last && !first)
    return "no engine for images of two orders, or with gaps";
  return isDense(o.w(), true) || isDense(o.w(), false) ? "" : "no engine for a filter with gaps";
}

std::string reshape(const Operation &o) {
  const Tensor &x = o.inputs[0];
  if (x.elements() != o.result.elements())
    return "another number of elements after a reshape";
  auto places = [](const Tensor &t) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < t.elements(); ++i)
      all.push_back(t.offset(i));
    std::sort(all.begin(), all.end());
    return all;
  };
  if (places(x) != places(o.result))
    return "a reshape that looks elsewhere";
  return "";
}
} // namespace

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

int64_t Tensor::offset(int64_t element) const {
  int64_t at = 0;
  for (size_t d = dims.size(); d-- > 0; element /= dims[d])
    at += element % dims[d] * strides[d];
  return at;
}

int64_t Tensor::bytes() const { return (offset(elements() - 1) + 1) * widthOf(type); }

std::string fake::problemOf(const Tensor &t) {
  if (t.dims.size() < 3 || t.dims.size() != t.strides.size())
    return "a tensor of fewer than three dimensions, or with other strides";
  for (size_t d = 0; d < t.dims.size(); ++d)
    if (t.dims[d] <= 0 || t.strides[d] <= 0)
      return "a dimension or stride below 1";
  if (t.type != Float && t.type != Double && t.type != Half && t.type != Int32 && t.type != Brain && t.type != Boolean)
    return "a type that nobody knows";
  if (t.alignment <= 0 || t.alignment % widthOf(t.type) != 0)
    return "an alignment that does not fit the type";
  if (t.isVirtual && t.byValue)
    return "a tensor that is virtual and a number";
  if (t.byValue && (t.elements() != 1 || t.type != Float))
    return "a number that is none";
  return "";
}

std::string fake::problemOf(const Operation &o) {
  for (const Tensor &input : o.inputs)
    if (input.dims.size() != o.result.dims.size())
      return "tensors of different numbers of dimensions";
  if (o.result.byValue)
    return "a number as a result";
  switch (o.type) {
  case PointwiseOperation:
    return pointwise(o);
  case MatmulOperation:
    return matmul(o);
  case ReductionOperation:
    return repeats(o.result, o.inputs[0]) ? "" : "dimensions of a reduction do not fit";
  case ConvolutionForward:
  case ConvolutionFilterGrad:
  case ConvolutionInputGrad:
    return convolution(o);
  default:
    return reshape(o);
  }
}

std::string fake::problemOf(const Graph &graph) {
  if (graph.operations.size() > 1)
    for (const Operation &o : graph.operations)
      if (o.isConvolution())
        return "a convolution among other operations";
  std::map<int64_t, Tensor> known;
  std::set<int64_t> written, read;
  auto isNew = [&](const Tensor &t) { return known.try_emplace(t.id, t).first->second == t; };
  for (const Operation &o : graph.operations) {
    for (const Tensor &input : o.inputs) {
      if (!isNew(input))
        return "two tensors of one number";
      if (input.isVirtual && !written.count(input.id))
        return "a virtual tensor is read that nothing has written";
      read.insert(input.id);
    }
    if (!isNew(o.result))
      return "two tensors of one number";
    if (!written.insert(o.result.id).second || read.count(o.result.id))
      return "a tensor is written twice, or after it is read";
  }
  for (auto &[id, tensor] : known)
    if (tensor.isVirtual && !read.count(id))
      return "a virtual tensor that nothing reads";
  return "";
}

std::string fake::obstacleOf(const Graph &graph) {
  if (const Operation *conv = graph.convolution())
    return obstacleOfConvolution(*conv);
  for (const Operation &o : graph.operations)
    for (const Tensor &input : o.inputs)
      if (o.type == MatmulOperation && !input.isVirtual) {
        size_t dense = 0; // the dimension without gaps
        for (size_t d = 0; d < input.dims.size(); ++d)
          if (input.strides[d] == 1 && (input.strides[dense] != 1 || input.dims[d] > 1))
            dense = d;
        if (!isHalf(input.type) || input.strides[dense] != 1 || input.dims[dense] % 8 != 0)
          return "no engine for a product of these matrices";
      }
  return "";
}

bool EngineOfGraph::has(int note) const { return std::find(notes.begin(), notes.end(), note) != notes.end(); }

/// Engines with tensor cores transpose what does not have its channels last. The fastest needs too much workspace, the
/// next one has no fixed order; only such compute the gradient of a filter with three spatial dimensions.
static std::vector<EngineOfGraph> enginesOfConvolution(const Operation &o, bool fallback) {
  int64_t transposed = 0;
  for (const Tensor *t : {&o.x(), &o.w(), &o.y()})
    transposed += isDense(*t, true) ? 0 : t->bytes();
  constexpr int64_t some = 4096, much = int64_t(2) << 30;
  bool unordered = o.type == ConvolutionFilterGrad && o.x().dims.size() == 5;
  if (unordered)
    return {{{NoFixedOrder}, some}};
  if (fallback)
    return {{{}, some}};
  return {{{TensorCore}, much}, {{TensorCore, NoFixedOrder}, some + transposed}, {{TensorCore}, some + transposed}};
}

std::vector<EngineOfGraph> fake::enginesOf(const Graph &graph, bool fallback) {
  if (const Operation *conv = graph.convolution())
    return enginesOfConvolution(*conv, fallback);
  int64_t most = 0; // for what is transposed, in tiles
  for (const Operation &o : graph.operations)
    if (o.type == ReshapeOperation && o.inputs[0].isVirtual) {
      const Tensor &y = o.result;
      size_t column = y.dims.size() - 1, row = column - 1;
      int64_t batch = y.elements() / y.dims[row] / y.dims[column];
      most = std::max(most, 2 * batch * tiles(y.dims[row], 128) * tiles(y.dims[column], 64));
    }
  return {{{}, most + 256}};
}
