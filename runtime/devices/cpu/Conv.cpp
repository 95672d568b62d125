//===- Conv.cpp - convolution and its gradients ---------------------------===//
#include "runtime/core/Context.h"
#include "runtime/core/Launch.h"
#include "runtime/devices/cpu/ConvPlan.h"
#include "runtime/devices/cpu/Convert.h"
#include "runtime/devices/cpu/FilterMatmul.h"
#include "runtime/devices/cpu/OneThread.h"

#include <stdexcept>

using namespace divisi::runtime;

namespace {
/// FLOPs below which a second thread costs more than it computes: 0.6 million take 10 us on one thread and 12 on two, and a gradient
/// of filters of 0.1 million 3 and 49.
constexpr double leastFlops = 2e6;

/// One call site: how its convolution is computed.
class Site : public CacheEntry {
public:
  Site(ConvKind kind, const DivisiConv &given) : kind(kind), conv(given), given(given.type), isSmall(flops() < leastFlops) {
    OneThread alone(isSmall);
    bool library = conv.type != DIVISI_F64;
    for (int64_t d = 0; d < conv.spatial; ++d)
      library &= conv.pad_low[d] >= 0 && conv.pad_high[d] >= 0;
    if (kind == ConvKind::FilterGrad && !isSmall && (matmul = FilterMatmul::create(conv))) {
      bytes = matmul->scratchBytes();
      return;
    }
    if (library && conv.type != DIVISI_F16)
      plan = ConvPlan::create(kind, conv);
    if (!plan && widthOfType(conv.type) == 2) {
      widened = true;
      conv.type = DIVISI_F32;
      if (library)
        plan = ConvPlan::create(kind, conv);
    }
    bytes = plan ? Scratch::roundUp(plan->scratchBytes()) : 0;
    for (size_t i = 0; i < 3 && widened; ++i) {
      wideAt[i] = bytes;
      bytes += Scratch::roundUp(static_cast<size_t>(elements(i)) * sizeof(float));
    }
  }

  void run(DivisiContext *context, void *const *buffers) {
    OneThread alone(isSmall && plan);
    char *scratch = context->scratch.reserve(bytes);
    std::array<void *, 3> operands = {buffers[0], buffers[1], buffers[2]};
    for (size_t i = 0; i < 3 && widened; ++i)
      operands[i] = scratch + wideAt[i];
    for (size_t i = 0; i < 2 && widened; ++i)
      forEachPiece(elements(i), grain, context->threads, [&](int64_t begin, int64_t end) {
        convertToFloat(half(buffers[i]) + begin, given, single(operands[i]) + begin, end - begin);
      });
    if (matmul)
      matmul->run(scratch, operands, context->threads);
    else if (plan)
      plan->run(scratch, operands);
    else
      convDirect(kind, conv, operands.data(), context->threads);
    if ((matmul || plan) && !isSmall && context->threads > 1)
      divisi_team_ended();
    if (widened)
      forEachPiece(elements(2), grain, context->threads, [&](int64_t begin, int64_t end) {
        convertFromFloat(single(operands[2]) + begin, half(buffers[2]) + begin, given, end - begin);
      });
  }

private:
  static constexpr int64_t grain = 4096;
  static uint16_t *half(void *p) { return static_cast<uint16_t *>(p); }
  static float *single(void *p) { return static_cast<float *>(p); }

  int64_t elements(size_t operand) const {
    ConvSlot slot = convSlots(kind)[operand];
    int64_t count = slot == ConvW   ? conv.out_channels * (conv.in_channels / conv.groups)
                    : slot == ConvX ? conv.batch * conv.in_channels
                                    : conv.batch * conv.out_channels;
    for (int64_t d = 0; d < conv.spatial; ++d)
      count *= (slot == ConvW ? conv.kernel : slot == ConvX ? conv.in : conv.out)[d];
    return count;
  }

  double flops() const {
    double product = 2.0 * static_cast<double>(conv.batch * conv.out_channels * (conv.in_channels / conv.groups));
    for (int64_t d = 0; d < conv.spatial; ++d)
      product *= static_cast<double>(conv.out[d] * conv.kernel[d]);
    return product;
  }

  ConvKind kind;
  DivisiConv conv; ///< in the type of the computation
  int64_t given;   ///< the type of the buffers
  bool isSmall;    ///< the library computes it on one thread
  bool widened = false;
  std::unique_ptr<ConvPlan> plan;
  std::unique_ptr<FilterMatmul> matmul;
  std::array<size_t, 3> wideAt = {};
  size_t bytes = 0;
};

void check(const DivisiConv &c) {
  if (c.spatial < 1 || c.spatial > 3)
    throw std::runtime_error(concat(c.spatial, " spatial dimensions are not supported"));
  if (c.groups < 1 || c.in_channels % c.groups != 0 || c.out_channels % c.groups != 0)
    throw std::runtime_error(concat(c.groups, " groups do not divide the channels"));
}

void run(DivisiContext *context, ConvKind kind, decltype(&Accelerator::conv_forward) onDevice, const DivisiConv *params,
         void *const *buffers) {
  guarded(context, "convolution", [&] {
    if (context->accelerator)
      return (context->accelerator->*onDevice)(*params, buffers);
    auto &entry = context->cache[{static_cast<int>(kind), params}];
    if (!entry) {
      check(*params);
      entry = std::make_unique<Site>(kind, *params);
    }
    static_cast<Site &>(*entry).run(context, buffers);
  });
}
} // namespace

void divisi_conv_forward(DivisiContext *context, const DivisiConv *params, void *const *buffers) {
  run(context, ConvKind::Forward, &Accelerator::conv_forward, params, buffers);
}
void divisi_conv_input_grad(DivisiContext *context, const DivisiConv *params, void *const *buffers) {
  run(context, ConvKind::InputGrad, &Accelerator::conv_input_grad, params, buffers);
}
void divisi_conv_filter_grad(DivisiContext *context, const DivisiConv *params, void *const *buffers) {
  run(context, ConvKind::FilterGrad, &Accelerator::conv_filter_grad, params, buffers);
}
