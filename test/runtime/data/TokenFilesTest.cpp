#include "runtime/data/TokenFiles.h"
#include "runtime/core/Manifest.h"
#include "runtime/data/BatchSource.h"
#include "test/runtime/Util.h"

#include <cstring>
#include <numeric>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
/// Batches of two windows of four tokens: the tokens, and each one's next.
class TokenFilesTest : public testing::Test {
protected:
  TokenFilesTest() { use("I64", 50); }
  void use(const std::string &type, int64_t vocabulary, const std::string &more = "") {
    std::string shape = concat("\"dtype\": \"", type, "\", \"shape\": [2, 4], \"range\": [0, ", vocabulary, "]");
    manifest = *parseManifest(concat(R"({"abi": 7, "batch": 2, "inputs": [{"name": "tokens", "offset": 0, )", shape,
                                     R"(}, {"name": "next", "offset": 64, "label": true, "padding": -100, )", shape,
                                     "}", more, R"(], "state": [], "scalars": [], "results": []})"),
                              256);
  }
  template <typename T>
  void write(const std::string &name, const std::vector<T> &tokens, std::vector<int32_t> head = {}) {
    head.resize(head.empty() ? 0 : 256);
    writeBytes(folder / name, concat(bytesOf(head), bytesOf(tokens)));
  }
  static std::vector<uint16_t> counted(size_t count, uint16_t first) {
    std::vector<uint16_t> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }
  Result<BatchSource> open(const std::vector<std::string> &names, std::optional<DataType> type = {}) {
    BatchSource::Files files;
    for (const std::string &name : names)
      files.emplace("tokens", folder / name);
    return BatchSource::open(
        manifest, files, "--data", [&](const std::string &line) { notes.push_back(line); }, type);
  }
  /// The numbers of an input of a batch.
  std::vector<int64_t> batch(BatchSource &source, int64_t index, size_t input) {
    std::memset(arena, 0x55, sizeof(arena));
    int64_t rows = 0;
    EXPECT_TRUE(succeeded(source.load(index, arena, rows)));
    std::vector<int64_t> numbers;
    const Input &in = manifest.inputs[input];
    for (int64_t i = 0; i < in.elements(); ++i)
      numbers.push_back(readInteger(arena + in.offset + i * widthOf(in.dtype), in.dtype));
    return numbers;
  }

  TemporaryFolder folder;
  Manifest manifest;
  std::vector<std::string> notes;
  alignas(64) char arena[256] = {};
};
using Numbers = std::vector<int64_t>;

