#include "test/runtime/comm/PacedRanks.h"

#include <algorithm>
#include <cstring>
#include <tuple>

using namespace divisi;
using namespace divisi::runtime;
using namespace divisi::test;

/// One message that a rank sends or receives.
struct PacedHub::Tagged final : Message {
  Tagged(PacedHub &hub, Clock::time_point leaves) : hub(hub), leaves(leaves) {}
  Tagged(PacedHub &hub, const Key &key, void *data, size_t bytes)
      : hub(hub), key(key), number(hub.expect(key)), data(data), bytes(bytes) {}
  bool poll() override {
    done = done || (number < 0 ? Clock::now() >= leaves : hub.take(key, number, data, bytes));
    return done;
  }

  PacedHub &hub;
  Clock::time_point leaves = {};
  Key key = {};
  int64_t number = -1; ///< of a message that is received
  void *data = nullptr;
  size_t bytes = 0;
  bool done = false;
};

class PacedHub::End final : public Transport {
public:
  End(PacedHub &hub, int rank, int size) : Transport(rank, size), hub(hub) {}

  int cores() const override { return 1; }
  int local() const override { return rank(); }
  const std::vector<int> &hosts() const override { return hub.known; }
  void fail(const Status &why) override {
    for (auto &end : hub.ends)
      end->note(why);
  }
  using Transport::note;
  using Transport::receive;
  using Transport::send;

  std::unique_ptr<Message> send(int to, int tag, const void *data, size_t bytes) override {
    return std::make_unique<Tagged>(hub, hub.send(rank(), to, tag, data, bytes));
  }
  std::unique_ptr<Message> receive(int from, int tag, void *data, size_t bytes) override {
    return std::make_unique<Tagged>(hub, Key(from, rank(), tag), data, bytes);
  }
  int64_t largestTag() const override { return INT32_MAX; }

protected:
  void startSend(int to, const void *data, size_t bytes) override { plain.push_back(send(to, 0, data, bytes)); }
  void startReceive(int from, void *data, size_t bytes) override { plain.push_back(receive(from, 0, data, bytes)); }
  bool poll() override {
    std::erase_if(plain, [](const auto &message) { return message->poll(); });
    return plain.empty();
  }
  void cancel() override { plain.clear(); }

private:
  PacedHub &hub;
  std::vector<std::unique_ptr<Message>> plain;
};

PacedHub::PacedHub(std::vector<int> hosts, const HostLinks &links, std::vector<int> known)
    : hosts(std::move(hosts)), known(std::move(known)), links(links) {
  for (size_t rank = 0; rank < this->hosts.size(); ++rank)
    ends.push_back(std::make_unique<End>(*this, static_cast<int>(rank), static_cast<int>(this->hosts.size())));
}

PacedHub::~PacedHub() = default;

Transport &PacedHub::rank(int number) { return *ends[static_cast<size_t>(number)]; }

PacedHub::Clock::time_point PacedHub::Link::pass(Clock::time_point at, Clock::duration takes) {
  std::erase_if(busy, [now = Clock::now()](const auto &interval) { return interval.second < now; });
  for (auto [begin, end] : busy)
    if (begin < at + takes && end > at)
      at = end;
  if (takes.count() == 0)
    return at;
  auto place = busy.emplace(at, at + takes).first;
  if (auto next = std::next(place); next != busy.end() && next->first == place->second) {
    place->second = next->second;
    busy.erase(next);
  }
  if (place != busy.begin() && std::prev(place)->second == at) {
    std::prev(place)->second = place->second;
    busy.erase(place);
  }
  return at;
}

PacedHub::Clock::time_point PacedHub::send(int from, int to, int tag, const void *data, size_t bytes) {
  std::lock_guard lock(mutex);
  const int here = hosts[static_cast<size_t>(from)], there = hosts[static_cast<size_t>(to)];
  const bool leaves = here != there;
  auto left = Clock::now(), last = left;
  constexpr size_t packet = 4096, most = 64;
  const size_t packets = from == to ? 0 : std::clamp(bytes / packet, size_t(1), most);
  for (size_t i = 0; i < packets; ++i) {
    auto time = Clock::now();
    auto pass = [&](Link &link, double bandwidth, Clock::time_point &end) {
      auto takes = std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(packets) / bandwidth));
      time = link.pass(time, takes);
      end = std::max(end, time + takes);
    };
    pass(out[from], links.inside.bandwidth, left);
    if (leaves)
      pass(hostOut[here], links.across.bandwidth, left);
    if (leaves)
      pass(hostIn[there], links.across.bandwidth, last);
    pass(in[to], links.inside.bandwidth, last);
  }
  last = std::max(last, left);
  if (from != to) {
    const double latency = leaves ? links.across.latency : links.inside.latency;
    last += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(latency));
  }
  across += leaves ? static_cast<int64_t>(bytes) : 0;
  Channel &channel = channels[{from, to, tag}];
  const char *begin = static_cast<const char *>(data);
  channel.arrivals[channel.sent++] = {{begin, begin + bytes}, last};
  return left;
}

int64_t PacedHub::expect(const Key &key) {
  std::lock_guard lock(mutex);
  return channels[key].received++;
}

bool PacedHub::take(const Key &key, int64_t number, void *data, size_t bytes) {
  std::lock_guard lock(mutex);
  Channel &channel = channels[key];
  auto arrival = channel.arrivals.find(number);
  if (arrival == channel.arrivals.end() || Clock::now() < arrival->second.at)
    return false;
  if (arrival->second.data.size() != bytes)
    ends[0]->fail(failure("a message has ", arrival->second.data.size(), " bytes instead of ", bytes));
  else
    std::memcpy(data, arrival->second.data.data(), bytes);
  channel.arrivals.erase(arrival);
  return true;
}
