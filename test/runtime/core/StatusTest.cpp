#include "test/runtime/Util.h"

using namespace divisi::runtime;

TEST(PrintableTest, NothingReachesTheTerminalButText) {
  EXPECT_EQ(printable("cannot open 'x.npy': 3 > 2"), "cannot open 'x.npy': 3 > 2");
  EXPECT_EQ(printable(std::string_view("\x1b[2J\n\0\x7f\xc3\xa9", 9)), "\\x1b[2J\\x0a\\x00\\x7f\\xc3\\xa9");
}
