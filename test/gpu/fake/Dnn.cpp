// A cuDNN for a fake GPU: convolutions by their definition, over the given strides, in double precision.
#include "test/gpu/fake/DnnGraph.h"
#include "test/gpu/fake/Log.h"
#include "test/gpu/fake/Numbers.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace {
constexpr int success = 0, badParam = 2000, notSupported = 3000;
constexpr int typeFloat = 0, typeDouble = 1, typeHalf = 2, typeBrain = 9;

Kind kindOf(int type) {
  return type == typeDouble  ? Kind::Double
         : type == typeFloat ? Kind::Float
         : type == typeHalf  ? Kind::Half
                             : Kind::Brain;
}

struct Tensor { // a filter, too
  int type = -1;
  std::vector<int> sizes, strides;
  size_t rank() const { return sizes.size(); }
};
struct Conv {
  std::vector<int> pad, stride, dilation;
  int mode = -1, groups = 1, math = 0;
};
struct Performance {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, mathType, reserved[3];
};
using Handle = fake::DnnHandle;

double load(const Tensor &t, const void *data, int64_t at) { return number(kindOf(t.type), data, at); }
void store(const Tensor &t, void *data, int64_t at, double value) { setNumber(kindOf(t.type), data, at, value); }

bool matches(const Tensor &x, const Tensor &w, const Tensor &y, const Conv &c) {
  size_t rank = x.rank();
  if (rank < 4 || rank > 5 || w.rank() != rank || y.rank() != rank || c.pad.size() != rank - 2 || c.mode != 1)
    return false;
  if ((x.type != typeFloat && x.type != typeDouble && x.type != typeHalf && x.type != typeBrain) || w.type != x.type ||
      y.type != x.type)
    return false;
  if (x.sizes[0] != y.sizes[0] || x.sizes[1] != w.sizes[1] * c.groups || y.sizes[1] != w.sizes[0])
    return false;
  for (size_t d = 2; d < rank; ++d) {
    int reach = c.dilation[d - 2] * (w.sizes[d] - 1) + 1;
    if (y.sizes[d] != (x.sizes[d] + 2 * c.pad[d - 2] - reach) / c.stride[d - 2] + 1)
      return false;
  }
  return true;
}

/// Calls body(index in x, in w, in y) for every multiplication of the convolution.
template <typename Body>
void forEach(const Tensor &x, const Tensor &w, const Tensor &y, const Conv &c, const Body &body) {
  size_t spatial = x.rank() - 2;
  int64_t outs = 1, taps = 1;
  for (size_t d = 0; d < spatial; ++d)
    outs *= y.sizes[d + 2], taps *= w.sizes[d + 2];
  int perGroup = w.sizes[0] / c.groups;
  for (int n = 0; n < x.sizes[0]; ++n)
    for (int o = 0; o < w.sizes[0]; ++o)
      for (int64_t out = 0; out < outs; ++out)
        for (int i = 0; i < w.sizes[1]; ++i)
          for (int64_t tap = 0; tap < taps; ++tap) {
            int64_t atX = (int64_t)n * x.strides[0] + (int64_t)(o / perGroup * w.sizes[1] + i) * x.strides[1];
            int64_t atY = (int64_t)n * y.strides[0] + (int64_t)o * y.strides[1];
            int64_t atW = (int64_t)o * w.strides[0] + (int64_t)i * w.strides[1];
            int64_t restOut = out, restTap = tap;
            bool inside = true;
            for (size_t d = spatial; d-- > 0;) {
              int64_t p = restOut % y.sizes[d + 2], k = restTap % w.sizes[d + 2];
              restOut /= y.sizes[d + 2], restTap /= w.sizes[d + 2];
              int64_t at = p * c.stride[d] - c.pad[d] + k * c.dilation[d];
              inside &= at >= 0 && at < x.sizes[d + 2];
              atX += at * x.strides[d + 2], atY += p * y.strides[d + 2], atW += k * w.strides[d + 2];
            }
            if (inside)
              body(atX, atW, atY);
          }
}

/// The result's elements, each a sum of products.
template <typename Add>
int compute(Handle *handle, const char *what, const Tensor &x, const Tensor &w, const Tensor &y, const Conv &c,
            const Tensor &result, void *to, const Add &add) {
  if (!matches(x, w, y, c))
    return badParam;
  noteFirstUse(std::string(what) + " " + std::to_string(x.sizes[1]) + " " + std::to_string(w.sizes[0]) + " " +
               std::to_string(x.sizes[2]) + " " + std::to_string(w.sizes[2]));
  record("%s %dx%d -> %dx%d", what, x.sizes[0], x.sizes[1], y.sizes[0], y.sizes[1]);
  return enqueueOn(
      handle->stream,
      [=] {
        int64_t count = 1;
        for (size_t d = 0; d < result.rank(); ++d)
          count += (int64_t)(result.sizes[d] - 1) * result.strides[d];
        std::vector<double> sums((size_t)count, 0);
        forEach(x, w, y, c, [&](int64_t atX, int64_t atW, int64_t atY) { add(atX, atW, atY, sums); });
        for (int64_t i = 0; i < count; ++i)
          store(result, to, i, sums[(size_t)i]);
        return success;
      },
      notSupported);
}

