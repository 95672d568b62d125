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
/// Of ResNet-50, 256 images.
const ConvCase large[] = {
    {"resnetFirst", 256, 1, 3, 64, {{224, 7, 2, 1, 3, 3}, {224, 7, 2, 1, 3, 3}}},
    {"resnetWide", 256, 1, 64, 64, {{56, 3, 1, 1, 1, 1}, {56, 3, 1, 1, 1, 1}}},
    {"resnetPoint", 256, 1, 256, 64, {{56, 1}, {56, 1}}},
    {"resnetPointStrided", 256, 1, 512, 1024, {{28, 1, 2}, {28, 1, 2}}},
    {"resnetStrided", 256, 1, 128, 128, {{56, 3, 2, 1, 1, 1}, {56, 3, 2, 1, 1, 1}}},
    {"resnetDeep", 256, 1, 512, 512, {{7, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}},
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
      for (bool last : {false, true}) {
        for (const ConvCase &c : convCases) {
          for (int64_t type : {DIVISI_F32, DIVISI_F64, DIVISI_BF16, DIVISI_F16})
            plans.check(c, last, type, false, false);
          plans.check(c, last, DIVISI_F32, true, false);
        }
        for (const ConvCase &c : large) {
          bool direct = last && c.in % 8 == 0;
          plans.check(c, last, DIVISI_BF16, false, direct);
          plans.check(c, last, DIVISI_F32, true, direct && gpu.architecture >= 90); // A100's transpose in any order
        }
      }
      passed += plans.passed, failed += plans.failed;
    }
  } catch (const std::runtime_error &problem) {
    std::printf("FAIL %s\n", problem.what());
    ++failed;
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}
