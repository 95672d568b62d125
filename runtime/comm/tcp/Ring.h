//===- Ring.h - bytes between processes of one host -------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_RING_H
#define DIVISI_RUNTIME_COMM_TCP_RING_H

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace divisi::runtime {

/// A stream of bytes from one process to another, in memory that both map. Neither side waits for the other.
class Ring {
public:
  static constexpr size_t capacity = size_t(1) << 19;
  /// Bytes that were written and taken since the beginning, each on a cache line of its own.
  struct Memory {
    alignas(64) std::atomic<uint64_t> written;
    alignas(64) std::atomic<uint64_t> taken;
    alignas(64) std::array<char, capacity> bytes;
  };

  explicit Ring(Memory &memory) : memory(memory) {}
  /// The number of bytes that were written or read: at most as many as there is room for, or as have come.
  size_t write(const void *data, size_t bytes);
  size_t read(void *data, size_t bytes);

private:
  Memory &memory;
};

/// Where another process finds a pair of rings. Without a token there are none.
struct RingOffer {
  int32_t process = 0, descriptor = 0;
  std::array<char, 32> token = {};
};

/// Two rings between two processes of a host, in memory without a file, which ends with them.
class RingPair {
public:
  /// Of the side that makes them. Null if the system has no memory for them.
  static std::unique_ptr<RingPair> make();
  /// Of the other side, which has been told by the first. Null if they are not to be found: on another host, or for another user.
  static std::unique_ptr<RingPair> open(const RingOffer &offer);
  ~RingPair();
  RingPair(const RingPair &) = delete;
  RingPair &operator=(const RingPair &) = delete;

  /// Valid until `close`, which the first side calls when the other one has opened them, or cannot.
  const RingOffer &offer() const { return offer_; }
  void close();

  Ring &out() { return out_; }
  Ring &in() { return in_; }

private:
  struct Mapped;
  RingPair(Mapped &mapped, bool isFirst);

  Mapped &mapped;
  Ring out_, in_;
  RingOffer offer_;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_RING_H
