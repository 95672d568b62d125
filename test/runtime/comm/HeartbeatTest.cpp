#include "runtime/comm/Heartbeat.h"

#include <gtest/gtest.h>

using namespace divisi::runtime;

namespace {
/// Two ranks, of which the other one is lost between two looks: this one learns it when it asks for a message.
class LosingTransport final : public Transport {
public:
  LosingTransport() : Transport(0, 2) {}
  int cores() const override { return 1; }
  int local() const override { return 0; }
  const std::vector<int> &hosts() const override { return hosts_; }
  int64_t largestTag() const override { return 100; }
  int heartbeatTag() const override { return 101; }
  bool isSpared(int rank) const override { return rank == 1; }
  bool isLost(int rank) const override { return rank == 1 && lost; }
  std::unique_ptr<Message> send(int, int, const void *, size_t) override { return std::make_unique<Asked>(*this, false); }
  std::unique_ptr<Message> receive(int, int, void *, size_t) override {
    ++receives;
    return std::make_unique<Asked>(*this, true);
  }

  std::atomic<bool> loses = false, lost = false;
  std::atomic<int> receives = 0;

protected:
  void startSend(int, const void *, size_t) override {}
  void startReceive(int, void *, size_t) override {}
  bool poll() override { return true; }
  void cancel() override {}

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
  std::vector<int> hosts_{0, 0};
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
} // namespace
