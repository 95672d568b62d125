// Convolutions as the runtime requests them from cuDNN, on the fake GPU (fake/), compared with their definition.
#include "runtime/core/Half.h"
#include "runtime/devices/cuda/Dnn.h"
#include "test/gpu/GpuTest.h"
#include "test/runtime/devices/ConvReference.h"

#include <stdexcept>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;
using namespace divisi::test;

namespace {
class ConvTest : public GpuTest {
protected:
  /// The numbers in the buffers of a convolution's type.
  void *put(Arena &arena, const std::vector<float> &values, int64_t type) {
    if (type == DIVISI_F32)
      return arena.put(values);
    if (type == DIVISI_F64)
      return arena.put(std::vector<double>(values.begin(), values.end()));
    std::vector<uint16_t> bits;
    for (float v : values)
      bits.push_back(type == DIVISI_BF16 ? floatToBfloat(v) : floatToHalf(v));
    return arena.put(bits);
  }
  std::vector<double> take(const void *from, size_t count, int64_t type) {
    std::vector<double> values;
    for (size_t i = 0; i < count; ++i)
      values.push_back(type == DIVISI_F32    ? static_cast<const float *>(from)[i]
                       : type == DIVISI_F64  ? static_cast<const double *>(from)[i]
                       : type == DIVISI_BF16 ? bfloatToFloat(static_cast<const uint16_t *>(from)[i])
                                             : halfToFloat(static_cast<const uint16_t *>(from)[i]));
    return values;
  }

  /// The largest error of the convolution and its gradients, relative to the largest number. `workspace`: bytes of the
  /// caller's.
  double worst(DivisiConv conv, int64_t workspace = 0) {
    ConvReference s(conv);
    Dnn dnn(driver, stream);
    Arena arena(driver);
    std::vector<float> nothing[] = {std::vector<float>(s.dy.size(), 77), std::vector<float>(s.x.size(), 77),
                                    std::vector<float>(s.w.size(), 77)};
    void *x = put(arena, s.x, conv.type), *w = put(arena, s.w, conv.type), *dy = put(arena, s.dy, conv.type);
    void *y = put(arena, nothing[0], conv.type), *dx = put(arena, nothing[1], conv.type),
         *dw = put(arena, nothing[2], conv.type);
    while (addressOf(arena.place(0)) % 256 != 0)
      arena.place(1);
    void *space = arena.place(static_cast<size_t>(workspace));
    conv.workspace = workspace;
    auto compute = [&](ConvKind kind, void *a, void *b, void *result) {
      void *buffers[] = {a, b, result, space};
      dnn.conv(kind, conv, buffers);
    };
    compute(ConvKind::Forward, x, w, y);
    compute(ConvKind::InputGrad, dy, w, dx);
    compute(ConvKind::FilterGrad, x, dy, dw);
    driver.check(driver.synchronize(stream), "wait");
    double error = worstError(take(y, s.y.size(), conv.type), s.y);
    error = std::max(error, worstError(take(dx, s.dx.size(), conv.type), s.dx));
    return std::max(error, worstError(take(dw, s.dw.size(), conv.type), s.dw));
  }
};
} // namespace

TEST_F(ConvTest, IsWhatItIsDefinedAs) {
  for (const ConvCase &c : convCases)
    for (bool last : {false, true}) {
      SCOPED_TRACE(testing::Message() << c.name << (last ? " last" : " first"));
      if (!Dnn::supports(describeConv(c, last, DIVISI_F32))) {
        EXPECT_STREQ(c.name, "planeNegativePadding");
        continue;
      }
      EXPECT_LT(worst(describeConv(c, last, DIVISI_F32)), 2e-7);
      EXPECT_LT(worst(describeConv(c, last, DIVISI_F64)), 1e-15);
      EXPECT_LT(worst(describeConv(c, last, DIVISI_BF16)), 4e-3);
      EXPECT_LT(worst(describeConv(c, last, DIVISI_F16)), 5e-4);
    }
}

TEST_F(ConvTest, UsesTf32WhereItMay) {
  DivisiConv conv = describeConv({"", 2, 1, 3, 8, {{9, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}}, true, DIVISI_F32);
  conv.tf32 = 1;
  double error = worst(conv);
  EXPECT_LT(error, 1e-3);
  EXPECT_GT(error, 1e-5);
}

TEST_F(ConvTest, ChannelsLastNeedNoWorkspaceForImages) {
  GraphFunctions dnn(GraphFunctions::convolutions);
  void *handle = nullptr;
  dnn.check(dnn.create(&handle), "start");
  auto bytes = [&](bool last) {
    DivisiConv conv = describeConv({"", 8, 1, 16, 16, {{20, 3, 1, 1, 1, 1}, {20, 3, 1, 1, 1, 1}}}, last, DIVISI_BF16);
    return planConvolution(dnn, ConvKind::Forward, conv, {handle})->workspaceBytes;
  };
  size_t image = 8 * 16 * 20 * 20 * 2, filter = 16 * 16 * 9 * 2;
  EXPECT_EQ(bytes(false) - bytes(true), 2 * image);
  EXPECT_EQ(bytes(true) % 4096, filter % 4096);
  dnn.destroy(handle);
}

TEST_F(ConvTest, UsesTheWorkspaceOfTheCallOrItsOwn) {
  DivisiConv conv = describeConv({"", 2, 1, 8, 8, {{6, 3, 1, 1, 1, 1}, {6, 3, 1, 1, 1, 1}}}, true, DIVISI_BF16);
  for (int64_t workspace : {0, 256, 1 << 16})
    EXPECT_LT(worst(conv, workspace), 4e-3) << workspace;
}

TEST_F(ConvTest, RefusesAnOldCudnn) {
  setenv("DIVISI_FAKE_CUDNN_VERSION", "8907", 1);
  EXPECT_THROW(Dnn(driver, stream), std::runtime_error);
  unsetenv("DIVISI_FAKE_CUDNN_VERSION");
}
