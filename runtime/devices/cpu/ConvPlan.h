//===- ConvPlan.h - oneDNN convolutions -------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_CONVPLAN_H
#define DIVISI_RUNTIME_DEVICES_CPU_CONVPLAN_H

#include "runtime/devices/cpu/ConvDirect.h"

#include <array>
#include <dnnl.hpp>

namespace divisi::runtime {

/// The roles of a convolution's buffers.
enum ConvSlot { ConvX, ConvW, ConvY };
/// The roles of a service's buffers, in order; the result is last.
std::array<ConvSlot, 3> convSlots(ConvKind kind);

/// A oneDNN primitive between reorders from and to the layouts of generated code. Running it allocates nothing: tensors
/// in the library's own layouts are in the caller's scratch memory.
class ConvPlan {
public:
  /// Null if the library has no fast kernel for this convolution in its element type (F32 or BF16).
  static std::unique_ptr<ConvPlan> create(ConvKind kind, const DivisiConv &conv);

  size_t scratchBytes() const { return bytes; }
  /// Runs it on the three operands, in the service's order.
  void run(char *scratch, const std::array<void *, 3> &operands);
  /// The name of the library's kernel, and whether tensors are reordered for it, for tests and measurements.
  const std::string &kernel() const { return name; }

private:
  struct Operand {
    dnnl::memory user;  ///< in generated code's layout
    dnnl::memory inner; ///< in the library's layout: the same object if both layouts agree
    dnnl::reorder reorder;
    bool reordered = false;
    size_t at = 0; ///< offset of `inner` in the scratch memory
  };
  ConvPlan();
  bool prepare(ConvKind kind, const DivisiConv &conv);

  dnnl::stream stream;
  dnnl::primitive primitive;
  std::array<Operand, 3> operands;
  dnnl::memory scratchpad;
  std::unordered_map<int, dnnl::memory> arguments;
  size_t scratchpadAt = 0, bytes = 0;
  std::string name;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_CONVPLAN_H
