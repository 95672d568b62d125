#include "runtime/comm/LocalTransport.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>

using namespace divisi::runtime;

namespace {
/// One side of a message whose other side has not come yet.
struct Half {
  char *data;
  size_t bytes;
};
} // namespace

/// The messages from one rank to another. Whoever comes second copies.
struct LocalHub::Channel {
  std::mutex mutex;
  std::deque<Half> sends, receives;
};

class LocalHub::End final : public Transport {
public:
  End(LocalHub &hub, int rank, int size) : Transport(rank, size), hub(hub) {}

  int cores() const override { return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / size()); }
  void fail(const Status &why) override { hub.fail(why); }
  using Transport::note;

protected:
  void startSend(int to, const void *data, size_t bytes) override {
    start(rank(), to, {const_cast<char *>(static_cast<const char *>(data)), bytes}, true);
  }
  void startReceive(int from, void *data, size_t bytes) override {
    start(from, rank(), {static_cast<char *>(data), bytes}, false);
  }
  bool poll() override { return pending.load(std::memory_order_acquire) == 0; }
  void cancel() override {
    for (int other = 0; other < size(); ++other)
      for (bool out : {true, false}) {
        Channel &channel = out ? hub.channel(rank(), other) : hub.channel(other, rank());
        std::lock_guard lock(channel.mutex);
        (out ? channel.sends : channel.receives).clear();
      }
    pending = 0;
  }

private:
  void start(int from, int to, Half half, bool sends) {
    Channel &channel = hub.channel(from, to);
    std::lock_guard lock(channel.mutex);
    std::deque<Half> &others = sends ? channel.receives : channel.sends;
    if (others.empty()) {
      (sends ? channel.sends : channel.receives).push_back(half);
      pending.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    Half other = others.front();
    others.pop_front();
    Half &source = sends ? half : other, &target = sends ? other : half;
    if (source.bytes == target.bytes)
      std::memcpy(target.data, source.data, source.bytes);
    else
      hub.fail(
          failure("rank ", to, " expected ", target.bytes, " bytes of rank ", from, ", which sent ", source.bytes));
    hub.ends[static_cast<size_t>(sends ? to : from)]->pending.fetch_sub(1, std::memory_order_release);
  }

  LocalHub &hub;
  std::atomic<int> pending = 0; ///< halves that wait in a channel
};

LocalHub::LocalHub(int size) {
  for (int i = 0; i < size; ++i)
    ends.push_back(std::make_unique<End>(*this, i, size));
  for (int i = 0; i < size * size; ++i)
    channels.push_back(std::make_unique<Channel>());
}

LocalHub::~LocalHub() = default;

Transport &LocalHub::rank(int number) { return *ends[static_cast<size_t>(number)]; }

void LocalHub::fail(const Status &why) {
  for (auto &end : ends)
    end->note(why);
}
