#include "runtime/devices/cuda/Dnn.h"
#include "runtime/devices/cuda/Library.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <vector>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
// Values of cuDNN's enumerations (cudnn_graph.h, cudnn_ops.h).
constexpr int typeFloat = 0, typeDouble = 1, typeHalf = 2, typeBrain = 9;
constexpr int layoutNchw = 0, crossCorrelation = 1, fmaMath = 3, deterministic = 1;
constexpr int mostAlgorithms = 10;
/// Algorithms that need more workspace are not used.
constexpr size_t mostWorkspace = size_t(1) << 30;

int typeOf(int64_t type) {
  return type == DIVISI_F64 ? typeDouble : type == DIVISI_F16 ? typeHalf : type == DIVISI_BF16 ? typeBrain : typeFloat;
}

/// cudnnConvolutionFwdAlgoPerf_t and the two types like it.
struct Performance {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, mathType, reserved[3];
};

/// The dimensions of a tensor, with at least two spatial ones.
struct Dims {
  std::vector<int> sizes, strides;
  Dims(int64_t outer, int64_t channels, const int64_t *spatial, int64_t rank, bool channelsLast) {
    sizes = {int(outer), int(channels)};
    for (int64_t d = 0; d < rank; ++d)
      sizes.push_back(int(spatial[d]));
    if (rank == 1)
      sizes.push_back(1);
    strides.resize(sizes.size());
    int stride = 1;
    if (channelsLast) {
      strides[1] = 1;
      stride = sizes[1];
    }
    for (size_t d = sizes.size(); d-- > 0;)
      if (d != 1 || !channelsLast) {
        strides[d] = stride;
        stride *= sizes[d];
      }
  }
  int rank() const { return int(sizes.size()); }
};
} // namespace

struct Dnn::Functions {
  int (*create)(void **);
  int (*destroy)(void *);
  int (*setStream)(void *, Stream);
  int (*tensorCreate)(void **);
  int (*tensorDestroy)(void *);
  int (*tensorSet)(void *, int, int, const int *, const int *);
  int (*filterCreate)(void **);
  int (*filterDestroy)(void *);
  int (*filterSet)(void *, int, int, int, const int *);
  int (*convCreate)(void **);
  int (*convDestroy)(void *);
  int (*convSet)(void *, int, const int *, const int *, const int *, int, int);
  int (*convGroups)(void *, int);
  int (*convMath)(void *, int);
  /// by ConvKind: (handle, first operand, second operand or convolution, ...)
  int (*find[3])(void *, void *, void *, void *, void *, int, int *, Performance *);
  int (*forward)(void *, const void *, void *, const void *, void *, const void *, void *, int, void *, size_t,
                 const void *, void *, void *);
  int (*inputGrad)(void *, const void *, void *, const void *, void *, const void *, void *, int, void *, size_t,
                   const void *, void *, void *);
  int (*filterGrad)(void *, const void *, void *, const void *, void *, const void *, void *, int, void *, size_t,
                    const void *, void *, void *);

  explicit Functions(void *&handle) {
    openLibrary({"libcudnn.so.9", "libcudnn.so"}, "cuDNN, which computes convolutions,", [&](void *library) {
      bindAll(library);
      checkStart(create(&handle));
    });
  }

private:
  void bindAll(void *library) {
    bind(library, "cudnnCreate", create);
    bind(library, "cudnnDestroy", destroy);
    bind(library, "cudnnSetStream", setStream);
    bind(library, "cudnnCreateTensorDescriptor", tensorCreate);
    bind(library, "cudnnDestroyTensorDescriptor", tensorDestroy);
    bind(library, "cudnnSetTensorNdDescriptor", tensorSet);
    bind(library, "cudnnCreateFilterDescriptor", filterCreate);
    bind(library, "cudnnDestroyFilterDescriptor", filterDestroy);
    bind(library, "cudnnSetFilterNdDescriptor", filterSet);
    bind(library, "cudnnCreateConvolutionDescriptor", convCreate);
    bind(library, "cudnnDestroyConvolutionDescriptor", convDestroy);
    bind(library, "cudnnSetConvolutionNdDescriptor", convSet);
    bind(library, "cudnnSetConvolutionGroupCount", convGroups);
    bind(library, "cudnnSetConvolutionMathType", convMath);
    bind(library, "cudnnGetConvolutionForwardAlgorithm_v7", find[0]);
    bind(library, "cudnnGetConvolutionBackwardDataAlgorithm_v7", find[1]);
    bind(library, "cudnnGetConvolutionBackwardFilterAlgorithm_v7", find[2]);
    bind(library, "cudnnConvolutionForward", forward);
    bind(library, "cudnnConvolutionBackwardData", inputGrad);
    bind(library, "cudnnConvolutionBackwardFilter", filterGrad);
  }
};

struct Dnn::Plan {
  const Functions &dnn;
  void *x = nullptr, *w = nullptr, *y = nullptr, *conv = nullptr;
  int algorithm = 0;
  size_t bytes = 0;
  bool wide = false;
  std::optional<Memory> own; ///< a workspace larger than the call's

  explicit Plan(const Functions &dnn) : dnn(dnn) {}
  ~Plan() {
    if (x)
      dnn.tensorDestroy(x);
    if (y)
      dnn.tensorDestroy(y);
    if (w)
      dnn.filterDestroy(w);
    if (conv)
      dnn.convDestroy(conv);
  }
};

Dnn::Dnn(const Driver &driver, Stream stream) : driver(driver), dnn(std::make_unique<Functions>(handle)) {
  check(dnn->setStream(handle, stream), "use the stream");
}

Dnn::~Dnn() {
  for (auto &ofKind : plans)
    ofKind.clear();
  dnn->destroy(handle);
}

