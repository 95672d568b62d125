#include "runtime/core/Cores.h"
#include "test/runtime/Util.h"

#include <atomic>
#include <sched.h>
#include <thread>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
class Groups : public testing::Test {
protected:
  void SetUp() override {
    root = testing::TempDir() + "groups" + std::to_string(getpid());
    std::filesystem::remove_all(root);
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string &file, const std::string &text) const {
    std::filesystem::create_directories(std::filesystem::path(root + file).parent_path());
    std::ofstream(root + file) << text;
  }
  std::string root;
};

TEST_F(Groups, TheTightestGroupAroundAProcessCounts) {
  write("/a/cpu.max", "250000 100000\n");
  write("/a/b/cpu.max", "max 100000\n");
  write("/other/cpu.max", "100000 100000\n");
  EXPECT_EQ(coresOfGroups("0::/a/b\n", root), 3);
  write("/a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(coresOfGroups("0::/a/b\n", root), 2);
  write("/a/b/cpu.max", "20000 100000\n");
  EXPECT_EQ(coresOfGroups("0::/a/b\n", root), 1);
}

TEST_F(Groups, WithoutALimitThereIsNone) {
  EXPECT_EQ(coresOfGroups("0::/\n", root), std::nullopt);
  EXPECT_EQ(coresOfGroups("", root), std::nullopt);
  EXPECT_EQ(coresOfGroups("no group\n::\n0:", root), std::nullopt);
  write("/cpu.max", "max 100000\n");
  EXPECT_EQ(coresOfGroups("0::/\n", root), std::nullopt);
  write("/cpu.max", "100000 0\n");
  EXPECT_EQ(coresOfGroups("0::/\n", root), std::nullopt);
}

TEST_F(Groups, ControllersOfTheFirstVersion) {
  std::string membership = "5:cpuset:/x\n4:cpu,cpuacct:/docker/x\n0::/\n";
  write("/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(coresOfGroups(membership, root), std::nullopt);
  write("/cpu,cpuacct/cpu.cfs_quota_us", "400000\n"); // the folder of a container, whose path is the host's
  EXPECT_EQ(coresOfGroups(membership, root), 4);
  write("/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "200000\n");
  write("/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(coresOfGroups(membership, root), 2);
}

TEST(Cores, AreThoseOfTheAffinityMask) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_LE(coresAllowed(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before))
    ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(coresAllowed(), 1);
  sched_setaffinity(0, sizeof(before), &before);
}

TEST(Cores, AreDividedAmongRanks) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const int all = CPU_COUNT(&before);
  if (all < 2 || all < sysconf(_SC_NPROCESSORS_ONLN))
    GTEST_SKIP() << "one core, or a part of the machine's";
  cpu_set_t known;
  CPU_ZERO(&known);
  std::atomic<bool> done = false;
  cpu_set_t ofThread;
  std::thread other([&] { // that was there before
    while (!done)
      std::this_thread::yield();
    sched_getaffinity(0, sizeof(ofThread), &ofThread);
  });
  for (int part = 0; part < 2; ++part) {
    divisi::runtime::keepToPart(part, 2, all / 2);
    cpu_set_t mine, common;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
    EXPECT_GE(CPU_COUNT(&mine), all / 2);
    CPU_AND(&common, &mine, &known);
    EXPECT_EQ(CPU_COUNT(&common), 0); // not those of the other part
    CPU_OR(&known, &known, &mine);
    if (part == 0)
      sched_setaffinity(0, sizeof(before), &before);
  }
  EXPECT_TRUE(CPU_EQUAL(&known, &before));
  done = true;
  other.join();
  EXPECT_LT(CPU_COUNT(&ofThread), all);
  // A launcher has given this process cores of its own: they are not divided again.
  cpu_set_t mine;
  sched_getaffinity(0, sizeof(mine), &mine);
  divisi::runtime::keepToPart(0, 2, CPU_COUNT(&mine));
  cpu_set_t after;
  sched_getaffinity(0, sizeof(after), &after);
  EXPECT_TRUE(CPU_EQUAL(&mine, &after));
  sched_setaffinity(0, sizeof(before), &before);
}
} // namespace
