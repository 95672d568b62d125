//===- Conv.cpp - convolutions of a GPU -----------------------------------===//
#include "runtime/core/DataType.h"
#include "runtime/devices/cpu/ConvDirect.h"
#include "runtime/devices/cpu/Convert.h"
#include "runtime/devices/cuda/Gpu.h"

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

void Gpu::convolve(ConvKind kind, const DivisiConv &params, void *const *buffers) {
  if (Dnn::supports(params)) {
    if (!dnn)
      dnn.emplace(driver, stream);
    return dnn->conv(kind, params, buffers);
  }
  auto elements = [&](int64_t outer, int64_t channels, const int64_t *spatial) {
    for (int64_t d = 0; d < params.spatial; ++d)
      outer *= spatial[d];
    return static_cast<size_t>(outer * channels * widthOfType(params.type));
  };
  size_t x = elements(params.batch, params.in_channels, params.in);
  size_t y = elements(params.batch, params.out_channels, params.out);
  size_t w = elements(params.out_channels, params.in_channels / params.groups, params.kernel);
  std::vector<size_t> sizes = kind == ConvKind::Forward     ? std::vector{x, w, y}
                              : kind == ConvKind::InputGrad ? std::vector{y, w, x}
                                                            : std::vector{x, y, w};
  onThisProcessor(buffers, sizes, 2, 2, [&](DivisiContext *cpu, void *const *host) {
    if (widthOfType(params.type) > 2)
      return convDirect(kind, params, host, cpu->threads);
    DivisiConv single = params;
    single.type = DIVISI_F32;
    std::vector<std::vector<float>> wide;
    std::vector<void *> floats;
    for (size_t i = 0; i < sizes.size(); ++i) {
      wide.emplace_back(sizes[i] / 2);
      floats.push_back(wide.back().data());
      if (i < 2)
        convertToFloat(host[i], params.type, wide[i].data(), static_cast<int64_t>(wide[i].size()));
    }
    convDirect(kind, single, floats.data(), cpu->threads);
    convertFromFloat(wide[2].data(), host[2], params.type, static_cast<int64_t>(wide[2].size()));
  });
}

void Gpu::conv_forward(const DivisiConv &params, void *const *buffers) { convolve(ConvKind::Forward, params, buffers); }
void Gpu::conv_input_grad(const DivisiConv &params, void *const *buffers) {
  convolve(ConvKind::InputGrad, params, buffers);
}
void Gpu::conv_filter_grad(const DivisiConv &params, void *const *buffers) {
  convolve(ConvKind::FilterGrad, params, buffers);
}
