#pragma once
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace divisi::step {

/// The one rule of which kernels on a GPU share a launch, for the pass that says so (codegen/Kernels/BatchKernels.cpp) and
/// for the plan that prices them: elementwise ones that follow each other, if none reads what another writes or, of several
/// elements, reads, up to the parameters that a launch has.
class Batch {
public:
  /// The buffers of an elementwise kernel, as numbers.
  struct Kernel {
    llvm::SmallVector<uint64_t, 4> reads, writes;
    llvm::SmallVector<bool, 4> single; // by buffer that is read: it has one element
  };
  bool takes(const Kernel &kernel) const;
  void add(const Kernel &kernel);
  bool empty() const { return members == 0; }

private:
  llvm::DenseSet<uint64_t> made, read; // results, and inputs of more than one element
  size_t members = 0, buffers = 0;
};

} // namespace divisi::step
