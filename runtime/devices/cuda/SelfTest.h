//===- SelfTest.h - whether a machine's GPUs compute right ------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_SELFTEST_H
#define DIVISI_RUNTIME_DEVICES_CUDA_SELFTEST_H

#include "runtime/devices/cuda/Survey.h"

#include <functional>
#include <string>
#include <vector>

namespace divisi::runtime::cuda {

/// A small computation by one of NVIDIA's libraries, whose result is compared with this processor's.
struct SelfTest {
  std::string name;
  /// Returns what was compared. Throws std::runtime_error if it cannot be computed or is wrong.
  std::function<std::string()> run;
};

/// A product, a convolution, attention and the replay of a graph on the first GPU, and an all_reduce over all GPUs: those
/// for which the libraries are there.
std::vector<SelfTest> selfTests(const Survey &machine);

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_SELFTEST_H
