#include "runtime/comm/LocalTransport.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <thread>

using namespace divisi::runtime;

namespace {
/// One side of a message that waits for the other side.
struct Half {
  char *data;
  size_t bytes;
  std::atomic<int> *pending; ///< counter of waiting sides
};
} // namespace

/// The messages from one rank to another. The side that comes second copies the data.
struct LocalHub::Channel {
  struct Sides {
    std::deque<Half> sends, receives;
  };
  std::mutex mutex;
  std::map<int, Sides> tags; ///< 0: messages without a tag
};

class LocalHub::End final : public Transport {
public:
  End(LocalHub &hub, int rank, int size) : Transport(rank, size), hub(hub) {}

  int cores() const override { return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / size()); }
  int local() const override { return rank(); }
  const std::vector<int> &hosts() const override { return hub.hosts; }
  void fail(const Status &why) override { hub.fail(why); }
  using Transport::note;
  using Transport::receive;
  using Transport::send;

  std::unique_ptr<Message> send(int to, int tag, const void *data, size_t bytes) override {
    auto message = std::make_unique<Tagged>(hub.channel(rank(), to), tag, true);
    start(rank(), to, tag, {const_cast<char *>(static_cast<const char *>(data)), bytes, &message->pending}, true);
    return message;
  }
  std::unique_ptr<Message> receive(int from, int tag, void *data, size_t bytes) override {
    auto message = std::make_unique<Tagged>(hub.channel(from, rank()), tag, false);
    start(from, rank(), tag, {static_cast<char *>(data), bytes, &message->pending}, false);
    return message;
  }
  int64_t largestTag() const override { return INT32_MAX; }

protected:
  void startSend(int to, const void *data, size_t bytes) override {
    start(rank(), to, 0, {const_cast<char *>(static_cast<const char *>(data)), bytes, &pending}, true);
  }
  void startReceive(int from, void *data, size_t bytes) override {
    start(from, rank(), 0, {static_cast<char *>(data), bytes, &pending}, false);
  }
  bool poll() override { return pending.load(std::memory_order_acquire) == 0; }
  void cancel() override {
    for (int other = 0; other < size(); ++other)
      for (bool out : {true, false}) {
        Channel &channel = out ? hub.channel(rank(), other) : hub.channel(other, rank());
        std::lock_guard lock(channel.mutex);
        (out ? channel.tags[0].sends : channel.tags[0].receives).clear();
      }
    pending = 0;
  }

private:
  /// Removes its side from the channel if it is still waiting.
  struct Tagged final : Message {
    Tagged(Channel &channel, int tag, bool sends) : channel(channel), tag(tag), sends(sends) {}
    ~Tagged() override {
      std::lock_guard lock(channel.mutex);
      Channel::Sides &sides = channel.tags[tag];
      std::erase_if(sends ? sides.sends : sides.receives, [&](const Half &half) { return half.pending == &pending; });
    }
    bool poll() override { return pending.load(std::memory_order_acquire) == 0; }

    Channel &channel;
    int tag;
    bool sends;
    std::atomic<int> pending = 0;
  };

  void start(int from, int to, int tag, Half half, bool sends) {
    Channel &channel = hub.channel(from, to);
    std::lock_guard lock(channel.mutex);
    Channel::Sides &sides = channel.tags[tag];
    std::deque<Half> &others = sends ? sides.receives : sides.sends;
    if (others.empty()) {
      (sends ? sides.sends : sides.receives).push_back(half);
      half.pending->fetch_add(1, std::memory_order_relaxed);
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
    other.pending->fetch_sub(1, std::memory_order_release);
  }

  LocalHub &hub;
  std::atomic<int> pending = 0; ///< sides without a tag that wait in a channel
};

LocalHub::LocalHub(int size, std::vector<int> hosts) : hosts(std::move(hosts)) {
  this->hosts.resize(static_cast<size_t>(size));
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
