//===- GpuTest.h - libraries on the fake GPU --------------------*- C++ -*-===//
#ifndef DIVISI_TEST_GPU_GPUTEST_H
#define DIVISI_TEST_GPU_GPUTEST_H

#include "divisi/abi.h"
#include "runtime/devices/cuda/Memory.h"

#include "gtest/gtest.h"

#include <cstring>
#include <vector>

namespace divisi::test {

/// Tensors in a GPU's memory, one after another as in an arena.
class Arena {
public:
  explicit Arena(const runtime::cuda::Driver &driver) : memory(driver, bytes, "allocate") {}
  char *place(size_t size) {
    used = (used + DIVISI_ALIGNMENT - 1) / DIVISI_ALIGNMENT * DIVISI_ALIGNMENT;
    used += size;
    EXPECT_LE(used, bytes);
    return memory.data() + used - size;
  }
  template <typename T> T *put(const std::vector<T> &values) {
    char *at = place(values.size() * sizeof(T));
    std::memcpy(at, values.data(), values.size() * sizeof(T));
    return reinterpret_cast<T *>(at);
  }
  template <typename T> T *space(size_t count) { return reinterpret_cast<T *>(place(count * sizeof(T))); }

private:
  static constexpr size_t bytes = size_t(64) << 20;
  runtime::cuda::Memory memory;
  size_t used = 0;
};

/// A test with a stream.
class GpuTest : public testing::Test {
protected:
  void SetUp() override {
    driver.check(driver.init(0), "start");
    runtime::cuda::DriverContext context = nullptr;
    driver.check(driver.retainContext(&context, 0), "use a GPU");
    driver.check(driver.setContext(context), "use a GPU");
    driver.check(driver.createStream(&stream, runtime::cuda::nonBlocking), "create a stream");
  }

  void TearDown() override { driver.destroyStream(stream); }

  /// Records `work`, and replays it after `clear`.
  template <typename Work, typename Clear> void replay(const Work &work, const Clear &clear) {
    runtime::cuda::Graph graph = nullptr;
    runtime::cuda::GraphExec made = nullptr;
    driver.check(driver.beginCapture(stream, 1), "record");
    work();
    clear();
    driver.check(driver.endCapture(stream, &graph), "record");
    driver.check(driver.instantiate(&made, graph, 0), "record");
    driver.check(driver.launchGraph(made, stream), "replay");
    driver.destroyGraph(graph);
    driver.destroyGraphExec(made);
  }

  runtime::cuda::Driver driver;
  runtime::cuda::Stream stream = nullptr;
};

} // namespace divisi::test

#endif // DIVISI_TEST_GPU_GPUTEST_H
