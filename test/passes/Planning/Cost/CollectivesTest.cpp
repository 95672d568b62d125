// Times compared with formulas computed by hand, and links compared with a simulation of every message.
#include "passes/Planning/Cost/Collectives.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

using namespace divisi::dist;
using namespace divisi::planning;
using Kind = ReshardStep::Kind;

namespace {

Cluster makeCluster(std::vector<Cluster::Level> levels, const char *kind = "cpu") {
  Cluster cluster;
  cluster.device.kind = kind;
  cluster.levels = std::move(levels);
  return cluster;
}

/// Two machines of eight.
const Cluster twoNodes = makeCluster({{"inside", 8, 100, 1}, {"outside", 2, 40, 10}});

Mesh mesh(std::vector<int64_t> sizes) {
  Mesh result;
  for (int64_t size : sizes)
    result.axes.push_back({std::string(1, (char)('a' + result.axes.size())), size});
  return result;
}

TEST(Collectives, OneLevel) {
  Cluster cluster = makeCluster({{"l", 4, 100, 3}});
  Link link = linkOf(cluster, mesh({4}), {0});
  EXPECT_EQ(link.members, 4);
  EXPECT_EQ(stepSeconds(link, Kind::reduceScatter, 800), 3 * 3 + 0.75 * 800 / 100);
  EXPECT_EQ(stepSeconds(link, Kind::allGather, 800), 3 * 3 + 0.75 * 800 / 100);
  EXPECT_EQ(stepSeconds(link, Kind::allReduce, 80000), 2 * (3 * 3 + 0.75 * 80000 / 100));
  EXPECT_NEAR(stepSeconds(link, Kind::allReduce, 80), 2 * (3 + 0.8), 1e-6); // recursive doubling
  EXPECT_EQ(stepSeconds(link, Kind::allToAll, 800), 3 * 3 + 0.75 * 800 / 100);
  EXPECT_EQ(stepSeconds(link, Kind::slice, 800), 0);
  EXPECT_EQ(permuteSeconds(link, 800), 3 + 8);
}

TEST(Collectives, BytesSent) {
  EXPECT_EQ(bytesSent(Kind::allReduce, 4, 100), 150);
  EXPECT_EQ(bytesSent(Kind::reduceScatter, 4, 100), 75);
  EXPECT_EQ(bytesSent(Kind::allGather, 4, 100), 75);
  EXPECT_EQ(bytesSent(Kind::allToAll, 4, 100), 75);
  EXPECT_EQ(bytesSent(Kind::slice, 4, 100), 0);
  EXPECT_EQ(bytesSent(Kind::allReduce, 1, 100), 0);
}

TEST(Collectives, AloneIsFree) {
  for (const char *kind : {"cpu", "cuda"})
    for (const Cluster &cluster : {makeCluster({}, kind), makeCluster({{"l", 1, 1, 1}}, kind)}) {
      Link link = linkOf(cluster, mesh({1}), {0});
      for (Kind step : {Kind::allReduce, Kind::reduceScatter, Kind::allGather, Kind::allToAll, Kind::slice})
        EXPECT_EQ(stepSeconds(link, step, 1e9), 0);
      EXPECT_EQ(permuteSeconds(link, 1e9), 0);
    }
}

TEST(Collectives, InsideANode) {
  Link link = linkOf(twoNodes, mesh({2, 8}), {1});
  EXPECT_EQ(link.members, 8);
  EXPECT_EQ(link.levels, (std::vector<Link::Share>{{1, 1}, {0, 0}}));
  EXPECT_EQ(link.bandwidth, 100);
  EXPECT_EQ(link.latency, 1);
  EXPECT_EQ(stepSeconds(link, Kind::allReduce, 8000), 2 * 7 + 2 * 7. / 8 * 8000 / 100);
  EXPECT_EQ(stepSeconds(link, Kind::allToAll, 800), 7 + 7. / 8 * 800 / 100);
}

TEST(Collectives, AcrossNodesStrided) {
  // Pairs {i, i + 8}: eight of them share a machine's link.
  Link pairs = linkOf(twoNodes, mesh({2, 8}), {0});
  EXPECT_EQ(pairs.levels, (std::vector<Link::Share>{{1, 1}, {1, 8}}));
  EXPECT_EQ(pairs.bandwidth, 40. / 8);
  EXPECT_EQ(stepSeconds(pairs, Kind::reduceScatter, 100), 10 + 0.5 * 100 / 5);
  EXPECT_EQ(stepSeconds(pairs, Kind::allToAll, 100), 10 + 8 * 50. / 40);
  // {i, i + 4, i + 8, i + 12}: the hops of the ring take 1, 10, 1, 10.
  Link fours = linkOf(twoNodes, mesh({4, 4}), {0});
  EXPECT_EQ(fours.levels, (std::vector<Link::Share>{{1, 1}, {2, 4}}));
  EXPECT_EQ(fours.bandwidth, 40. / 4);
  EXPECT_EQ(stepSeconds(fours, Kind::allGather, 400), 21 + 0.75 * 400 / 10);
}

TEST(Collectives, AcrossNodesContiguous) {
  Link link = linkOf(twoNodes, mesh({16}), {0});
  EXPECT_EQ(link.levels, (std::vector<Link::Share>{{1, 1}, {8, 1}}));
  EXPECT_EQ(link.bandwidth, 40);
  EXPECT_EQ(link.latency, 10);
  EXPECT_EQ(stepSeconds(link, Kind::allGather, 1600), 13 + 20 + 15. / 16 * 1600 / 40);
  // Eight devices send half of their data to the other machine.
  EXPECT_EQ(stepSeconds(link, Kind::allToAll, 1000), 7 + 8 * 10 + 8 * 500. / 40);
  // The same group, spanned by two axes.
  EXPECT_EQ(linkOf(twoNodes, mesh({2, 8}), {0, 1}), link);
  EXPECT_EQ(linkOf(twoNodes, mesh({4, 4}), {1, 0}), link);
}

TEST(Collectives, SizesThatDoNotNest) {
  // Of {0..5} and {6..11} the second is in both machines; of the pairs {i, i + 6}, four are.
  EXPECT_EQ(linkOf(twoNodes, mesh({2, 6}), {1}).bandwidth, 40);
  EXPECT_EQ(linkOf(twoNodes, mesh({2, 6}), {1}).pass, 4 + 20 - 1);
  EXPECT_EQ(linkOf(twoNodes, mesh({2, 6}), {0}).levels[1].groups, 4);
  EXPECT_EQ(linkOf(twoNodes, mesh({2, 6}), {0}).bandwidth, 10);
  // Half of a machine crosses no border.
  EXPECT_EQ(linkOf(twoNodes, mesh({2, 4}), {0}).bandwidth, 100);
}

TEST(Collectives, EqualLevelsAreOne) {
  Cluster two = makeCluster({{"l", 4, 100, 3}, {"m", 4, 100, 3}}), one = makeCluster({{"l", 16, 100, 3}});
  Link a = linkOf(two, mesh({16}), {0}), b = linkOf(one, mesh({16}), {0});
  for (Kind kind : {Kind::reduceScatter, Kind::allGather})
    EXPECT_DOUBLE_EQ(stepSeconds(a, kind, 1234), stepSeconds(b, kind, 1234));
}

/// Two groups of four whose link is slow: 2 (h-1)/h of the bytes leave a machine, in place of 2 (n-1)/n.
TEST(Collectives, ByHosts) {
  Cluster cluster = makeCluster({{"inside", 4, 100, 1}, {"outside", 2, 2, 10}});
  Link all = linkOf(cluster, mesh({8}), {0});
  double inside = 2 * (3 * 1 + 0.75 * 1000 / 100), across = 2 * (10 + 0.5 * 1000 / 2.);
  EXPECT_DOUBLE_EQ(stepSeconds(all, Kind::allReduce, 1000), inside + across);
  EXPECT_LT(inside + across, 2 * (25 + 7. / 8 * 1000 / 2.)); // the ring
  EXPECT_DOUBLE_EQ(bytesSent(all, Kind::allReduce, 1000), 1500 + 250);
  // A tree of few bytes: two rounds inside, one across, and two to broadcast.
  EXPECT_NEAR(stepSeconds(all, Kind::allReduce, 1), 4 * 1.01 + 10.5, 1e-6);
  EXPECT_EQ(bytesSent(all, Kind::allReduce, 1), 2 + 1 + 2);
  // Two of each machine, in two groups that share its link.
  Link two = linkOf(cluster, mesh({4, 2}), {0});
  EXPECT_DOUBLE_EQ(stepSeconds(two, Kind::allReduce, 1000), 2 * (1 + 0.5 * 1000 / 100) + 2 * (10 + 0.5 * 1000 / 1.));
  EXPECT_EQ(hostLinksOf(cluster), (divisi::HostLinks{{1, 100}, {10, 2}}));
}

// Bus bandwidths that Galvatron measured on two machines of eight GPUs: 16 GPUs 44.7, 8 contiguous 155.7, 8 strided
// 20.8, 4 strided 16.2, 2 strided 8.1 GB/s.
TEST(Collectives, GalvatronsStrides) {
  Cluster cluster = makeCluster({{"nvlink", 8, 155.7, 1e-9}, {"network", 2, 44.7, 1e-9}});
  auto bandwidth = [&](std::vector<int64_t> sizes, int axis) { return linkOf(cluster, mesh(sizes), {axis}).bandwidth; };
  EXPECT_DOUBLE_EQ(bandwidth({16}, 0), 44.7);
  EXPECT_DOUBLE_EQ(bandwidth({2, 8}, 1), 155.7);
  EXPECT_NEAR(bandwidth({8, 2}, 0) / 20.8, 1, 0.1);
  EXPECT_NEAR(bandwidth({4, 4}, 0) / 16.2, 1, 0.35);
  EXPECT_NEAR(bandwidth({2, 8}, 0) / 8.1, 1, 0.35);
}

TEST(Collectives, TreesOfManyNodes) {
  std::vector<Cluster::Level> levels = {{"nvlink", 8, 240e9, 2e-6}, {"network", 16, 200e9, 5e-6}};
  Link cuda = linkOf(makeCluster(levels, "cuda"), mesh({128}), {0}), cpu = linkOf(makeCluster(levels), mesh({128}), {0});
  double tree = 2 * (7 * 2e-6 + 4 * 5e-6);
  EXPECT_DOUBLE_EQ(stepSeconds(cuda, Kind::allReduce, 1e3), tree + 2 * 1e3 / 200e9);
  EXPECT_EQ(stepSeconds(cuda, Kind::allReduce, 1e12), stepSeconds(cpu, Kind::allReduce, 1e12));
  EXPECT_NEAR(stepSeconds(cpu, Kind::allReduce, 1e3), 6 * 2e-6 + 4 * 5e-6 + 6e3 / 240e9 + 4e3 / 200e9 + 7e3 / 4e9,
              1e-12);
  // No trees for the others.
  for (Kind kind : {Kind::reduceScatter, Kind::allGather, Kind::allToAll})
    EXPECT_EQ(stepSeconds(cuda, kind, 1e3), stepSeconds(cpu, kind, 1e3));
  // Devices of their own machines make trees at once: 64 of them, six levels.
  Cluster single = makeCluster({{"nvlink", 1, 240e9, 2e-6}, {"network", 64, 25e9, 5e-6}}, "cuda");
  EXPECT_DOUBLE_EQ(stepSeconds(linkOf(single, mesh({64}), {0}), Kind::allReduce, 0), 2 * 6 * 5e-6);
}

TEST(Collectives, Transfers) {
  EXPECT_EQ(transferSeconds(twoNodes, {}, 100), 0);
  EXPECT_EQ(transferSeconds(twoNodes, Transfer{3, 3}, 100), 0);
  EXPECT_EQ(transferSeconds(twoNodes, Transfer{0, 1}, 100), 1 + 1);
  EXPECT_EQ(transferSeconds(twoNodes, Transfer{0, 8}, 100), 10 + 100. / 40);
  std::vector<Transfer> stage;
  for (int64_t i = 0; i < 8; ++i)
    stage.push_back({i, i + 8});
  EXPECT_EQ(transferSeconds(twoNodes, stage, 100), 10 + 8 * 100. / 40);
  EXPECT_EQ(transferSeconds(twoNodes, {{0, 8}, {8, 0}}, 100), 10 + 100. / 40); // both ways at once
  EXPECT_EQ(transferSeconds(twoNodes, {{1, 0}, {2, 0}, {3, 0}}, 100), 1 + 3);  // one receives all
}

/// Random levels, and a mesh that fits.
struct Random {
  Cluster cluster;
  Mesh grid;
  Axes axes;