/// Whether an algorithm has the workspace that `find` asks for.
constexpr size_t wanted = 4096;
bool suffices(const void *space, size_t bytes) {
  return bytes >= wanted && (uintptr_t)space % 256 == 0 && isOnDevice(space, bytes);
}

int find(const Tensor &x, const Tensor &w, const Tensor &y, const Conv &c, int *count, Performance *results) {
  *count = 0;
  if (!matches(x, w, y, c))
    return badParam;
  *count = 1;
  results[0] = {1, success, 1.0f, wanted, 1, c.math, {0, 0, 0}};
  return success;
}
} // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API cudnnCreate(Handle **handle) {
  *handle = new Handle;
  return success;
}
API cudnnDestroy(Handle *handle) {
  delete handle;
  return success;
}
API cudnnSetStream(Handle *handle, void *stream) {
  handle->stream = stream;
  return success;
}
API cudnnCreateTensorDescriptor(Tensor **tensor) {
  *tensor = new Tensor;
  return success;
}
API cudnnDestroyTensorDescriptor(Tensor *tensor) {
  delete tensor;
  return success;
}
API cudnnSetTensorNdDescriptor(Tensor *tensor, int type, int rank, const int *sizes, const int *strides) {
  *tensor = {type, {sizes, sizes + rank}, {strides, strides + rank}};
  return success;
}
API cudnnCreateFilterDescriptor(Tensor **filter) { return cudnnCreateTensorDescriptor(filter); }
API cudnnDestroyFilterDescriptor(Tensor *filter) { return cudnnDestroyTensorDescriptor(filter); }
API cudnnSetFilterNdDescriptor(Tensor *filter, int type, int format, int rank, const int *sizes) {
  if (format != 0)
    return notSupported;
  *filter = {type, {sizes, sizes + rank}, std::vector<int>((size_t)rank)};
  for (int d = rank, stride = 1; d-- > 0; stride *= sizes[d])
    filter->strides[(size_t)d] = stride;
  return success;
}
API cudnnCreateConvolutionDescriptor(Conv **conv) {
  *conv = new Conv;
  return success;
}
API cudnnDestroyConvolutionDescriptor(Conv *conv) {
  delete conv;
  return success;
}
API cudnnSetConvolutionNdDescriptor(Conv *conv, int rank, const int *pad, const int *stride, const int *dilation,
                                    int mode, int) {
  *conv = {{pad, pad + rank}, {stride, stride + rank}, {dilation, dilation + rank}, mode};
  return success;
}
API cudnnSetConvolutionGroupCount(Conv *conv, int groups) {
  conv->groups = groups;
  return success;
}
API cudnnSetConvolutionMathType(Conv *conv, int math) {
  conv->math = math;
  return success;
}
API cudnnGetConvolutionForwardAlgorithm_v7(Handle *, Tensor *x, Tensor *w, Conv *c, Tensor *y, int, int *count,
                                           Performance *results) {
  return find(*x, *w, *y, *c, count, results);
}
API cudnnGetConvolutionBackwardDataAlgorithm_v7(Handle *, Tensor *w, Tensor *y, Conv *c, Tensor *x, int, int *count,
                                                Performance *results) {
  return find(*x, *w, *y, *c, count, results);
}
API cudnnGetConvolutionBackwardFilterAlgorithm_v7(Handle *, Tensor *x, Tensor *y, Conv *c, Tensor *w, int, int *count,
                                                  Performance *results) {
  return find(*x, *w, *y, *c, count, results);
}
API cudnnConvolutionForward(Handle *handle, const void *, Tensor *x, const void *dataX, Tensor *w, const void *dataW,
                            Conv *c, int, void *space, size_t bytes, const void *, Tensor *y, void *dataY) {
  if (!suffices(space, bytes))
    return badParam;
  Tensor tx = *x, tw = *w;
  return compute(handle, "conv", *x, *w, *y, *c, *y, dataY,
                 [=](int64_t atX, int64_t atW, int64_t atY, std::vector<double> &sums) {
                   sums[(size_t)atY] += load(tx, dataX, atX) * load(tw, dataW, atW);
                 });
}
API cudnnConvolutionBackwardData(Handle *handle, const void *, Tensor *w, const void *dataW, Tensor *y,
                                 const void *dataY, Conv *c, int, void *space, size_t bytes, const void *, Tensor *x,
                                 void *dataX) {
  if (!suffices(space, bytes))
    return badParam;
  Tensor ty = *y, tw = *w;
  return compute(handle, "conv_input_grad", *x, *w, *y, *c, *x, dataX,
                 [=](int64_t atX, int64_t atW, int64_t atY, std::vector<double> &sums) {
                   sums[(size_t)atX] += load(ty, dataY, atY) * load(tw, dataW, atW);
                 });
}
API cudnnConvolutionBackwardFilter(Handle *handle, const void *, Tensor *x, const void *dataX, Tensor *y,
                                   const void *dataY, Conv *c, int, void *space, size_t bytes, const void *, Tensor *w,
                                   void *dataW) {
  if (!suffices(space, bytes))
    return badParam;
  Tensor tx = *x, ty = *y;
  return compute(handle, "conv_filter_grad", *x, *w, *y, *c, *w, dataW,
                 [=](int64_t atX, int64_t atW, int64_t atY, std::vector<double> &sums) {
                   sums[(size_t)atW] += load(tx, dataX, atX) * load(ty, dataY, atY);
                 });
}
