#include "runtime/checkpoint/CheckedFile.h"
#include "test/runtime/Util.h"

#include <cstring>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class SafetensorsTest : public testing::Test {
protected:
  Result<SafetensorsFile> open(const std::string &bytes) {
    writeBytes(path, bytes);
    return SafetensorsFile::open(path);
  }
  Result<SafetensorsFile> withHeader(const std::string &header, size_t body = 16) {
    uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char *>(&length), 8);
    return open(bytes + header + std::string(body, 'x'));
  }
  std::string sample() {
    EXPECT_TRUE(succeeded(writeSafetensors(path, tensors, {{"format", "pt"}})));
    return readFile(path);
  }
  TemporaryFolder folder;
  std::string path = folder / "a.safetensors";
  std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  std::vector<int64_t> longs = {7, 8};
  std::vector<uint8_t> bytes = {9};
  std::vector<NamedTensor> tensors = {
      {"mask", DataType::U8, {1}, reinterpret_cast<const char *>(bytes.data()), 1},
      {"layer.weight", DataType::F32, {2, 3}, reinterpret_cast<const char *>(floats.data()), 24},
      {"empty", DataType::F32, {0, 3}, nullptr, 0},
      {"step \"two\"\n\u00e9", DataType::I64, {2}, reinterpret_cast<const char *>(longs.data()), 16},
      {"scalar", DataType::F32, {}, reinterpret_cast<const char *>(floats.data()), 4}};
};

TEST_F(SafetensorsTest, WhatIsWrittenIsRead) {
  std::string text = sample();
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  ASSERT_TRUE(succeeded(file));
  EXPECT_EQ(file->contents(), text);
  EXPECT_EQ(file->metadata().at("format"), "pt");
  ASSERT_EQ(file->entries().size(), tensors.size());
  for (const NamedTensor &tensor : tensors) {
    const auto &entry = file->entries().at(tensor.name);
    EXPECT_EQ(entry.dtype, tensor.dtype);
    EXPECT_EQ(entry.shape, tensor.shape);
    ASSERT_EQ(entry.bytes, tensor.bytes);
    EXPECT_TRUE(tensor.bytes == 0 || std::memcmp(entry.data, tensor.data, tensor.bytes) == 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(entry.data) % static_cast<uintptr_t>(widthOf(entry.dtype)), 0u);
  }
}

/// The first bytes of a file are the length of its header: that some lengths look like other kinds of files (0x80 0x02
/// begins a pickle, 0x1f 0x8b a gzip file) does not matter.
TEST_F(SafetensorsTest, HeadersOfEveryLengthAreRead) {
  for (size_t length = 2; length < 1600; ++length)
    EXPECT_TRUE(succeeded(withHeader("{}" + std::string(length - 2, ' '), 0))) << length;
  EXPECT_TRUE(succeeded(withHeader("{}" + std::string(0x8b1f - 2, ' '), 0)));
}

/// This process's memory that is backed by files, in MiB.
int64_t mappedMemory() {
  std::string status = readFile("/proc/self/status");
  return std::stoll(status.substr(status.find("RssFile:") + 8)) / 1024;
}

TEST_F(SafetensorsTest, WhatIsReadIsCheckedAndNotKept) {
  constexpr size_t half = size_t(32) << 20;
  std::string large(half, 'x'), read(half, 0);
  ChunkHasher hasher;
  ASSERT_TRUE(succeeded(writeSafetensors(path,
                                         {{"a", DataType::U8, {half}, large.data(), half},
                                          {"b", DataType::U8, {half}, large.data(), half}},
                                         {}, {}, &hasher)));
  std::string hashes = std::move(hasher).text();
  auto data = [](const CheckedFile &file, const char *name) { return file.file().entries().at(name).data; };
  {
    Result<CheckedFile> file = CheckedFile::open(path, hashes, failure("changed"));
    ASSERT_TRUE(succeeded(file));
    int64_t before = mappedMemory();
    for (const char *name : {"a", "b"}) {
      ASSERT_TRUE(succeeded(file->copy(data(*file, name), half, read.data())));
      EXPECT_EQ(read, large);
    }
    EXPECT_LT(mappedMemory() - before, 16);
  }
  std::string damaged = readFile(path);
  damaged[damaged.size() - 1] = 'y';
  writeBytes(path, damaged);
  Result<CheckedFile> file = CheckedFile::open(path, hashes, failure("changed"));
  ASSERT_TRUE(succeeded(file));
  EXPECT_TRUE(succeeded(file->copy(data(*file, "a"), half, read.data())));
  EXPECT_TRUE(succeeded(file->copy(data(*file, "b"), half / 2, read.data())));
  EXPECT_TRUE(failsWith(file->copy(data(*file, "b") + half - 4, 4, read.data()), "changed"));
  Result<CheckedFile> unchecked = CheckedFile::open(path, std::nullopt, {});
  EXPECT_TRUE(succeeded(unchecked->copy(data(*unchecked, "b"), half, read.data())));
  damaged[20] ^= 1; // of the header
  writeBytes(path, damaged);
  EXPECT_FALSE(CheckedFile::open(path, hashes, failure("changed")).ok());
}

