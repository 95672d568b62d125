#include "runtime/core/Arena.h"

#include <sys/mman.h>

using namespace divisi::runtime;

Result<Arena> Arena::create(uint64_t bytes, bool twin) {
  constexpr uint64_t huge = uint64_t(2) << 20;
  Arena arena;
  uint64_t size = bytes + huge;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | (twin ? MAP_NORESERVE : 0);
  void *mapping = size < bytes ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapping == MAP_FAILED)
    return failure("cannot reserve ", bytes >> 20,
                   " MiB of memory for the model, its state and its activations: ", systemError());
  arena.mapping_ = mapping;
  arena.mapped_ = size;
  auto address = reinterpret_cast<uintptr_t>(mapping);
  arena.data_ = static_cast<char *>(mapping) + (huge - address % huge) % huge;
  if (bytes >= huge && !twin)
    madvise(arena.data_, bytes / huge * huge, MADV_HUGEPAGE);
  return arena;
}

Arena::Arena(Arena &&other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)), mapped_(other.mapped_), data_(other.data_) {}

Arena::~Arena() {
  if (mapping_)
    munmap(mapping_, mapped_);
}
