//===- Transport.h - messages between ranks ---------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TRANSPORT_H
#define DIVISI_RUNTIME_COMM_TRANSPORT_H

#include "runtime/comm/Turns.h"
#include "runtime/core/Status.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace divisi::runtime {

/// A message on its way under a tag. It forgets the memory when it goes away.
class Message {
public:
  virtual ~Message() = default;
  /// Whether it is complete.
  virtual bool poll() = 0;
};

/// One rank's end of point-to-point messages. Messages between two ranks arrive in the order in which they were sent,
/// and a receive takes exactly as many bytes as were sent. One thread at a time uses messages without a tag; all else
/// is free for all threads.
class Transport {
public:
  Transport(int rank, int size) : rank_(rank), size_(size) {}
  Transport(const Transport &) = delete;
  Transport &operator=(const Transport &) = delete;
  virtual ~Transport() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// This rank's share of the cores of its host: at least 1.
  virtual int cores() const = 0;
  /// Its number among the ranks of its host.
  virtual int local() const = 0;

  /// Starts a message of `bytes` bytes; the memory is left alone until `wait` returns. None for 0 bytes.
  void send(int to, const void *data, size_t bytes);
  void receive(int from, void *data, size_t bytes);
  /// Waits for everything started. Yields first and then sleeps for tens of microseconds at a time: ranks may share
  /// cores. `check` (optional) is asked now and then: its failure ends the wait, as does `fail`.
  Status wait(const std::function<Status()> &check = {});
  /// Both directions at once.
  Status exchange(int to, const void *out, size_t outBytes, int from, void *in, size_t inBytes) {
    send(to, out, outBytes);
    receive(from, in, inBytes);
    return wait();
  }

  /// Starts a message of at least one byte under a tag from 1 to `largestTag`. Those between two ranks under one tag
  /// arrive in order; other messages are independent of them, and `wait` does not wait for them.
  virtual std::unique_ptr<Message> send(int to, int tag, const void *data, size_t bytes) = 0;
  virtual std::unique_ptr<Message> receive(int from, int tag, void *data, size_t bytes) = 0;
  virtual int64_t largestTag() const = 0;
  /// The tag of heartbeats, above those; 0 where ranks are threads of one process, which fall silent together.
  virtual int heartbeatTag() const { return 0; }
  /// Bytes that have come from a rank so far, also of messages that are not complete; 0 where that is not known.
  virtual int64_t received(int from) const {
    (void)from;
    return 0;
  }
  /// For several calls in one turn; null where threads need none. On a busy machine each turn costs others a while.
  virtual Turns *turns() { return nullptr; }
  /// What `wait` does while it waits; null for nothing.
  void setBackground(std::function<void()> work) { background = std::move(work); }

  /// Whether all other ranks are still there, as far as that can be seen. Only while nothing is under way.
  virtual Status lookAround() { return status(); }

  /// Every wait ends with this failure from now on, also those of other ranks where they can be told. The first stays.
  virtual void fail(const Status &why) { note(why); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Status status() const;
  /// Ends all ranks with this exit code, if they are processes of their own. May not return.
  virtual void terminate(int exitCode) { (void)exitCode; }

  /// Of messages without a tag.
  int64_t bytesSent() const { return bytes_.load(std::memory_order_relaxed); }
  int64_t messagesSent() const { return messages_.load(std::memory_order_relaxed); }

protected:
  virtual void startSend(int to, const void *data, size_t bytes) = 0;
  virtual void startReceive(int from, void *data, size_t bytes) = 0;
  /// Whether all that was started is complete.
  virtual bool poll() = 0;
  /// Forgets what is not complete: its memory may go away.
  virtual void cancel() = 0;
  void note(const Status &why);

private:
  int rank_, size_;
  std::atomic<int64_t> bytes_ = 0, messages_ = 0;
  std::atomic<bool> failed_ = false;
  std::function<void()> background;
  mutable std::mutex mutex;
  Status status_;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TRANSPORT_H
