// Batches on their way to a GPU: the host goes on at once, so that several steps are under way.
#include "runtime/devices/cuda/Gpu.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <cstring>
#include <vector>

using namespace divisi::runtime;

namespace {
constexpr char ptx[] = ".version 8.0\n.target sm_90\n";
constexpr int steps = 6;
// Two inputs, and behind them what each step keeps of them.
constexpr size_t first = 1000, second = 24, at = 64, kept = 2048, each = 1024;

class InputsTest : public testing::TestWithParam<const char *> {};

/// What is late on the GPU changes no number, although no step is waited for.
TEST_P(InputsTest, EachStepHasItsBatch) {
  setenv("DIVISI_FAKE_GPU_LATE", GetParam(), 1);
  DivisiDeviceCode code = {90, ptx, sizeof ptx};
  DivisiProgram program = {};
  program.device_code_count = 1;
  program.device_code = &code;
  bool found = false;
  cuda::Gpu gpu(program, kept + steps * each, {}, found);
  gpu.placeInputs({{at, first}, {kept - second, second}});
  gpu.rehearse([] {});
  gpu.takeInputs(); // there are none yet
  for (int step = 0; step < steps; ++step) {
    const std::vector<char *> &memory = gpu.awaitInputs();
    ASSERT_EQ(memory.size(), 2u);
    std::memset(memory[0], 2 * step + 1, first);
    std::memset(memory[1], 2 * step + 2, second);
    gpu.sendInputs();
    gpu.takeInputs();
    char *keeps = gpu.arena() + kept + static_cast<size_t>(step) * each;
    void *one[] = {gpu.arena() + at, keeps}, *other[] = {gpu.arena() + kept - second, keeps + first};
    gpu.copy({first}, one);
    gpu.copy({second}, other);
  }
  std::vector<char> all(steps * each), wanted;
  gpu.download(kept, all.data(), all.size());
  for (int step = 0; step < steps; ++step) {
    wanted.insert(wanted.end(), first, static_cast<char>(2 * step + 1));
    wanted.insert(wanted.end(), second, static_cast<char>(2 * step + 2));
  }
  EXPECT_EQ(all, wanted);
}
INSTANTIATE_TEST_SUITE_P(Late, InputsTest, testing::Values("uploads", "copies"), [](const auto &info) { return std::string(info.param); });
} // namespace
