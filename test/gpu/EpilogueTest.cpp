// GEMMs with epilogues as the runtime requests them from cuBLASLt, on the fake GPU (fake/), compared with their
// definition.
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
    driver.check(driver.createStream(&stream, nonBlocking), "create a stream");
  }
  void TearDown() override { driver.destroyStream(stream); }

  Driver driver;
  Stream stream = nullptr;
};

TEST_F(EpilogueTest, IsItsDefinition) {
  for (int64_t type : {DIVISI_F32, DIVISI_F16, DIVISI_BF16}) {
    Blas blas(stream);
    std::deque<DivisiGemmEpilogue> blocks; // each has its plan
    Memory workspace(driver, 4096, "allocate a workspace");
    checkEpilogues(type, /*workspace=*/4096, [&](const DivisiGemmEpilogue &p, void *const *buffers) {
      std::vector<void *> all(buffers, buffers + 4 + p.has_operand + p.has_second);
      all.back() = workspace.data();
      blas.gemmEpilogue(blocks.emplace_back(p), all.data());
      driver.check(driver.synchronize(stream), "wait");
    });
  }
}

TEST_F(EpilogueTest, SaysWhatToDoWithoutAnAlgorithm) {
  setenv("FAKE_CUBLASLT_PLAIN", "1", 1);
  Blas blas(stream);
  EpilogueSample sample(DIVISI_EPILOGUE_BIAS, DIVISI_BF16, {4, 8, 8}, false, false);
  sample.p.has_operand = true;
  void *buffers[4] = {};
  std::string said;
  try {
    blas.gemmEpilogue(sample.p, buffers);
  } catch (const std::runtime_error &error) {
    said = error.what();
  }
  unsetenv("FAKE_CUBLASLT_PLAIN");
  EXPECT_NE(said.find("--no-epilogues"), std::string::npos) << said;
  EXPECT_NE(said.find("4 x 8 and 8 x 8"), std::string::npos) << said;
}
} // namespace
