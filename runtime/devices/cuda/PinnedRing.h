//===- PinnedRing.h - asynchronous copies to a GPU --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_PINNEDRING_H
#define DIVISI_RUNTIME_DEVICES_CUDA_PINNEDRING_H

#include "runtime/devices/cuda/Memory.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>

namespace divisi::runtime::cuda {

/// Copies to a GPU through a ring of pinned memory. The caller may change its memory immediately, and waits only if the ring is full of
/// data that is not yet copied.
class PinnedRing {
public:
  /// `await` returns when an event is complete.
  PinnedRing(const Driver &driver, Stream stream, std::function<void(Event)> await)
      : driver(driver), stream(stream), await(std::move(await)), ring(driver, size) {}
  ~PinnedRing() {
    for (const Piece &piece : pieces)
      driver.destroyEvent(piece.copied);
    for (Event event : spare)
      driver.destroyEvent(event);
  }
  PinnedRing(const PinnedRing &) = delete;
  PinnedRing &operator=(const PinnedRing &) = delete;

  void copy(Address to, const char *from, size_t bytes) {
    for (size_t done = 0; done < bytes; done += longest)
      copyPiece(to + done, from + done, std::min(longest, bytes - done));
  }

private:
  static constexpr size_t alignment = 64, size = size_t(16) << 20, longest = size / 4;
  struct Piece {
    size_t begin, end;
    Event copied;
  };

  void copyPiece(Address to, const char *from, size_t bytes) {
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
  /// Memory behind the last piece, or at the beginning of the ring, once older pieces there are copied.
  char *reserve(size_t bytes) {
    if (at + bytes > size)
      at = 0;
    auto overlaps = [&](const Piece &piece) { return piece.begin < at + bytes && at < piece.end; };
    while (std::any_of(pieces.begin(), pieces.end(), overlaps))
      release();
    return ring.data() + at;
  }
  /// Waits for the oldest piece and frees it.
  void release() {
    await(pieces.front().copied);
    spare.push_back(pieces.front().copied);
    pieces.pop_front();
  }

  const Driver &driver;
  Stream stream;
  std::function<void(Event)> await;
  PinnedMemory ring;
  size_t at = 0;
  std::deque<Piece> pieces; ///< in the order of the requests
  std::vector<Event> spare;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_PINNEDRING_H
