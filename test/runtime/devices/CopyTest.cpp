#include "runtime/core/Context.h"
#include "test/runtime/Util.h"

using namespace divisi::runtime;

namespace {
TEST(Copy, CopiesAllBytesAndNoMore) {
  for (int64_t bytes : {0, 1, 1000, (1 << 20) + 7}) {
    std::string from(static_cast<size_t>(bytes) + 1, 'x'), to(from.size(), 'y'), want = from;
    for (size_t i = 0; i < from.size(); ++i)
      from[i] = want[i] = static_cast<char>(i * 7);
    want.back() = 'y';
    DivisiContext context(2);
    configureThreads(2);
    DivisiCopy params = {bytes};
    void *buffers[] = {from.data(), to.data()};
    divisi_copy(&context, &params, buffers);
    EXPECT_TRUE(to == want) << bytes;
    context.fail("stop");
    to.assign(to.size(), 'z');
    divisi_copy(&context, &params, buffers);
    EXPECT_EQ(to, std::string(to.size(), 'z'));
  }
}
} // namespace
