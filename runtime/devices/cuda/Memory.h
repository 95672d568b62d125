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

inline Address addressOf(const void *pointer) { return reinterpret_cast<Address>(pointer); }

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_MEMORY_H