  explicit Random(unsigned seed) {
    std::mt19937 random(seed);
    auto upTo = [&](int64_t n) { return 1 + (int64_t)(random() % n); };
    for (int64_t l = upTo(3); l > 0; --l)
      cluster.levels.push_back({"l", upTo(4), (double)upTo(100), (double)upTo(20)});
    cluster.device.kind = random() % 2 ? "cpu" : "cuda";
    int64_t left = cluster.devices();
    for (int i = 0; i < 3; ++i) {
      grid.axes.push_back({"a", upTo(left)});
      left /= grid.axes.back().size;
      if (random() % 2)
        axes.push_back(i);
    }
  }
};

TEST(Collectives, LinksAgainstEveryMessage) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    Random test(seed);
    // Groups by the coordinates on the other axes.
    std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
    for (int64_t device = 0; device < test.grid.devices(); ++device) {
      std::vector<int64_t> at(3);
      int64_t rest = device;
      for (int axis = 2; axis >= 0; --axis) {
        at[axis] = llvm::is_contained(test.axes, axis) ? 0 : rest % test.grid.axes[axis].size;
        rest /= test.grid.axes[axis].size;
      }
      groups[at].push_back(device);
    }
    auto crossed = [&](int64_t a, int64_t b, auto visit) {
      for (size_t l = 0; l < test.cluster.levels.size(); ++l) {
        if (a != b)
          visit(l, a);
        a /= test.cluster.levels[l].size;
        b /= test.cluster.levels[l].size;
      }
    };
    std::map<std::pair<size_t, int64_t>, double> ring, exchange;
    std::map<std::pair<size_t, int64_t>, std::set<const void *>> leaving; // groups by level and unit
    double pass = 0, messages = 0, across = 0;
    int64_t hosts = 0, fewest = INT64_MAX, most = 0;
    const int64_t machine = test.cluster.levels[0].size;
    for (const auto &entry : groups) {
      const std::vector<int64_t> &group = entry.second;
      double n = (double)group.size();
      std::map<int64_t, int64_t> onHosts;
      for (int64_t device : group)
        ++onHosts[device / machine];
      hosts = std::max<int64_t>(hosts, onHosts.size());
      for (auto [host, count] : onHosts)
        fewest = std::min(fewest, count), most = std::max(most, count);
      auto latency = [&](size_t i, size_t j) {
        double result = 0;
        crossed(group[i], group[j], [&](size_t l, int64_t) { result = test.cluster.levels[l].latency; });
        return result;
      };
      for (size_t i = 0; i < group.size(); ++i) {
        crossed(group[i], group[(i + 1) % group.size()], [&](size_t l, int64_t unit) { ring[{l, unit}] += 1; });
        double hops = 0, all = 0;
        if (i > 0 && group[i] / machine != group[i - 1] / machine)
          across = std::max(across, latency(i - 1, i));
        for (size_t j = 0; j < group.size(); ++j) {
          if (j + 1 < group.size())
            hops += latency((i + j) % group.size(), (i + j + 1) % group.size());
          all += latency(i, j);
          crossed(group[i], group[j], [&](size_t l, int64_t unit) {
            exchange[{l, unit}] += 1 / n;
            leaving[{l, unit}].insert(&group);
          });
        }
        pass = std::max(pass, hops);
        messages = std::max(messages, all);
      }
    }
    double bandwidth = INFINITY, perByte = 0;
    for (auto [where, flows] : ring)
      bandwidth = std::min(bandwidth, test.cluster.levels[where.first].bandwidth / flows);
    for (auto [where, share] : exchange)
      perByte = std::max(perByte, share / test.cluster.levels[where.first].bandwidth);

