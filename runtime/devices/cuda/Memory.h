//===- Memory.h - memory of a GPU -------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_MEMORY_H
#define DIVISI_RUNTIME_DEVICES_CUDA_MEMORY_H

#include "runtime/devices/cuda/Driver.h"

namespace divisi::runtime::cuda {

/// A block of a GPU's memory, released with the object.
class Memory {
public:
  Memory(const Driver &driver, size_t bytes, const char *what) : driver(driver) {
    driver.check(driver.allocate(&address, bytes == 0 ? 1 : bytes), what);
  }
  ~Memory() { driver.release(address); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  char *data() const { return reinterpret_cast<char *>(address); }

private:
  const Driver &driver;
  Address address = 0;
};

/// A block of the host's memory that a GPU can access.
class PinnedMemory {
public:
  PinnedMemory(const Driver &driver, size_t bytes) : driver(driver) {
    constexpr unsigned mapped = 2; // CU_MEMHOSTALLOC_DEVICEMAP
    driver.check(driver.allocateHost(&memory, bytes, mapped), "allocate pinned memory");
  }
  ~PinnedMemory() { driver.releaseHost(memory); }
  PinnedMemory(const PinnedMemory &) = delete;
  PinnedMemory &operator=(const PinnedMemory &) = delete;

  char *data() const { return static_cast<char *>(memory); }

private:
  const Driver &driver;
  void *memory = nullptr;
};

/// Numbers in the host's memory that a GPU writes.
class PinnedWords {
public:
  PinnedWords(const Driver &driver, size_t count) : memory(driver, count * sizeof(unsigned)) {
    for (size_t i = 0; i < count; ++i)
      words()[i] = 0;
    driver.check(driver.hostAddress(&base, memory.data(), 0), "map pinned memory");
  }

  Address address(size_t word) const { return base + word * sizeof(unsigned); }
  unsigned read(size_t word) const { return words()[word]; }

private:
  volatile unsigned *words() const { return reinterpret_cast<volatile unsigned *>(memory.data()); }
  PinnedMemory memory;
  Address base = 0;
};

inline Address addressOf(const void *pointer) { return reinterpret_cast<Address>(pointer); }

inline void copyOnDevice(const Driver &driver, void *to, const void *from, int64_t bytes, Stream stream) {
  if (bytes > 0)
    driver.check(driver.onDevice(addressOf(to), addressOf(from), static_cast<size_t>(bytes), stream),
                 "copy on the GPU");
}

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_MEMORY_H
