#include "runtime/data/NpyFile.h"
#include "test/runtime/Util.h"

#include <cstring>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class NpyFileTest : public testing::Test {
protected:
  Result<NpyFile> open(const std::string &bytes) {
    writeBytes(path, bytes);
    return NpyFile::open(path);
  }
  /// A file of four floats with this header.
  Result<NpyFile> withHeader(std::string header, char version = 1) {
    header += '\n';
    std::string bytes("\x93NUMPY", 6);
    bytes += version;
    bytes += '\0';
    for (size_t i = 0; i < (version == 1 ? 2u : 4u); ++i)
      bytes += static_cast<char>(header.size() >> (8 * i));
    return open(bytes + header + std::string(16, 'x'));
  }
  TemporaryFolder folder;
  std::string path = folder / "a.npy";
};

TEST_F(NpyFileTest, ReadsArrays) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  Result<NpyFile> file = open(npyBytes("<f4", {2, 3}, bytesOf(values)));
  ASSERT_TRUE(succeeded(file));
  EXPECT_EQ(file->dtype(), DataType::F32);
  EXPECT_EQ(file->shape(), (Shape{2, 3}));
  ASSERT_EQ(file->bytes(), 24u);
  EXPECT_EQ(std::memcmp(file->data(), values.data(), 24), 0);
}

TEST_F(NpyFileTest, ReadsEveryTypeAndVersion) {
  struct Case {
    const char *descr;
    DataType type;
    int64_t count;
  };
  for (Case c : {Case{"<f8", DataType::F64, 2},
                 {"<f4", DataType::F32, 4},
                 {"<f2", DataType::F16, 8},
                 {"<i8", DataType::I64, 2},
                 {"<i4", DataType::I32, 4},
                 {"<i2", DataType::I16, 8},
                 {"|i1", DataType::I8, 16},
                 {"|u1", DataType::U8, 16},
                 {"<u2", DataType::U16, 8},
                 {"<u4", DataType::U32, 4},
                 {"<u8", DataType::U64, 2},
                 {"|b1", DataType::BOOL, 16}})
    for (char version : {1, 2, 3}) {
      Result<NpyFile> file = withHeader(
          concat("{'descr': '", c.descr, "', 'fortran_order': False, 'shape': (", c.count, ",), }"), version);
      ASSERT_TRUE(succeeded(file)) << c.descr;
      EXPECT_EQ(file->dtype(), c.type);
      EXPECT_EQ(file->shape(), Shape{c.count});
    }
}

TEST_F(NpyFileTest, ReadsTheHeadersThatItWrites) {
  for (DataType type : {DataType::F16, DataType::F32, DataType::F64, DataType::I64, DataType::U8, DataType::BOOL})
    for (const Shape &shape : {Shape{}, Shape{3}, Shape{5, 2}, Shape(20, 1)}) {
      std::optional<std::string> header = npyHeader(type, shape);
      ASSERT_TRUE(header);
      EXPECT_EQ(header->size() % 64, 0u);
      Result<NpyFile> file = open(*header + std::string(static_cast<size_t>(*byteCount(shape, widthOf(type))), 'x'));
      ASSERT_TRUE(succeeded(file));
      EXPECT_EQ(file->dtype(), type);
      EXPECT_EQ(file->shape(), shape);
    }
  EXPECT_FALSE(npyHeader(DataType::BF16, {2}));
  EXPECT_FALSE(npyHeader(DataType::F32, Shape(30000, 1)));
}

TEST_F(NpyFileTest, ReadsOtherSpellings) {
  EXPECT_TRUE(succeeded(withHeader("{\"shape\":(2,2),\"fortran_order\":False,\"descr\":\"<f4\"}")));
  EXPECT_TRUE(succeeded(withHeader("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }   ")));
  // A vector has only one order.
  EXPECT_TRUE(succeeded(withHeader("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 4)}")));
  Result<NpyFile> scalar = open(npyBytes("<f4", {}, "abcd"));
  ASSERT_TRUE(succeeded(scalar));
  EXPECT_EQ(scalar->shape(), Shape{});
}