    Link link = linkOf(test.cluster, test.grid, test.axes);
    EXPECT_EQ(link.members, test.grid.parts(test.axes)) << "seed " << seed;
    EXPECT_EQ(link.bandwidth, bandwidth) << "seed " << seed;
    EXPECT_NEAR(link.exchange, perByte, 1e-12) << "seed " << seed;
    EXPECT_EQ(link.pass, pass) << "seed " << seed;
    EXPECT_EQ(link.messages, messages) << "seed " << seed;
    EXPECT_EQ(link.byHosts.has_value(), test.cluster.device.kind == "cpu");
    if (!link.byHosts)
      continue;
    double outside = INFINITY;
    for (const auto &[where, list] : leaving)
      if (where.first > 0)
        outside = std::min(outside, test.cluster.levels[where.first].bandwidth / (double)list.size());
    const divisi::AllReduceGroup &group = *link.byHosts;
    EXPECT_EQ(std::tuple(group.members, group.hosts, group.fewest, group.most),
              std::tuple(link.members, hosts, fewest, most))
        << "seed " << seed;
    EXPECT_EQ(group.links.across, (divisi::HostLinks::Link{across, outside})) << "seed " << seed;
    EXPECT_EQ(std::pair(group.ringPass, group.ringBandwidth), std::pair(pass, bandwidth)) << "seed " << seed;
  }
}

