// Plans of convolutions by the installed cuDNN, for GPUs that are not present: nothing runs. Prints one line for each plan
// that fails, then `N passed, N failed`.
#include "runtime/devices/cuda/Dnn.h"
#include "test/gpu/planning/Gpus.h"
#include "test/runtime/devices/ConvReference.h"

#include <cstdio>
#include <stdexcept>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;
using namespace divisi::test;

namespace {
/// The convolutions of ResNet-50, and how many there are of each.
struct Layer {
  int64_t in, out, size, kernel, stride, count;
};
constexpr Layer resnet[] = {
    {3, 64, 224, 7, 2, 1}, {64, 64, 56, 1, 1, 1}, {64, 64, 56, 3, 1, 3}, {64, 256, 56, 1, 1, 4},
    {256, 64, 56, 1, 1, 2}, {256, 128, 56, 1, 1, 1}, {128, 128, 56, 3, 2, 1}, {128, 512, 28, 1, 1, 4},
    {256, 512, 56, 1, 2, 1}, {512, 128, 28, 1, 1, 3}, {128, 128, 28, 3, 1, 3}, {512, 256, 28, 1, 1, 1},
    {256, 256, 28, 3, 2, 1}, {256, 1024, 14, 1, 1, 6}, {512, 1024, 28, 1, 2, 1}, {1024, 256, 14, 1, 1, 5},
    {256, 256, 14, 3, 1, 5}, {1024, 512, 14, 1, 1, 1}, {512, 512, 14, 3, 2, 1}, {512, 2048, 7, 1, 1, 3},
    {1024, 2048, 14, 1, 2, 1}, {2048, 512, 7, 1, 1, 2}, {512, 512, 7, 3, 1, 2},
};
constexpr const char *kinds[] = {"convolution", "its gradient by the image", "its gradient by the filter"};

class Plans {
public:
  int passed = 0, failed = 0;

  /// `direct`: the workspace must be less than an image, which therefore is not transposed, or than with channels first.
  void check(const ConvCase &c, bool last, int64_t type, bool tf32, bool direct) {
    DivisiConv conv = describeConv(c, last, type);
    conv.tf32 = tf32;
    if (!Dnn::supports(conv))
      return;
    for (auto kind : {ConvKind::Forward, ConvKind::InputGrad, ConvKind::FilterGrad}) {
      std::string problem = problemOf(kind, conv, direct);
      ++(problem.empty() ? passed : failed);
      if (!problem.empty())
        std::printf("FAIL sm_%d %s, %s, channels %s, type %d%s: %s\n", gpu.architecture, kinds[static_cast<int>(kind)],
                    c.name, last ? "last" : "first", int(type), tf32 ? " as TF32" : "", problem.c_str());
    }
  }

  /// ResNet-50 with 256 images: says how much workspace its convolutions need together.
  void checkResnet(int64_t type, bool tf32) {
    double bytes[2] = {0, 0};
    for (bool last : {false, true})
      for (const Layer &layer : resnet) {
        std::string name = concat("ResNet-50 ", layer.in, " to ", layer.out, ", ", layer.size);
        ConvDim dim = {layer.size, layer.kernel, layer.stride, 1, layer.kernel / 2, layer.kernel / 2};
        ConvCase c = {name.c_str(), 256, 1, layer.in, layer.out, {dim, dim}};
        bool direct = last && layer.in % 8 == 0 && (!tf32 || gpu.architecture >= 90); // A100's TF32 transposes anyway
        check(c, last, type, tf32, direct);
        DivisiConv conv = describeConv(c, last, type);
        conv.tf32 = tf32;
        for (auto kind : {ConvKind::Forward, ConvKind::InputGrad, ConvKind::FilterGrad})
          bytes[last] += double(layer.count) * double(bytesOf(kind, conv));
      }
    std::printf("sm_%d ResNet-50 in %s: workspaces of %.1f GB with channels first, %.1f GB last\n", gpu.architecture,
                tf32 ? "TF32" : "bf16", bytes[0] / 1e9, bytes[1] / 1e9);
  }

  Plans(const GraphFunctions &dnn, const Gpu &gpu) : dnn(dnn), gpu(gpu), device(describe(dnn, gpu)) {}

private:
  size_t bytesOf(ConvKind kind, const DivisiConv &conv) {
    return planConvolution(dnn, kind, conv, {nullptr, &device})->workspaceBytes;
  }

  std::string problemOf(ConvKind kind, const DivisiConv &conv, bool direct) {
    try {
      size_t bytes = bytesOf(kind, conv);
      int64_t width = conv.type == DIVISI_F32 ? 4 : 2;
      auto image = [&](int64_t channels, const int64_t *sizes) {
        return size_t(width * conv.batch * channels * product(sizes, conv.spatial));
      };
      size_t least = std::min(image(conv.in_channels, conv.in), image(conv.out_channels, conv.out));
      DivisiConv first = conv;
      first.channels_last = 0;
      bool wrong = direct && bytes >= least && bytes >= bytesOf(kind, first);
      return wrong ? concat("needs a workspace of ", bytes, " bytes beside images of ", least) : "";
    } catch (const std::runtime_error &problem) {
      return problem.what();
    }
  }

  const GraphFunctions &dnn;
  const Gpu &gpu;
  Descriptor device;
};
} // namespace

int main() {
  int passed = 0, failed = 0;
  try {
    GraphFunctions dnn(GraphFunctions::convolutions);
    std::printf("cuDNN %zu\n", dnn.version());
    for (const Gpu &gpu : gpus) {
      Plans plans(dnn, gpu);
      for (bool last : {false, true})
        for (const ConvCase &c : convCases) {
          for (int64_t type : {DIVISI_F32, DIVISI_F64, DIVISI_BF16, DIVISI_F16})
            plans.check(c, last, type, false, false);
          plans.check(c, last, DIVISI_F32, true, false);
        }
      plans.checkResnet(DIVISI_BF16, false);
      plans.checkResnet(DIVISI_F32, true);
      passed += plans.passed, failed += plans.failed;
    }
  } catch (const std::runtime_error &problem) {
    std::printf("FAIL %s\n", problem.what());
    ++failed;
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}
