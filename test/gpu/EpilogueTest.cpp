// GEMMs with epilogues as the runtime requests them from cuBLASLt, on the fake GPU (fake/), compared with their
// definition.
#include "runtime/devices/cpu/GemmEpilogue.h"
#include "runtime/devices/cuda/Blas.h"
#include "runtime/devices/cuda/Driver.h"
#include "test/runtime/devices/EpilogueReference.h"

#include <deque>

using namespace divisi::runtime::cuda;
using namespace divisi::test;

namespace {
class EpilogueTest : public testing::Test {
protected:
  void SetUp() override {
    driver.check(driver.init(0), "start");
    DriverContext context = nullptr;
    driver.check(driver.retainContext(&context, 0), "use a GPU");
    driver.check(driver.setContext(context), "use a GPU");
    driver.check(driver.createStream(&stream, nonBlocking), "create a stream");
  }
  void TearDown() override { driver.destroyStream(stream); }

  Driver driver;
  Stream stream = nullptr;
};

TEST_F(EpilogueTest, IsItsDefinition) {
  for (int64_t type : {DIVISI_F32, DIVISI_F16, DIVISI_BF16}) {
    Blas blas(stream);
    Memory workspace(driver, 4096, "allocate a workspace");
    checkEpilogues(type, /*workspace=*/4096, [&](const DivisiGemmEpilogue &p, void *const *buffers) {
      std::vector<void *> all(buffers, buffers + 4 + p.has_operand + p.has_second);
      all.back() = workspace.data();
      std::vector<size_t> sizes = divisi::runtime::sizesAfterProduct(p);
      std::deque<Memory> copies; // an epilogue's vectors must be in the GPU's memory
      for (size_t i = 2; i < sizes.size(); ++i) {
        all[i] = copies.emplace_back(driver, sizes[i], "allocate").data();
        std::memcpy(all[i], buffers[i], sizes[i]);
      }
      EXPECT_TRUE(blas.gemmEpilogue(p, all.data()));
      driver.check(driver.synchronize(stream), "wait");
      for (size_t i = 2; i < sizes.size(); ++i)
        std::memcpy(buffers[i], all[i], sizes[i]);
    });
  }
}

TEST_F(EpilogueTest, IsRefusedWithoutAnAlgorithm) {
  setenv("DIVISI_FAKE_CUBLASLT_EPILOGUES", "none", 1);
  Blas blas(stream);
  EpilogueSample sample(DIVISI_EPILOGUE_BIAS, DIVISI_BF16, {4, 8, 8}, false, false);
  sample.p.has_operand = true;
  void *buffers[4] = {};
  EXPECT_FALSE(blas.gemmEpilogue(sample.p, buffers));
  unsetenv("DIVISI_FAKE_CUBLASLT_EPILOGUES");
  EXPECT_FALSE(blas.gemmEpilogue(sample.p, buffers)) << "the answer is kept";
}

// A library that does not start with the driver is passed over for an older one.
TEST_F(EpilogueTest, TakesTheLibraryThatStarts) {
  std::string refused;
  for (const char *driverOf : {"12080", "11080"}) {
    setenv("DIVISI_FAKE_GPU_DRIVER", driverOf, 1);
    try {
      Blas blas(stream);
    } catch (const std::runtime_error &error) {
      refused += error.what();
    }
    unsetenv("DIVISI_FAKE_GPU_DRIVER");
  }
  EXPECT_EQ(refused, "cuBLASLt cannot be used (libcublasLt.so.13: it does not start with this driver and GPU, status 1; "
                     "libcublasLt.so.12: it does not start with this driver and GPU, status 1; "
                     "libcublasLt.so: it does not start with this driver and GPU, status 1)");
}
} // namespace