TEST(Collectives, Monotonous) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Random test(seed);
    Cluster faster = test.cluster, quicker = test.cluster;
    for (Cluster::Level &level : faster.levels)
      level.bandwidth *= 2;
    for (Cluster::Level &level : quicker.levels)
      level.latency /= 2;
    Link link = linkOf(test.cluster, test.grid, test.axes);
    for (Kind kind : {Kind::allReduce, Kind::reduceScatter, Kind::allGather, Kind::allToAll})
      for (double bytes : {0., 1., 1e3, 1e6}) {
        double seconds = stepSeconds(link, kind, bytes);
        EXPECT_GE(stepSeconds(link, kind, 2 * bytes), seconds) << "seed " << seed;
        EXPECT_LE(stepSeconds(linkOf(faster, test.grid, test.axes), kind, bytes), seconds) << "seed " << seed;
        EXPECT_LE(stepSeconds(linkOf(quicker, test.grid, test.axes), kind, bytes), seconds) << "seed " << seed;
      }
    double halves = stepSeconds(link, Kind::reduceScatter, 100) + stepSeconds(link, Kind::allGather, 100);
    EXPECT_LE(stepSeconds(link, Kind::allReduce, 100), halves) << "seed " << seed;
  }
}

std::vector<std::string> textsOf(const std::vector<Mesh> &meshes, int64_t devices) {
  std::vector<std::string> texts;
  for (const Mesh &mesh : meshes) {
    std::string &text = texts.emplace_back();
    for (const Mesh::Axis &axis : mesh.axes)
      text += (text.empty() ? "" : " ") + axis.name + std::to_string(axis.size);
    EXPECT_EQ(mesh.devices(), devices);
  }
  return texts;
}

