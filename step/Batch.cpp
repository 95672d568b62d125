#include "step/Batch.h"

#include "llvm/ADT/STLExtras.h"

using namespace divisi::step;

/// Limits: the pointers that fit into a kernel's parameters on any GPU (4 KiB), and a size that compiles quickly.
static constexpr size_t mostBuffers = 500, mostMembers = 64;

bool Batch::takes(const Kernel &kernel) const {
  return members < mostMembers && buffers + kernel.reads.size() + kernel.writes.size() <= mostBuffers &&
         llvm::none_of(kernel.reads, [&](uint64_t buffer) { return made.contains(buffer) || read.contains(buffer); });
}

void Batch::add(const Kernel &kernel) {
  ++members;
  buffers += kernel.reads.size() + kernel.writes.size();
  made.insert(kernel.writes.begin(), kernel.writes.end());
  for (auto [buffer, single] : llvm::zip(kernel.reads, kernel.single))
    if (!single)
      read.insert(buffer);
}
