#include "runtime/core/Context.h"
#include "test/runtime/devices/EpilogueReference.h"

using namespace divisi;
using namespace divisi::runtime;
using namespace divisi::test;

TEST(GemmEpilogue, IsItsDefinition) {
  for (int threads : {1, 3})
    for (int64_t type : {DIVISI_F32, DIVISI_F16, DIVISI_BF16})
      checkEpilogues(type, /*workspace=*/0, [&](const DivisiGemmEpilogue &p, void *const *buffers) {
        DivisiContext context{configureThreads(threads)};
        divisi_gemm_epilogue(&context, &p, buffers);
        EXPECT_FALSE(context.failed()) << context.error.message();
      });
}

TEST(GemmEpilogue, RefusesWhatItHasNot) {
  auto refusal = [](int64_t type, int64_t n) {
    EpilogueSample sample(DIVISI_EPILOGUE_RELU_GRAD, type, {4, n, 8}, false, false);
    sample.p.has_operand = true;
    void *buffers[4] = {};
    DivisiContext context{1};
    divisi_gemm_epilogue(&context, &sample.p, buffers);
    return std::string(context.error.message());
  };
  EXPECT_EQ(refusal(DIVISI_F64, 128), "matrix product: a product in double precision has no epilogue");
  EXPECT_EQ(refusal(DIVISI_F32, 64), "matrix product: bits of relu for 64 columns: not a multiple of 128");
}