TEST_F(SafetensorsTest, SaysWhatIsWrong) {
  auto tensor = [](const char *name, const char *dtype, const char *shape, const char *offsets) {
    return concat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape, ",\"data_offsets\":", offsets, "}");
  };
  EXPECT_TRUE(succeeded(withHeader("{" + tensor("a", "F32", "[4]", "[0,16]") + "}")));
  EXPECT_TRUE(succeeded(withHeader("{}", 0)));
  EXPECT_TRUE(failsWith(open(""), "not a safetensors file"));
  EXPECT_TRUE(failsWith(open(std::string(8, '\xff')), "announces a header"));
  EXPECT_TRUE(failsWith(open(std::string("\x20\0\0\0\0\0\0\0{}", 10)), "announces a header"));
  EXPECT_TRUE(failsWith(withHeader("{\"a\":"), "not valid JSON"));
  EXPECT_TRUE(failsWith(withHeader("[]"), "not an object"));
  EXPECT_TRUE(failsWith(withHeader("{\"a\":3}"), "tensor 'a'"));
  EXPECT_TRUE(failsWith(withHeader("{\"__metadata__\":3}"), "metadata"));
  EXPECT_TRUE(failsWith(withHeader("{" + tensor("a", "F8", "[4]", "[0,16]") + "}"), "element type 'F8'"));
  EXPECT_TRUE(failsWith(withHeader("{" + tensor("a", "F32", "[4]", "[0,17]") + "}"), "beyond the end"));
  EXPECT_TRUE(failsWith(withHeader("{" + tensor("a", "F32", "[4]", "[0,12]") + "}"), "another size"));
  EXPECT_TRUE(failsWith(withHeader("{" + tensor("a", "F32", "[4]", "[16,0]") + "}"), "not a range"));
  EXPECT_TRUE(failsWith(withHeader("{" + tensor("a", "F32", "[4]", "[0]") + "}"), "not a range"));
  EXPECT_TRUE(failsWith(withHeader("{" + tensor("a", "F32", "[-4]", "[0,16]") + "}"), "list of sizes"));
  EXPECT_TRUE(failsWith(withHeader("{" + tensor("a", "F32", "[4]", "[-16,0]") + "}"), "list of sizes"));
  EXPECT_TRUE(
      failsWith(withHeader("{" + tensor("a", "F32", "[4294967296,4294967296]", "[0,16]") + "}"), "another size"));
  EXPECT_TRUE(failsWith(withHeader("{" + tensor("a", "F32", "[3]", "[0,12]") + "}"), "4 bytes belong to no tensor"));
  EXPECT_TRUE(
      failsWith(withHeader("{" + tensor("a", "F32", "[2]", "[0,8]") + "," + tensor("b", "F32", "[3]", "[4,16]") + "}"),
                "overlap"));
  EXPECT_TRUE(failsWith(
      withHeader("{" + tensor("a", "F32", "[1]", "[0,4]") + "," + tensor("b", "F32", "[2]", "[8,16]") + "}"), "gaps"));
  // Deep nesting must not exhaust the stack.
  EXPECT_TRUE(
      failsWith(withHeader("{\"a\":" + std::string(200000, '[') + std::string(200000, ']') + "}"), "tensor 'a'"));
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  std::string text = sample();
  for (size_t length = 0; length < text.size(); ++length) {
    Result<SafetensorsFile> file = open(text.substr(0, length));
    ASSERT_FALSE(file.ok()) << length;
    EXPECT_NE(file.status().message().find(path), std::string::npos);
  }
}

TEST_F(SafetensorsTest, SurvivesMutations) {
  std::string text = sample();
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string mutated = text;
    for (unsigned n = 0; n < 1 + random() % 3; ++n)
      mutated[random() % mutated.size()] ^= static_cast<char>(1 << random() % 8);
    Result<SafetensorsFile> file = open(mutated);
    refused += !file.ok();
    if (file.ok())
      for (const auto &[name, entry] : file->entries()) {
        ASSERT_EQ(static_cast<int64_t>(entry.bytes), *byteCount(entry.shape, widthOf(entry.dtype)));
        ASSERT_GE(entry.data, file->contents().data());
        ASSERT_LE(entry.data + entry.bytes, file->contents().data() + file->contents().size());
      }
  }
  EXPECT_GT(refused, 1000);
}
} // namespace
