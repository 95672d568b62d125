//===- Inputs.h - batches on their way to a GPU -----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_INPUTS_H
#define DIVISI_RUNTIME_DEVICES_CUDA_INPUTS_H

#include "runtime/core/Accelerator.h"
#include "runtime/devices/cuda/Memory.h"

#include <array>
#include <optional>
#include <stdexcept>
#include <vector>

namespace divisi::runtime::cuda {

/// The inputs of the next batch in memory of the GPU beside the arena, to which a stream of its own copies them while the compute stream
/// still uses those of the batch before. The host has pinned memory for two batches: it reads one while the other is copied.
class Inputs {
public:
  /// `places`: of the inputs in the arena.
  Inputs(const Driver &driver, Stream compute, char *arena, const std::vector<Accelerator::Place> &places)
      : driver(driver), compute(compute), arena(arena) {
    for (const Accelerator::Place &place : places) {
      parts.push_back({place, size});
      size += (place.bytes + alignment - 1) / alignment * alignment;
    }
    for (Side &side : sides) {
      try {
        side.pinned.emplace(driver, size);
      } catch (const std::runtime_error &) { // copies from other memory take longer
        side.plain.resize(size);
      }
      for (const Part &part : parts)
        side.memory.push_back(side.begin() + part.at);
      driver.check(driver.createEvent(&side.sent, untimed), "create an event");
    }
    device.emplace(driver, size, "allocate memory for the inputs of the next batch");
    driver.check(driver.createStream(&stream, nonBlocking), "create a stream");
    driver.check(driver.createEvent(&taken, untimed), "create an event");
  }
  ~Inputs() {
    driver.synchronize(stream);
    driver.destroyStream(stream);
    for (Event event : {sides[0].sent, sides[1].sent, taken})
      driver.destroyEvent(event);
  }
  Inputs(const Inputs &) = delete;
  Inputs &operator=(const Inputs &) = delete;

  /// The host's memory for each input of the next batch.
  const std::vector<char *> &memory() const { return sides[turn].memory; }
  /// The event after which that memory may be written; null: it may be.
  Event sentBefore() const { return sides[turn].isSent ? sides[turn].sent : nullptr; }
  void send() {
    Side &side = sides[turn];
    turn = 1 - turn;
    if (isTaken) // the batch before, from the same memory of the GPU
      driver.check(driver.waitEvent(stream, taken, 0), "wait for an event");
    driver.check(driver.toDevice(addressOf(device->data()), side.begin(), size, stream), "write to the GPU");
    driver.check(driver.recordEvent(side.sent, stream), "record an event");
    side.isSent = true;
  }
  /// Has the compute stream copy what was sent last into the arena.
  void take() {
    const Side &last = sides[1 - turn];
    if (!last.isSent)
      return;
    driver.check(driver.waitEvent(compute, last.sent, 0), "wait for an event");
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
  struct Side {
    char *begin() { return pinned ? pinned->data() : plain.data(); }
    std::optional<PinnedMemory> pinned;
    std::vector<char> plain;
    std::vector<char *> memory; ///< by input
    Event sent = nullptr;
    bool isSent = false;
  };

  const Driver &driver;
  Stream compute, stream = nullptr;
  char *arena;
  std::vector<Part> parts;
  size_t size = 0;
  std::array<Side, 2> sides;
  size_t turn = 0; ///< the side of the next batch
  std::optional<Memory> device;
  Event taken = nullptr;
  bool isTaken = false;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_INPUTS_H
