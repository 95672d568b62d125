//===- Inputs.h - batches on their way to a GPU -----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_INPUTS_H
#define DIVISI_RUNTIME_DEVICES_CUDA_INPUTS_H

#include "runtime/core/Accelerator.h"
#include "runtime/devices/cuda/Memory.h"

#include <optional>
#include <stdexcept>
#include <vector>

namespace divisi::runtime::cuda {

/// The inputs of the next batch, in pinned memory and in memory of the GPU beside the arena, to which a stream of its own copies them
/// while the compute stream still uses those of the batch before.
class Inputs {
public:
  /// `places`: of the inputs in the arena.
  Inputs(const Driver &driver, Stream compute, char *arena, const std::vector<Accelerator::Place> &places)
      : driver(driver), compute(compute), arena(arena) {
    for (const Accelerator::Place &place : places) {
      parts.push_back({place, size});
      size += (place.bytes + alignment - 1) / alignment * alignment;
    }
    try {
      pinned.emplace(driver, size);
    } catch (const std::runtime_error &) { // copies from other memory take longer
      plain.resize(size);
    }
    device.emplace(driver, size, "allocate memory for the inputs of the next batch");
    driver.check(driver.createStream(&stream, nonBlocking), "create a stream");
    for (Event *event : {&sent_, &taken})
      driver.check(driver.createEvent(event, untimed), "create an event");
  }
  ~Inputs() {
    if (stream) {
      driver.synchronize(stream);
      driver.destroyStream(stream);
    }
    for (Event event : {sent_, taken})
      if (event)
        driver.destroyEvent(event);
  }
  Inputs(const Inputs &) = delete;
  Inputs &operator=(const Inputs &) = delete;

  /// The host's memory for each input.
  std::vector<char *> memory() {
    std::vector<char *> all;
    for (const Part &part : parts)
      all.push_back(host() + part.at);
    return all;
  }
  /// The event after which that memory may be written again; null: it may be.
  Event sent() const { return isSent ? sent_ : nullptr; }
  void send() {
    if (isTaken) // the batch before, from the same memory
      driver.check(driver.waitEvent(stream, taken, 0), "wait for an event");
    driver.check(driver.toDevice(addressOf(device->data()), host(), size, stream), "write to the GPU");
    driver.check(driver.recordEvent(sent_, stream), "record an event");
    isSent = true;
  }
  /// Has the compute stream copy what was sent last into the arena.
  void take() {
    if (!isSent)
      return;
    driver.check(driver.waitEvent(compute, sent_, 0), "wait for an event");
    for (const Part &part : parts)
      copyOnDevice(driver, arena + part.place.offset, device->data() + part.at, static_cast<int64_t>(part.place.bytes), compute);
    driver.check(driver.recordEvent(taken, compute), "record an event");
    isTaken = true;
  }

private:
  static constexpr size_t alignment = 256;
  struct Part {
    Accelerator::Place place;
    size_t at; ///< in the memory of a batch
  };
  char *host() { return pinned ? pinned->data() : plain.data(); }

  const Driver &driver;
  Stream compute, stream = nullptr;
  char *arena;
  std::vector<Part> parts;
  size_t size = 0;
  std::optional<PinnedMemory> pinned;
  std::vector<char> plain;
  std::optional<Memory> device;
  Event sent_ = nullptr, taken = nullptr;
  bool isSent = false, isTaken = false;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_INPUTS_H
