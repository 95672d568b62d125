#include "runtime/comm/Heartbeat.h"

#include <gtest/gtest.h>

using namespace divisi::runtime;

namespace {
/// Rank 0 of some on one host, whose messages a test makes up.
class MadeUpTransport : public Transport {
public:
  explicit MadeUpTransport(int size) : Transport(0, size), hosts_(static_cast<size_t>(size)) {}
  int cores() const override { return 1; }
  int local() const override { return 0; }
  const std::vector<int> &hosts() const override { return hosts_; }
  int64_t largestTag() const override { return 100; }
  int heartbeatTag() const override { return 101; }

protected:
  void startSend(int, const void *, size_t) override {}
  void startReceive(int, void *, size_t) override {}
  bool poll() override { return true; }
  void cancel() override {}

private:
  std::vector<int> hosts_;
};

/// Two ranks, of which the other one is lost between two looks: this one learns it when it asks for a message.
class LosingTransport final : public MadeUpTransport {
public:
  LosingTransport() : MadeUpTransport(2) {}
  bool isSpared(int rank) const override { return rank == 1; }
  bool isLost(int rank) const override { return rank == 1 && lost; }
  std::unique_ptr<Message> send(int, int, const void *, size_t) override { return std::make_unique<Asked>(*this, false); }
  std::unique_ptr<Message> receive(int, int, void *, size_t) override {
    ++receives;
    return std::make_unique<Asked>(*this, true);
  }

  std::atomic<bool> loses = false, lost = false;
  std::atomic<int> receives = 0;

private:
  struct Asked final : Message {
    Asked(LosingTransport &owner, bool comes) : owner(owner), comes(comes) {}
    bool poll() override {
      if (owner.loses && comes)
        owner.lost = true;
      return owner.lost || !comes;
    }
    bool isLost() const override { return owner.lost; }
    LosingTransport &owner;
    bool comes;
  };
};

TEST(HeartbeatTest, EndsAlthoughARankIsLostWhileItIsAskedForAMessage) {
  LosingTransport transport;
  Heartbeat heartbeat(transport, {0.01, 8, 300}, [] { return false; });
  transport.loses = true;
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!transport.lost && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(transport.lost);
  EXPECT_TRUE(heartbeat.end().ok()); // hung: each new receive counted as a heartbeat
  EXPECT_FALSE(heartbeat.hasLost());
  EXPECT_LT(transport.receives, 3);
}

/// Three ranks, of which the second one is silent. What goes to the third one is slow at first.
class SlowTransport final : public MadeUpTransport {
public:
  SlowTransport() : MadeUpTransport(3) {}
  int64_t received(int rank) const override { return rank == 2 ? ++heard : 0; }
  bool isSpared(int rank) const override { return rank != 0; }
  bool isLost(int rank) const override { return rank == 1 && dropped; }
  void drop(int rank) override { dropped = dropped || rank == 1; }
  std::unique_ptr<Message> send(int rank, int, const void *data, size_t) override {
    // A heartbeat begins with its kind and the rank that was lost.
    const auto *beat = static_cast<const int32_t *>(data);
    if (rank == 2 && beat[0] == 2 && beat[1] == 1)
      told = true;
    return std::make_unique<Slow>(rank == 2 ? slow : quick);
  }
  std::unique_ptr<Message> receive(int, int, void *, size_t) override { return std::make_unique<Slow>(never); }

  std::atomic<bool> slow = true, told = false, dropped = false;

private:
  struct Slow final : Message {
    explicit Slow(const std::atomic<bool> &isSlow) : isSlow(isSlow) {}
    bool poll() override { return !isSlow; }
    bool isLost() const override { return false; }
    const std::atomic<bool> &isSlow;
  };
  std::atomic<bool> quick = false, never = true;
  mutable std::atomic<int64_t> heard = 0;
};

TEST(HeartbeatTest, TellsALossToARankWhoseLastHeartbeatHadNotLeft) {
  SlowTransport transport;
  Heartbeat heartbeat(transport, {0.01, 0.05, 0.05}, [] { return false; });
  auto waitFor = [](const std::atomic<bool> &what) {
    auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!what && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return what.load();
  };
  ASSERT_TRUE(waitFor(transport.dropped));
  EXPECT_FALSE(transport.told);
  transport.slow = false;
  EXPECT_TRUE(waitFor(transport.told));
}
} // namespace