std::vector<std::string> meshTexts(const Cluster &cluster, int64_t devices) {
  return textsOf(enumerateMeshes(cluster, devices), devices);
}

TEST(Meshes, Enumerated) {
  using Texts = std::vector<std::string>;
  Cluster flat = makeCluster({{"l", 12, 100, 1}});
  EXPECT_EQ(meshTexts(flat, 1), Texts({"data1"}));
  EXPECT_EQ(meshTexts(flat, 7), Texts({"data7"}));
  // On one level, the order of the axes makes no difference.
  EXPECT_EQ(meshTexts(flat, 12), Texts({"data12", "data2 model6", "data3 model4", "data4 model3", "data6 model2"}));
  EXPECT_EQ(meshTexts(twoNodes, 8), Texts({"data8", "data2 model4", "data4 model2"}));
  EXPECT_EQ(meshTexts(twoNodes, 16), Texts({"data16", "data2 model8", "model8 data2", "data4 model4", "model4 data4",
                                            "data8 model2", "model2 data8"}));
}

TEST(Meshes, SplitInThree) {
  using Texts = std::vector<std::string>;
  auto split = [](int64_t data, int64_t model) {
    return textsOf(splitAxes(twoNodes, Mesh{{{"data", data}, {"model", model}}}), data * model);
  };
  EXPECT_EQ(split(2, 2), Texts());
  EXPECT_EQ(split(2, 4), Texts({"data2 model2 inner2"}));
  // Machines of eight: four across two of them are best split at the border.
  EXPECT_EQ(split(4, 4), Texts({"data2 inner2 model4", "data4 model2 inner2"}));
  EXPECT_EQ(split(1, 16)[0], "data1 model2 inner8");
  EXPECT_EQ(splitAxes(twoNodes, Mesh{{{"data", 8}}}).size(), 0u);
}

TEST(Meshes, ManyDevices) {
  Cluster cluster = makeCluster({{"l", 8, 100, 1}, {"m", 8192, 40, 10}}, "cuda");
  EXPECT_EQ(enumerateMeshes(cluster, 65536).size(), 1u + 15 * 2);
}

} // namespace
