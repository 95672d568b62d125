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
#include <string>
#include <vector>

namespace divisi::runtime {

/// A message in progress under a tag. When it is destroyed, its memory is no longer used.
class Message {
public:
  virtual ~Message() = default;
  /// Whether it is complete, or never will be.
  virtual bool poll() = 0;
  /// Whether it never will be, because the other rank was lost (Transport::spare). Its contents are then undefined.
  virtual bool isLost() const { return false; }
};

/// One rank's end of point-to-point messages. Messages between two ranks arrive in the order in which they were sent,
/// and a receive takes exactly as many bytes as were sent. Only one thread at a time may use messages without a tag;
/// all other functions may be called from any thread.
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
  /// This rank's number among the ranks of its host.
  virtual int local() const = 0;
  /// By rank: a number of its host; the same on all ranks.
  virtual const std::vector<int> &hosts() const = 0;

  /// Starts a message of `bytes` bytes; the memory must not be changed until `wait` returns. With 0 bytes there is no
  /// message.
  void send(int to, const void *data, size_t bytes);
  void receive(int from, void *data, size_t bytes);
  /// Waits for everything that was started. It first yields and then sleeps for tens of microseconds at a time, because
  /// ranks may share cores. `check` (optional) is called repeatedly: its failure ends the wait, as does `fail`.
  Status wait(const std::function<Status()> &check = {});
  /// A send and a receive at once.
  Status exchange(int to, const void *out, size_t outBytes, int from, void *in, size_t inBytes) {
    send(to, out, outBytes);
    receive(from, in, inBytes);
    return wait();
  }

  /// Starts a message of at least one byte under a tag from 1 to `largestTag`. Messages between two ranks under one tag
  /// arrive in order; they are independent of other messages, and `wait` does not wait for them.
  virtual std::unique_ptr<Message> send(int to, int tag, const void *data, size_t bytes) = 0;
  virtual std::unique_ptr<Message> receive(int from, int tag, void *data, size_t bytes) = 0;
  virtual int64_t largestTag() const = 0;
  /// The tag of heartbeats, above all others; 0 if ranks are threads of one process, which fail together.
  virtual int heartbeatTag() const { return 0; }
  /// Bytes received from a rank so far, including those of incomplete messages; 0 if not known.
  virtual int64_t received(int from) const {
    (void)from;
    return 0;
  }
  /// A lock for several consecutive calls; null if threads need none. On a busy machine each time that it is taken
  /// delays other threads.
  virtual Turns *turns() { return nullptr; }
  /// Sets the function that `wait` calls while it waits; null: none.
  void setBackground(std::function<void()> work) { background = std::move(work); }

  /// Checks as far as possible that all other ranks are alive: one that has ended is a failure, even if its last messages have come.
  virtual Status lookAround() { return status(); }

  /// Makes the end of these ranks no failure for this one: messages from and to a rank that was lost count as complete,
  /// with undefined contents, so that nobody waits for it. Such a rank may come again. Nothing may be in progress.
  virtual void spare(const std::vector<bool> &ranks) { (void)ranks; }
  virtual bool isSpared(int rank) const {
    (void)rank;
    return false;
  }
  /// Whether such a rank has ended, or was dropped, and has not come again.
  virtual bool isLost(int rank) const {
    (void)rank;
    return false;
  }
  /// Whether the connection to a rank has ended, if that is known.
  virtual bool hasEnded(int rank) const { return isLost(rank); }
  /// Treats a spared rank as lost, also if its connection has not ended, and forgets what has come from it and was not received.
  virtual void drop(int rank) { (void)rank; }
  /// Whether this rank has come while the job runs; until `enter` all others are lost for it.
  virtual bool isLate() const { return false; }
  /// Such a rank waits until the others let it in. Fails if they have ended.
  virtual Status enter() { return {}; }
  /// Of rank 0: whether such ranks wait; a text with their addresses for the other ranks, for `meet`.
  virtual bool hasNewcomers() { return false; }
  virtual std::string newcomers() { return {}; }
  /// All ranks that are not lost connect to the newcomers, which are returned.
  virtual std::vector<int> meet(const std::string &newcomers) {
    (void)newcomers;
    return {};
  }

  /// Makes every wait fail with this failure from now on, also on other ranks if they can be told. The first failure is
  /// kept.
  virtual void fail(const Status &why) { note(why); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Status status() const;
  /// Ends all ranks with this exit code, if they are processes. May not return.
  virtual void terminate(int exitCode) { (void)exitCode; }

  /// For messages without a tag.
  int64_t bytesSent() const { return bytes_.load(std::memory_order_relaxed); }
  int64_t messagesSent() const { return messages_.load(std::memory_order_relaxed); }

protected:
  virtual void startSend(int to, const void *data, size_t bytes) = 0;
  virtual void startReceive(int from, void *data, size_t bytes) = 0;
  /// Whether everything that was started is complete.
  virtual bool poll() = 0;
  /// Cancels incomplete messages: their memory may be freed.
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
