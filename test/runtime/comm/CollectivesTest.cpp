// Collectives over threads as ranks.
#include "runtime/comm/Reduce.h"
#include "test/runtime/Util.h"
#include "test/runtime/comm/Conformance.h"
#include "test/runtime/comm/Ranks.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class CollectivesTest : public testing::TestWithParam<int> {};

void expectDefinitions(int size, std::optional<Reducers> reducers) {
  for (const Mesh &mesh : meshesOf(size)) {
    LocalHub hub(size);
    std::mutex mutex;
    onRanks(hub, [&](Transport &transport) {
      int64_t checks = 0;
      std::vector<std::string> mistakes = checkCollectives(transport, mesh, checks, reducers);
      std::lock_guard lock(mutex);
      for (size_t i = 0; i < std::min<size_t>(3, mistakes.size()); ++i)
        ADD_FAILURE() << mistakes[i];
      EXPECT_GT(checks, 7000);
    });
  }
}

TEST_P(CollectivesTest, AreWhatTheyAreDefinedToBe) { expectDefinitions(GetParam(), {}); }
TEST_P(CollectivesTest, AreTheSameByMessagesBetweenAll) { expectDefinitions(GetParam(), Reducers{0, true}); }

/// Numbers of hosts by rank: one host, two equal ones or nearly, one and the others, in turn, and each of its own.
std::vector<std::vector<int>> hostsOf(int size) {
  std::vector<std::vector<int>> all(5, std::vector<int>(static_cast<size_t>(size)));
  for (int rank = 0; rank < size; ++rank) {
    auto at = static_cast<size_t>(rank);
    all[1][at] = rank < (size + 1) / 2 ? 7 : 2;
    all[2][at] = rank == size / 2;
    all[3][at] = rank % 3;
    all[4][at] = rank;
  }
  return all;
}