void Dnn::check(int code, const char *what) {
  if (code != 0)
    throw std::runtime_error(concat("cuDNN cannot ", what, " (status ", code, ")"));
}

bool Dnn::supports(const DivisiConv &conv) {
  for (int64_t d = 0; d < conv.spatial; ++d)
    if (conv.pad_low[d] != conv.pad_high[d] || conv.pad_low[d] < 0)
      return false;
  // cuDNN's sizes and strides are ints.
  double x = double(conv.in_channels), y = double(conv.out_channels);
  for (int64_t d = 0; d < conv.spatial; ++d) {
    x *= double(conv.in[d]);
    y *= double(conv.out[d]);
  }
  return !conv.channels_last && std::max({x, y, double(conv.batch)}) <= INT_MAX;
}

std::unique_ptr<Dnn::Plan> Dnn::plan(ConvKind kind, const DivisiConv &c) {
  auto plan = std::make_unique<Plan>(*dnn);
  int type = typeOf(c.type);
  plan->wide = type == typeDouble;
  Dims x(c.batch, c.in_channels, c.in, c.spatial, c.channels_last),
      y(c.batch, c.out_channels, c.out, c.spatial, c.channels_last);
  Dims w(c.out_channels, c.in_channels / c.groups, c.kernel, c.spatial, false);
  check(dnn->tensorCreate(&plan->x), "describe a tensor");
  check(dnn->tensorSet(plan->x, type, x.rank(), x.sizes.data(), x.strides.data()), "describe a tensor");
  check(dnn->tensorCreate(&plan->y), "describe a tensor");
  check(dnn->tensorSet(plan->y, type, y.rank(), y.sizes.data(), y.strides.data()), "describe a tensor");
  check(dnn->filterCreate(&plan->w), "describe a filter");
  check(dnn->filterSet(plan->w, type, layoutNchw, w.rank(), w.sizes.data()), "describe a filter");
  std::vector<int> pads, strides, dilations;
  for (int64_t d = 0; d < c.spatial; ++d) {
    pads.push_back(int(c.pad_low[d]));
    strides.push_back(int(c.stride[d]));
    dilations.push_back(int(c.dilation[d]));
  }
  if (c.spatial == 1) {
    pads.push_back(0);
    strides.push_back(1);
    dilations.push_back(1);
  }
  check(dnn->convCreate(&plan->conv), "describe a convolution");
  check(dnn->convSet(plan->conv, int(pads.size()), pads.data(), strides.data(), dilations.data(), crossCorrelation,
                     plan->wide ? typeDouble : typeFloat),
        "describe a convolution");
  check(dnn->convGroups(plan->conv, int(c.groups)), "describe groups");
  bool exact = type == typeFloat && !c.tf32;
  if (exact)
    check(dnn->convMath(plan->conv, fmaMath), "compute in single precision");
  // The operands in the order of each kind, then the result.
  void *first = kind == ConvKind::InputGrad ? plan->w : plan->x;
  void *second = kind == ConvKind::Forward ? plan->w : plan->y;
  void *result = kind == ConvKind::Forward ? plan->y : kind == ConvKind::InputGrad ? plan->x : plan->w;
  Performance found[mostAlgorithms];
  int count = 0;
  check(dnn->find[static_cast<int>(kind)](handle, first, second, plan->conv, result, mostAlgorithms, &count, found),
        "choose an algorithm for a convolution");
  const Performance *best = nullptr;
  for (int i = 0; i < count; ++i) // fastest first
    if (found[i].status == 0 && found[i].memory <= mostWorkspace && (!best || best->determinism != deterministic) &&
        (!best || found[i].determinism == deterministic))
      best = &found[i];
  if (!best)
    throw std::runtime_error("cuDNN has no algorithm for a convolution");
  // An algorithm's memory depends on the kind of arithmetic, so its own kind is set.
  if (!exact)
    check(dnn->convMath(plan->conv, best->mathType), "choose the arithmetic of a convolution");
  plan->algorithm = best->algorithm;
  plan->bytes = best->memory;
  if (plan->bytes > static_cast<size_t>(c.workspace))
    plan->own.emplace(driver, plan->bytes, "allocate the workspace of a convolution");
  return plan;
}

void Dnn::conv(ConvKind kind, const DivisiConv &params, void *const *buffers) {
  auto &plan = plans[static_cast<size_t>(kind)][params];
  if (!plan)
    plan = this->plan(kind, params);
  double one64 = 1, zero64 = 0;
  float one32 = 1, zero32 = 0;
  const void *one = plan->wide ? static_cast<const void *>(&one64) : &one32;
  const void *zero = plan->wide ? static_cast<const void *>(&zero64) : &zero32;
  const Plan &p = *plan;
  void *space = p.own ? p.own->data() : params.workspace > 0 ? buffers[3] : nullptr;
  int code = 0;
  switch (kind) {
  case ConvKind::Forward: // x, w, y
    code = dnn->forward(handle, one, p.x, buffers[0], p.w, buffers[1], p.conv, p.algorithm, space, p.bytes, zero, p.y,
                        buffers[2]);
    break;
  case ConvKind::InputGrad: // dy, w, dx
    code = dnn->inputGrad(handle, one, p.w, buffers[1], p.y, buffers[0], p.conv, p.algorithm, space, p.bytes, zero, p.x,
                          buffers[2]);
    break;
  case ConvKind::FilterGrad: // x, dy, dw
    code = dnn->filterGrad(handle, one, p.x, buffers[0], p.y, buffers[1], p.conv, p.algorithm, space, p.bytes, zero,
                           p.w, buffers[2]);
    break;
  }
  check(code, "compute a convolution");
}
