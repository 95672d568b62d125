// Ways of an all_reduce over hosts: which one is chosen, what it sends between hosts, and what it takes beside its
// price.
#include "test/runtime/Util.h"
#include "test/runtime/comm/Conformance.h"
#include "test/runtime/comm/PacedRanks.h"
#include "test/runtime/comm/Ranks.h"

using namespace divisi;
using namespace divisi::runtime;
using namespace divisi::test;

namespace {
using Way = AllReduceWay;

/// One group on links of a millisecond and 100 MB/s inside of a host, of 5 ms and 10 MB/s between hosts.
const HostLinks slow = {{1e-3, 100e6}, {5e-3, 10e6}};

AllReduceGroup groupOf(const std::vector<int> &hosts, const Mesh &mesh, std::vector<int64_t> axes = {0},
                       HostLinks links = slow) {
  return Placement{hosts, links}.groupOf(mesh, 0, axes);
}
Mesh line(int size) { return Mesh({{"data", size}}); }

TEST(AllReduceTest, GroupsLieAsHostsSay) {
  AllReduceGroup two = groupOf({0, 0, 0, 0, 1, 1, 1, 1}, line(8));
  EXPECT_EQ(std::tuple(two.members, two.hosts, two.fewest, two.most), std::tuple(8, 2, 4, 4));
  EXPECT_DOUBLE_EQ(two.ringPass, 5e-3 * 2 + 1e-3 * 5);
  EXPECT_EQ(two.ringBandwidth, 10e6);
  EXPECT_EQ(two.links, slow);
  // In turn, every hop leaves a host: four of them at once.
  AllReduceGroup turns = groupOf({0, 1, 0, 1, 0, 1, 0, 1}, line(8));
  EXPECT_DOUBLE_EQ(turns.ringPass, 7 * 5e-3);
  EXPECT_EQ(turns.ringBandwidth, 10e6 / 4);
  EXPECT_EQ(turns.links, slow);
  // Two groups {0, 2, 4, 6} and {1, 3, 5, 7} share the hosts' links; of pairs inside of hosts none leaves.
  Mesh mesh({{"data", 4}, {"model", 2}});
  AllReduceGroup data = groupOf({0, 0, 0, 0, 1, 1, 1, 1}, mesh);
  EXPECT_EQ(std::tuple(data.members, data.hosts, data.fewest, data.most), std::tuple(4, 2, 2, 2));
  EXPECT_EQ(data.links.across.bandwidth, 5e6);
  AllReduceGroup model = groupOf({0, 0, 0, 0, 1, 1, 1, 1}, mesh, {1});
  EXPECT_EQ(std::tuple(model.members, model.hosts, model.ringBandwidth), std::tuple(2, 1, 100e6));
  AllReduceGroup uneven = groupOf({3, 3, 3, 5, 3}, line(5));
  EXPECT_EQ(std::tuple(uneven.hosts, uneven.fewest, uneven.most), std::tuple(2, 1, 4));
}

TEST(AllReduceTest, PricesByHand) {
  AllReduceGroup two = groupOf({0, 0, 0, 0, 1, 1, 1, 1}, line(8));
  EXPECT_DOUBLE_EQ(two.seconds(Way::ring, 1e6), 2 * 15e-3 + 2 * 7 / 8. * 0.1);
  EXPECT_DOUBLE_EQ(two.seconds(Way::hierarchical, 1e6), 2 * (3 * 1e-3 + 3 / 4. * 0.01) + 2 * (5e-3 + 0.05));
  // Two rounds in a host, one between hosts, and two to broadcast; a round combines at 4 GB/s.
  EXPECT_NEAR(two.seconds(Way::tree, 1e6), 4 * (1e-3 + 0.01) + (5e-3 + 0.1) + 3 * 0.25e-3, 1e-12);
  EXPECT_EQ(two.best(1e6), Way::hierarchical);
  EXPECT_EQ(two.best(1e3), Way::tree);
  AllReduceGroup one = groupOf({}, line(8));
  EXPECT_EQ(one.best(1e7), Way::ring);
  EXPECT_DOUBLE_EQ(one.seconds(1e7), 14e-3 + 2 * 7 / 8. * 0.1);
  EXPECT_DOUBLE_EQ(one.seconds(0), 3e-3); // recursive doubling
  EXPECT_DOUBLE_EQ(groupOf({}, line(7)).seconds(0), 4e-3);
  EXPECT_EQ(groupOf({}, line(1)).seconds(1e6), 0);
  // Hosts of one member each: nothing is inside.
  EXPECT_EQ(groupOf({0, 1, 2, 3}, line(4)).best(1e8), Way::ring);
}

/// Seconds of an all_reduce of `count` floats, the second of two, and the bytes that leave hosts in it.
std::pair<double, int64_t> measure(const std::vector<int> &hosts, const std::vector<int> &known, int64_t count) {
  PacedHub hub(hosts, slow, known);
  const auto size = static_cast<int>(hosts.size());
  std::atomic<int64_t> microseconds = 0, begun = 0;
  onRanks(hub, [&](Transport &transport) {
    Communicator ranks(transport, line(size));
    ranks.linkBy(slow);
    CollectiveBlock block(DIVISI_ALL_REDUCE, DIVISI_F32, {0}, {{1, count, 1, 1, 1}});
    std::vector<float> in(static_cast<size_t>(count), static_cast<float>(transport.rank())), out(in.size());
    void *buffers[] = {in.data(), out.data()};
    for (int turn = 0; turn < 2; ++turn) {
      EXPECT_TRUE(succeeded(ranks.barrier()));
      if (transport.rank() == 0)
        begun = hub.bytesAcross();
      EXPECT_TRUE(succeeded(ranks.barrier()));
      auto begin = std::chrono::steady_clock::now();
      EXPECT_TRUE(succeeded(ranks.start(block.get(), buffers)) && succeeded(ranks.await(block->id)));
      std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
      EXPECT_EQ(out, std::vector<float>(out.size(), static_cast<float>(size * (size - 1) / 2)));
      const auto mine = static_cast<int64_t>(turn * took.count());
      for (int64_t most = microseconds; most < mine && !microseconds.compare_exchange_weak(most, mine);) {
      }
      EXPECT_TRUE(succeeded(ranks.barrier()));
    }
  });
  return {static_cast<double>(microseconds) * 1e-6, hub.bytesAcross() - begun};
}

/// Two hosts of four, 1 MB: the ring sends 2 (n-1)/n of it out of each, and the hosts' ring 2 (h-1)/h.
TEST(AllReduceTest, ByHostsSendsLessOverSlowLinks) {
  const std::vector<int> hosts = {0, 0, 0, 0, 1, 1, 1, 1};
  const AllReduceGroup group = groupOf(hosts, line(8));
  const int64_t count = 250'000, bytes = 4 * count;
  auto [ring, ringBytes] = measure(hosts, std::vector<int>(8), count);
  auto [byHosts, hostBytes] = measure(hosts, hosts, count);
  auto [tree, treeBytes] = measure(hosts, hosts, 100);
  std::cout << "ring " << 1e3 * ring << " ms, priced " << 1e3 * group.seconds(Way::ring, bytes) << "; by hosts "
            << 1e3 * byHosts << " ms, priced " << 1e3 * group.seconds(Way::hierarchical, bytes)
            << "; tree of 400 bytes " << 1e3 * tree << " ms, priced " << 1e3 * group.seconds(Way::tree, 400)
            << std::endl;
  // Times are only told: other processes lengthen them. What leaves hosts besides are messages of barriers.
  EXPECT_NEAR(static_cast<double>(ringBytes), 2 * 2 * 7 / 8. * bytes, 2000);
  EXPECT_NEAR(static_cast<double>(hostBytes), 2 * 2 * 1 / 2. * bytes, 2000);
  EXPECT_NEAR(static_cast<double>(treeBytes), 2 * 400, 2000);
}
} // namespace