class HostsTest : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(HostsTest, AllReducesAreTheSameInEachWay) {
  auto [size, tree] = GetParam();
  for (const std::vector<int> &hosts : hostsOf(size))
    for (const Mesh &mesh : meshesOf(size)) {
      LocalHub hub(size, hosts);
      std::mutex mutex;
      onRanks(hub, [&](Transport &transport) {
        int64_t checks = 0;
        std::vector<std::string> mistakes = checkAllReduces(transport, mesh, checks, tree);
        std::lock_guard lock(mutex);
        for (size_t i = 0; i < std::min<size_t>(3, mistakes.size()); ++i)
          ADD_FAILURE() << mistakes[i];
        EXPECT_GT(checks, 1000);
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostsTest, testing::Combine(testing::Values(2, 3, 5, 6, 7), testing::Bool()));

TEST_P(CollectivesTest, HostsAgree) {
  LocalHub hub(GetParam());
  std::mutex mutex;
  onRanks(hub, [&](Transport &transport) {
    std::vector<std::string> mistakes = checkHosts(transport);
    std::lock_guard lock(mutex);
    for (const std::string &mistake : mistakes)
      ADD_FAILURE() << mistake;
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

/// Invalid parameters are refused on each rank before anything is sent.
TEST(CollectivesTest, RefusesNonsense) {
  Mesh mesh({{"data", 2}, {"model", 2}});
  auto refuse = [&](const char *words, auto change, DivisiPart part = {1, 4, 1, 1, 1}) {
    CollectiveBlock block(DIVISI_REDUCE_SCATTER, DIVISI_F32, {0}, {part});
    change(*block.operator->());
    EXPECT_TRUE(failsWith(Collective::create(*block.get(), mesh, 0), words));
  };
  auto nothing = [](DivisiCollective &) {};
  refuse("axes", [](DivisiCollective &c) { c.axes[0] = 2; });
  refuse("axes", [](DivisiCollective &c) { c.axes[0] = -1; });
  refuse("axes", [](DivisiCollective &c) { c.axis_count = 2, c.axes[1] = 0; });
  refuse("ranges", [](DivisiCollective &c) { c.axis_count = 7; });
  refuse("ranges", [](DivisiCollective &c) { c.type = 9; });
  refuse("ranges", [](DivisiCollective &c) { c.part_count = 0; });
  refuse("unknown kind", [](DivisiCollective &c) { c.kind = 5; });
  refuse("no known way", [](DivisiCollective &c) { c.reduction = 3; });
  refuse("scatters 3 over 2", nothing, {1, 3, 1, 1, 1});
  refuse("impossible size", nothing, {-1, 4, 1, 1, 1});
  refuse("impossible size", nothing, {int64_t(1) << 40, int64_t(1) << 40, 1, 1, 1});
}

TEST(CollectivesTest, SmallIntegersAddUp) {
  auto combined = [](auto a, auto b, int64_t type, int64_t reduction) {
    combine(&a, &a, &b, 1, type, reduction);
    return int(a);
  };
  EXPECT_EQ(combined(uint8_t(250), uint8_t(10), DIVISI_U8, DIVISI_SUM), 4); // wraps around
  EXPECT_EQ(combined(uint8_t(1), uint8_t(0), DIVISI_U8, DIVISI_SUM), 1);   // a boolean that one rank has
  EXPECT_EQ(combined(int8_t(-100), int8_t(-100), DIVISI_I8, DIVISI_SUM), 56);
  EXPECT_EQ(combined(int8_t(-100), int8_t(3), DIVISI_I8, DIVISI_MAX), 3);
  EXPECT_EQ(combined(uint8_t(200), uint8_t(3), DIVISI_U8, DIVISI_MAX), 200);
  EXPECT_EQ(combined(int16_t(-300), int16_t(20), DIVISI_I16, DIVISI_MIN), -300);
}

/// Through a driver, an all_reduce over its axis has the sums of a ring; the first member sends to all others, and each of them once.
TEST(CollectivesTest, ADriverAddsUpForAll) {
  Mesh mesh({{"data", 4}, {"model", 2}});
  LocalHub hub(8);
  onRanks(hub, [&](Transport &transport) {
    std::vector<float> a = {1, float(transport.rank())}, b = {10}, sumA(2), sumB(1);
    std::vector<void *> buffers = {a.data(), b.data(), sumA.data(), sumB.data()};
    CollectiveBlock block(DIVISI_ALL_REDUCE, DIVISI_F32, {0}, {{1, 2, 1, 1, 1}, {1, 1, 1, 1, 1}});
    Result<Collective> driven = Collective::create(*block.get(), mesh, transport.rank(), Reducers{0, false});
    ASSERT_TRUE(succeeded(driven));
    Scratch scratch;
    int64_t before = transport.bytesSent();
    EXPECT_TRUE(succeeded(driven->run(transport, buffers.data(), scratch)));
    int64_t position = transport.rank() / 2, model = transport.rank() % 2;
    EXPECT_EQ(sumA, (std::vector<float>{4, float(0 + 2 + 4 + 6 + 4 * model)}));
    EXPECT_EQ(sumB, (std::vector<float>{40}));
    EXPECT_EQ(transport.bytesSent() - before, position == 0 ? 3 * 12 : 12);
  });
}

TEST(ReduceTest, NaNStaysAndIntegersWrap) {
  float a[] = {NAN, 1, -2}, b[] = {1, NAN, 3}, out[3];
  for (int64_t reduction : {DIVISI_SUM, DIVISI_MAX, DIVISI_MIN}) {
    combine(out, a, b, 3, DIVISI_F32, reduction);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
    EXPECT_EQ(out[2], reduction == DIVISI_SUM ? 1 : reduction == DIVISI_MAX ? 3 : -2);
  }
  int32_t most = INT32_MAX, one = 1, sum = 0;
  combine(&sum, &most, &one, 1, DIVISI_I32, DIVISI_SUM);
  EXPECT_EQ(sum, INT32_MIN);
}
} // namespace
