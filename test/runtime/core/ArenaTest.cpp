#include "runtime/core/Arena.h"
#include "test/runtime/Util.h"

using namespace divisi::runtime;

namespace {
/// Bytes of this process in memory.
int64_t residentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

// Of more memory than any machine has, as the twin of an accelerator's arena on a small host.
TEST(Arena, TwinTakesOnlyWhatIsUsed) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer takes most of the addresses";
#endif
  constexpr uint64_t bytes = uint64_t(16) << 40;
  int64_t before = residentBytes();
  Result<Arena> twin = Arena::create(bytes, /*twin=*/true);
  ASSERT_TRUE(twin.ok()) << twin.status().message();
  for (uint64_t at = 0; at < bytes; at += bytes / 64)
    EXPECT_EQ(twin->data()[at]++, 0);
  EXPECT_LT(residentBytes() - before, int64_t(16) << 20);
}

TEST(Arena, RefusesWhatNoAddressSpaceHolds) {
  Result<Arena> arena = Arena::create(UINT64_MAX / 2);
  ASSERT_FALSE(arena.ok());
  EXPECT_NE(arena.status().message().find("cannot reserve 8796093022207 MiB"), std::string::npos)
      << arena.status().message();
}
} // namespace
