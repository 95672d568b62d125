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

TEST(GemmEpilogue, RefusesDoublePrecision) {
  EpilogueSample sample(DIVISI_EPILOGUE_RELU, DIVISI_F64, {4, 128, 8}, false, false);
  void *buffers[3] = {};
  DivisiContext context{1};
  divisi_gemm_epilogue(&context, &sample.p, buffers);
  EXPECT_EQ(std::string(context.error.message()), "matrix product: a product in double precision has no epilogue");
}
