//===- MatmulPlan.h - oneDNN matmuls of bf16 --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_MATMULPLAN_H
#define DIVISI_RUNTIME_DEVICES_CPU_MATMULPLAN_H

#include "divisi/abi.h"

#include <array>
#include <dnnl.hpp>
#include <memory>
#include <string>

namespace divisi::runtime {

/// The engine of all oneDNN primitives.
const dnnl::engine &cpuEngine();

/// A oneDNN matmul of bf16 operands that is summed in fp32, on a processor with units for that (AVX512-BF16 or AMX).
/// Running it allocates nothing, except in a member of a team.
class MatmulPlan {
public:
  /// Whether this processor has such units.
  static bool hasUnits();
  /// The plan of a GEMM of BF16 operands with a result in BF16 or F32 and no empty dimension. Null if this processor
  /// has no units for it, or the library no fast kernel for its strides. `alone`: for one member of a team.
  static std::unique_ptr<MatmulPlan> create(const DivisiGemm &gemm, bool alone = false);

  size_t scratchBytes() const { return bytes; }
  /// Runs it on a, b and c.
  void run(char *scratch, const std::array<void *, 3> &operands);
  /// The name of the library's kernel, for tests and measurements.
  const std::string &kernel() const { return name; }

private:
  MatmulPlan() : stream(cpuEngine()) {}

  dnnl::stream stream;
  dnnl::matmul primitive;
  std::array<dnnl::memory, 3> operands;
  dnnl::memory scratchpad;
  std::unordered_map<int, dnnl::memory> arguments;
  size_t bytes = 0;
  std::string name;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_MATMULPLAN_H
