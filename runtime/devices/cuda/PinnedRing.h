//===- PinnedRing.h - what is on its way to a GPU ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_PINNEDRING_H
#define DIVISI_RUNTIME_DEVICES_CUDA_PINNEDRING_H

#include "runtime/devices/cuda/Memory.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace divisi::runtime::cuda {

/// Copies to a GPU from pinned memory of two batches and more, while the caller fills the next one: whoever asks may
/// change his memory at once, and waits only if the ring is full of what has not been copied.
class PinnedRing {
public:
  /// `await` returns when an event has come.
  PinnedRing(const Driver &driver, Stream stream, std::function<void(Event)> await)
      : driver(driver), stream(stream), await(std::move(await)) {}
  ~PinnedRing() {
    for (const Piece &piece : pieces)
      driver.destroyEvent(piece.copied);
    for (Event event : spare)
      driver.destroyEvent(event);
  }
  PinnedRing(const PinnedRing &) = delete;
  PinnedRing &operator=(const PinnedRing &) = delete;

  void copy(Address to, const char *from, size_t bytes) {
    char *memory = reserve(bytes);
    std::memcpy(memory, from, bytes);
    driver.check(driver.toDevice(to, memory, bytes, stream), "write to the GPU");
    Event event = nullptr;
    if (spare.empty()) {
      driver.check(driver.createEvent(&event, untimed), "create an event");
    } else {
      event = spare.back();
      spare.pop_back();
    }
    pieces.push_back({at, at + bytes, event});
    driver.check(driver.recordEvent(event, stream), "record an event");
    at += (bytes + alignment - 1) / alignment * alignment;
  }

private:
  static constexpr size_t alignment = 64, least = size_t(1) << 20;
  struct Piece {
    size_t begin, end;
    Event copied;
  };

  /// Memory behind the last piece, or at the beginning, once older pieces there are copied.
  char *reserve(size_t bytes) {
    if (!ring || 2 * bytes > size) {
      while (!pieces.empty())
        release();
      size = std::max(least, 4 * bytes);
      ring.reset();
      ring = std::make_unique<PinnedMemory>(driver, size);
      at = 0;
    }
    if (at + bytes > size)
      at = 0;
    auto overlaps = [&](const Piece &piece) { return piece.begin < at + bytes && at < piece.end; };
    while (std::any_of(pieces.begin(), pieces.end(), overlaps))
      release();
    return ring->data() + at;
  }
  /// The oldest piece.
  void release() {
    await(pieces.front().copied);
    spare.push_back(pieces.front().copied);
    pieces.pop_front();
  }

  const Driver &driver;
  Stream stream;
  std::function<void(Event)> await;
  std::unique_ptr<PinnedMemory> ring;
  size_t size = 0, at = 0;
  std::deque<Piece> pieces; ///< in the order in which they were asked for
  std::vector<Event> spare;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_PINNEDRING_H