TEST_F(NpyFileTest, SaysWhatIsWrong) {
  auto with = [](const char *descr, const char *order, const char *shape) {
    return concat("{'descr': '", descr, "', 'fortran_order': ", order, ", 'shape': ", shape, "}");
  };
  EXPECT_TRUE(failsWith(withHeader(with("<f4", "True", "(2, 2)")), "Fortran order"));
  EXPECT_TRUE(failsWith(withHeader(with(">f4", "False", "(4,)")), "big-endian"));
  EXPECT_TRUE(failsWith(withHeader(with("<c8", "False", "(2,)")), "elements of type '<c8'"));
  EXPECT_TRUE(failsWith(withHeader(with("|O", "False", "(2,)")), "elements of type '|O'"));
  EXPECT_TRUE(
      failsWith(withHeader("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,)}"), "('a', '<f4')"));
  EXPECT_TRUE(failsWith(withHeader(with("<f4", "False", "(5,)")), "needs 20 bytes, and it has 16"));
  EXPECT_TRUE(failsWith(withHeader(with("<f4", "False", "(3,)")), "damaged: [3] of F32 needs 12"));
  EXPECT_TRUE(failsWith(withHeader(with("<f4", "False", "(4294967296, 4294967296)")), "impossible shape"));
  EXPECT_TRUE(failsWith(withHeader(with("<f4", "False", "(99999999999999999999,)")), "damaged header"));
  EXPECT_TRUE(failsWith(withHeader(with("<f4", "False", "(-4,)")), "damaged header"));
  EXPECT_TRUE(failsWith(withHeader("{'descr': '<f4', 'shape': (4,)}"), "damaged header"));
  EXPECT_TRUE(failsWith(withHeader("{'descr': '<f4', 'descr': '<f4', 'shape': (4,)}"), "damaged header"));
  EXPECT_TRUE(failsWith(withHeader("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)} x"), "damaged header"));
  EXPECT_TRUE(failsWith(withHeader(with("<f4", "False", "(4,)"), 4), "version 4"));
  EXPECT_TRUE(failsWith(open("hello, world"), "not a .npy file"));
  EXPECT_TRUE(failsWith(open("PK\3\4....x.npy"), ".npz"));
  EXPECT_TRUE(failsWith(open(""), "not a .npy file"));
  EXPECT_TRUE(failsWith(NpyFile::open(folder / "none.npy"), "none.npy': No such file"));
  EXPECT_TRUE(failsWith(NpyFile::open(folder.path.string()), "not a regular file"));
  for (const auto &result : {open("hello, world")})
    EXPECT_NE(result.status().message().find(path), std::string::npos);
}

TEST_F(NpyFileTest, EveryTruncationIsRefused) {
  std::string bytes = npyBytes("<f4", {2, 3}, std::string(24, 'x'));
  for (size_t length = 0; length < bytes.size(); ++length) {
    Result<NpyFile> file = open(bytes.substr(0, length));
    ASSERT_FALSE(file.ok()) << length;
    EXPECT_NE(file.status().message().find(path), std::string::npos);
  }
}

TEST_F(NpyFileTest, SurvivesMutations) {
  std::string bytes = npyBytes("<f4", {2, 3}, std::string(24, 'x'));
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string mutated = bytes;
    for (unsigned n = 0; n < 1 + random() % 4; ++n)
      mutated[random() % 100] ^= static_cast<char>(1 << random() % 8);
    Result<NpyFile> file = open(mutated);
    refused += !file.ok();
    if (file.ok()) {
      // All announced data can be read.
      ASSERT_EQ(static_cast<int64_t>(file->bytes()), *byteCount(file->shape(), widthOf(file->dtype())));
      volatile char last = file->bytes() ? file->data()[file->bytes() - 1] : '\0';
      (void)last;
    }
  }
  EXPECT_GT(refused, 1000);
}
} // namespace