/// 10, 11, ... 21: two windows and the token after each; three more tokens are no window. Then three files by pattern.
TEST_F(TokenFilesTest, WindowsFollowEachOtherAndEndWithTheirFile) {
  write("a1.bin", counted(12, 10));
  write("a2.bin", counted(5, 30));
  write("a3.bin", counted(4, 40)); // no token after a window
  Result<BatchSource> one = open({"a1.bin"});
  ASSERT_TRUE(succeeded(one));
  EXPECT_EQ(one->samples(), 2);
  EXPECT_EQ(batch(*one, 0, 0), (Numbers{10, 11, 12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(batch(*one, 0, 1), (Numbers{11, 12, 13, 14, 15, 16, 17, 18}));
  EXPECT_EQ(notes, (std::vector<std::string>{"tokens: 12 tokens of U16 (without a header), 2 windows of 4",
                                             "next: the tokens after those of 'tokens'"}));
  for (auto names : {std::vector<std::string>{"a?.bin"}, {"a1.bin", "a2.bin", "a3.bin"}, {"a1.bin", "a[23].bin"}}) {
    Result<BatchSource> all = open(names);
    ASSERT_TRUE(succeeded(all));
    EXPECT_EQ(all->samples(), 3);
    EXPECT_EQ(batch(*all, 1, 0), (Numbers{30, 31, 32, 33, 0, 0, 0, 0}));
    EXPECT_EQ(batch(*all, 1, 1), (Numbers{31, 32, 33, 34, -100, -100, -100, -100}));
  }
}

TEST_F(TokenFilesTest, HeadersAndTypes) {
  write("gpt2.bin", counted(9, 1), {20240520, 1, 9});
  write("llama.bin", std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}, {20240801, 7, 9});
  write("plain32.bin", std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const char *type : {"I64", "I32"}) {
    use(type, 50);
    for (auto [name, given] : {std::pair<std::string, std::optional<DataType>>{"gpt2.bin", {}},
                               {"llama.bin", {}},
                               {"gpt2.bin", DataType::U32}, // the header decides
                               {"plain32.bin", DataType::U32}}) {
      Result<BatchSource> source = open({name}, given);
      ASSERT_TRUE(succeeded(source)) << name;
      EXPECT_EQ(source->samples(), 2) << name;
      EXPECT_EQ(batch(*source, 0, 1), (Numbers{2, 3, 4, 5, 6, 7, 8, 9})) << name;
    }
  }
  std::vector<uint32_t> wide(20, 3);
  write("wide.bin", wide);
  EXPECT_TRUE(failsWith(
      open({"wide.bin"}),
      "seems to have tokens of 32 bits, because every second number of 16 bits is 0: give --token-type uint32"));
  EXPECT_EQ(open({"wide.bin"}, DataType::U32)->samples(), 4);
  EXPECT_EQ(open({"wide.bin"}, DataType::U16)->samples(), 9);
  use("I64", 70000); // more tokens than 16 bits have
  EXPECT_EQ(open({"plain32.bin"})->samples(), 2);
}

TEST_F(TokenFilesTest, RefusesDamagedFiles) {
  write("short.bin", counted(8, 1), {20240520, 1, 9});
  write("long.bin", counted(10, 1), {20240520, 1, 9});
  write("negative.bin", counted(9, 1), {20240520, 1, -1});
  write("version.bin", counted(9, 1), {20240520, 2, 9});
  write("few.bin", counted(4, 1));
  writeBytes(folder / "odd.bin", "123456789");
  writeBytes(folder / "empty.bin", "");
  writeNpy(folder / "array.bin", "<i8", {2, 4}, std::vector<int64_t>(8));
  EXPECT_TRUE(failsWith(open({"short.bin"}), "--data tokens: '" + (folder / "short.bin") +
                                                 "' is truncated: its header promises 9 tokens of U16, which are 1042 "
                                                 "bytes, and it has 1040"));
  EXPECT_TRUE(failsWith(open({"long.bin"}), "long.bin' is damaged: its header promises 9 tokens"));
  EXPECT_TRUE(failsWith(open({"negative.bin"}), "negative.bin' is damaged: its header promises -1 tokens of U16, and"));
  EXPECT_TRUE(failsWith(open({"version.bin"}), "version.bin' has a header of version 2, but 1 is known"));
  EXPECT_TRUE(failsWith(open({"few.bin"}), "has 4 tokens, and a window of 4 and the token after it need 5"));
  EXPECT_TRUE(failsWith(open({"empty.bin"}), "has 0 tokens"));
  EXPECT_TRUE(failsWith(open({"odd.bin"}), "odd.bin' is truncated, or no file of tokens: its 9 bytes are no whole"));
  EXPECT_TRUE(failsWith(open({"array.bin"}), "is no file of tokens; it looks like a NumPy array"));
  EXPECT_TRUE(failsWith(open({"none*.bin"}), "--data tokens: no file matches '" + (folder / "none*.bin") + "'"));
  EXPECT_TRUE(failsWith(open({"fewer.bin"}), "did you mean '" + (folder / "few.bin") + "'?"));
}

TEST_F(TokenFilesTest, NamesTokensThatTheModelDoesNotTake) {
  std::vector<uint16_t> tokens = counted(9, 1);
  tokens[6] = 50;
  write("first.bin", counted(9, 1));
  write("second.bin", tokens);
  Result<BatchSource> source = open({"first.bin", "second.bin"});
  ASSERT_TRUE(succeeded(source));
  int64_t rows = 0;
  EXPECT_TRUE(succeeded(source->load(0, arena, rows)));
  EXPECT_TRUE(failsWith(source->load(1, arena, rows), "second.bin' has the token 50 at position 6, but input 'tokens' "
                                                      "takes 0 to 49"));
  use("I32", INT32_MAX);
  write("large.bin", std::vector<uint32_t>{1, 2, 3, 0x80000001u, 5});
  EXPECT_TRUE(
      failsWith(open({"large.bin"}, DataType::U32)->load(0, arena, rows), "has the token 2147483649 at position 3"));
}

TEST_F(TokenFilesTest, OnlyLabelsOfAsManyNumbersFollow) {
  write("a.bin", counted(12, 10));
  use("I64", 50, R"(, {"name": "mask", "dtype": "F32", "shape": [2, 4], "offset": 128})");
  EXPECT_TRUE(failsWith(open({"a.bin"}), "no file for input 'mask': give --data mask=FILE.npy with F32 [N, 4]"));
  BatchSource::Files files = {{"tokens", folder / "a.bin"}, {"mask", folder / "a.bin"}};
  EXPECT_TRUE(failsWith(BatchSource::open(manifest, files, "--data", {}), "--data mask: expected F32 [N, 4], but '"));
  use("I64", 50, R"(, {"name": "class", "dtype": "I64", "shape": [2], "offset": 128, "label": true})");
  EXPECT_TRUE(failsWith(open({"a.bin"}), "no file for input 'class'"));
  use("I64", 50);
  files = {{"tokens", folder / "a.bin"}, {"next", folder / "a.bin"}}; // the same as without the second
  Result<BatchSource> source = BatchSource::open(manifest, files, "--data", {});
  ASSERT_TRUE(succeeded(source));
  EXPECT_EQ(batch(*source, 0, 1), (Numbers{11, 12, 13, 14, 15, 16, 17, 18}));
}

/// Four ranks: each has one of two windows, and half of its tokens.
TEST(TokenFilesRanksTest, EachRankLoadsItsShard) {
  TemporaryFolder folder;
  std::vector<uint16_t> tokens(17);
  std::iota(tokens.begin(), tokens.end(), 0);
  writeBytes(folder / "a.bin", bytesOf(tokens));
  const char *sharded = R"("dtype": "I64", "shape": [1, 2], "global_shape": [2, 4], "split": [[0], [1]])";
  Result<Manifest> manifest = parseManifest(
      concat(
          R"({"abi": 7, "batch": 2, "mesh": [{"name": "data", "size": 2}, {"name": "sequence", "size": 2}], "inputs": [
    {"name": "tokens", "offset": 0, )",
          sharded, R"(}, {"name": "next", "offset": 64, "label": true, )", sharded,
          R"(}], "state": [], "scalars": [], "results": []})"),
      128);
  ASSERT_TRUE(succeeded(manifest));
  std::vector<int64_t> seen;
  for (int64_t rank = 0; rank < 4; ++rank) {
    manifest->rank = rank;
    Result<BatchSource> source = BatchSource::open(*manifest, {{"tokens", folder / "a.bin"}}, "--data", {});
    ASSERT_TRUE(succeeded(source));
    source->shuffle(5, 1);
    for (int64_t index = 0; index < 2; ++index) {
      alignas(64) char arena[128];
      int64_t rows = 0;
      ASSERT_TRUE(succeeded(source->load(index, arena, rows)));
      auto window = static_cast<int64_t>(Permutation(5, 1, 4).at(static_cast<uint64_t>(2 * index + rank / 2)));
      for (int64_t i = 0; i < 2; ++i) {
        int64_t token = readInteger(arena + 8 * i, DataType::I64);
        EXPECT_EQ(token, 4 * window + rank % 2 * 2 + i);
        EXPECT_EQ(readInteger(arena + 64 + 8 * i, DataType::I64), token + 1);
        seen.push_back(token);
      }
    }
  }
  std::sort(seen.begin(), seen.end());
  std::vector<int64_t> all(16);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
}
} // namespace
