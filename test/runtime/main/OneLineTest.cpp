#include "runtime/main/OneLine.h"
#include "test/runtime/Util.h"

using namespace divisi::runtime;

namespace {
TEST(OneLineTest, KeepsText) {
  for (const char *text : {"", "plain", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82 \xc2\xa0"})
    EXPECT_EQ(oneLine(text), text);
}

TEST(OneLineTest, EscapesWhatCommands) {
  EXPECT_EQ(oneLine("a\nb\x1b[2J\x7f"), "a\\x0ab\\x1b[2J\\x7f");
  EXPECT_EQ(oneLine("\xc2\x9b" "2J\xc2\x85"), "\\xc2\\x9b2J\\xc2\\x85"); // C1: CSI and NEL
  EXPECT_EQ(oneLine("\xe2\x80\xa8|\xe2\x80\xae|\xe2\x81\xa7"), "\\xe2\\x80\\xa8|\\xe2\\x80\\xae|\\xe2\\x81\\xa7");
}

TEST(OneLineTest, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(oneLine("\x9b" "2J"), "\\x9b2J"); // CSI of terminals that take Latin 1
  EXPECT_EQ(oneLine("\xc2"), "\\xc2");
  EXPECT_EQ(oneLine("\xc2x\xe2\x80"), "\\xc2x\\xe2\\x80");
  for (const char *text : {"\xc0\x9b", "\xe0\x82\x9b", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) // longer than needed, surrogates, too large
    for (char c : oneLine(text))
      EXPECT_LT(static_cast<unsigned char>(c), 0x7f);
}
} // namespace
