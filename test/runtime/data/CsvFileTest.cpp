#include "runtime/data/CsvFile.h"
#include "runtime/core/Manifest.h"
#include "runtime/data/BatchSource.h"
#include "test/runtime/FakeProgram.h"
#include "test/runtime/Util.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class CsvFileTest : public testing::Test {
protected:
  CsvFileTest() { manifest = *parseManifest(fakeProgram()); }
  void write(const std::string &text) { writeBytes(folder / "a.csv", text); }
  Result<BatchSource> open(const std::string &x = "", const std::string &label = "") {
    std::string path = folder / "a.csv";
    return BatchSource::open(manifest, {{"x", path + x}, {"label", path + label}}, "--data", {});
  }
  float xAt(int64_t i) const { return readNumber(arena + 4 * i, DataType::F32); }
  int64_t labelAt(int64_t i) const { return readInteger(arena + 64 + 8 * i, DataType::I64); }
  Status load(BatchSource &source, int64_t index) {
    int64_t rows = 0;
    return source.load(index, arena, rows);
  }
  Status load(BatchSource &&source, int64_t index) { return load(source, index); }

  TemporaryFolder folder;
  Manifest manifest;
  alignas(64) char arena[fakeArenaBytes] = {};
};

/// Quotes, a byte order mark, Windows' line ends, other delimiters, and no newline at the end.
TEST_F(CsvFileTest, ReadsWhatProgramsWrite) {
  for (std::string text : {"a,b,c,label\n1,2.5,-3e2,7\n4,5,6,8\n7,8,9,9\n.5,0,+1,10\n",
                           "a;b;c;label\n1;2.5;-3e2;7\n4;5;6;8\n7;8;9;9\n.5;0;+1;10",
                           "\xef\xbb\xbf\"a\"\t\"b\"\tc\tlabel\r\n\"1\"\t "
                           "2.5\t-3e2\t7\r\n4\t5\t6\t8\r\n7\t8\t9\t9\r\n.5\t0\t+1\t\"10\"\r\n\r\n",
                           "\"a\",b,\"c\",label\n\"1\",2.5,\"-3e2\",7\n4,5,6,8\n7,8,9,9\n.5,0,1,10\n\n"}) {
    write(text);
    Result<BatchSource> source = open();
    ASSERT_TRUE(succeeded(source)) << text;
    EXPECT_EQ(source->samples(), 4) << text;
    ASSERT_TRUE(succeeded(load(*source, 0))) << text;
    std::vector<float> x;
    for (int64_t i = 0; i < 12; ++i)
      x.push_back(xAt(i));
    EXPECT_EQ(x, (std::vector<float>{1, 2.5, -300, 4, 5, 6, 7, 8, 9, 0.5, 0, 1})) << text;
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(labelAt(i), 7 + i);
  }
}

TEST_F(CsvFileTest, ColumnsHaveNames) {
  write("id,far,near_1,label,near_2,text\n1,2,3,4,5,\"a, \"\"b\"\"\nc\"\n6,7,8,9,10,d\n0,0,0,0,0,\n0,0,0,0,0,\n");
  Result<BatchSource> source = open(":near_*,far");
  ASSERT_TRUE(succeeded(source));
  EXPECT_EQ(source->samples(), 4);
  ASSERT_TRUE(succeeded(load(*source, 0)));
  EXPECT_EQ(xAt(0), 3);
  EXPECT_EQ(xAt(1), 5);
  EXPECT_EQ(xAt(2), 2);
  EXPECT_EQ(xAt(5), 7);
  EXPECT_EQ(labelAt(1), 9);
  EXPECT_EQ(labelAt(0), 4);
  ASSERT_TRUE(succeeded(load(*open(":far,far,far", ":id"), 0)));
  EXPECT_EQ(labelAt(0), 1);
  EXPECT_TRUE(failsWith(open(":near_*"), "--data x: expected F32 [N, 3], a row of 3, but '" + (folder / "a.csv") +
                                             "' gives 2 columns: name them as x="));
  EXPECT_TRUE(failsWith(open(), "gives 5 columns"));
  EXPECT_TRUE(failsWith(open(":far,naer_1,id"), "has no column 'naer_1'; did you mean 'near_1'?"));
}

TEST_F(CsvFileTest, SaysWhichFieldIsWrong) {
  std::string head = "a,b,c,label\n1,2,3,4\n";
  write(head + "1,two,3,4\n1,2,3,4\n1,2,3,4\n");
  EXPECT_TRUE(failsWith(load(*open(), 0), "a.csv' has 'two' in row 1, column 'b', which is no number"));
  write(head + "1,,3,4\n1,2,3,4\n1,2,3,4\n");
  EXPECT_TRUE(failsWith(load(*open(), 0), "has '' in row 1, column 'b', which is no number"));
  write(head + "1,2,3,4.5\n1,2,3,4\n1,2,3,4\n");
  EXPECT_TRUE(
      failsWith(load(*open(), 0), "has '4.5' in row 1, column 'label', which is no whole number of the type I64"));
  write(head + "1,2,3,50\n1,2,3,4\n1,2,3,4\n");
  EXPECT_TRUE(
      failsWith(load(*open(), 0), "has the value 50 in row 1, column 'label', but input 'label' takes -50 to 49"));
  for (const char *large : {"1e39", "-3.5e38", "1e400"}) {
    write(head + "1," + large + ",3,4\n1,2,3,4\n1,2,3,4\n");
    EXPECT_TRUE(failsWith(load(*open(), 0), concat("has '", large, "' in row 1, column 'b', which is too large for F32")));
  }
  write(head + "1e-400,inf,-3.4e38,4\n+1,-Infinity,3,4\n1,2,3,4\n"); // infinity only where it is written
  EXPECT_TRUE(succeeded(load(*open(), 0)));
  EXPECT_EQ(xAt(3), 0);
  EXPECT_TRUE(std::isinf(xAt(4)));
  EXPECT_EQ(xAt(5), -3.4e38F);
  for (const char *sign : {"+-2", "++2", "+"}) {
    write(head + "1," + sign + ",3,4\n1,2,3,4\n1,2,3,4\n");
    EXPECT_TRUE(failsWith(load(*open(), 0), "which is no number"));
  }
  write("a,b,c,label\r1,2,3,4\r1,2,3,4\r");
  EXPECT_TRUE(failsWith(open(), "has lines that end with a carriage return alone"));
  write(head + "1,2,3\n1,2,3,4\n1,2,3,4\n");
  EXPECT_TRUE(failsWith(load(*open(), 0), "has 3 fields in row 1, and 4 columns"));
  write("1,2,3,4\n1,2,3,4\n");
  EXPECT_TRUE(failsWith(open(), "has no header: its first line is to name the columns"));
  for (const char *none : {"", "\n\n", "   \n1,2\n"}) {
    write(none);
    EXPECT_TRUE(failsWith(open(), "has no header"));
  }
  write(std::string("a,b\0,c,label\n1,2,3,4\n", 21));
  EXPECT_TRUE(failsWith(open(), "is no CSV file"));
  write("a,b,c,label\n");
  EXPECT_TRUE(failsWith(open(), "has no rows"));
}

/// Rows are found from every 64th one; the last of 1000 is not complete. Any row, in any order.
TEST_F(CsvFileTest, FindsEveryRow) {
  std::string text = "a,b,c,label\n";
  for (int i = 0; i < 1000; ++i)
    text += concat(i, ",\"", 2 * i, i % 3 ? "\"," : "\"  ,", 3 * i, ",", i % 50, "\n");
  write(text);
  Result<std::shared_ptr<CsvFile>> file = CsvFile::open(folder / "a.csv");
  ASSERT_TRUE(succeeded(file));
  EXPECT_EQ((*file)->rows(), 1000);
  Result<BatchSource> source = open();
  ASSERT_TRUE(succeeded(source));
  source->shuffle(1, 2);
  std::vector<bool> seen(1000);
  for (int64_t batch = 0; batch < 250; ++batch) {
    ASSERT_TRUE(succeeded(load(*source, batch)));
    for (int64_t i = 0; i < 4; ++i) {
      auto row = static_cast<size_t>(xAt(3 * i));
      EXPECT_FALSE(seen[row]);
      seen[row] = true;
      EXPECT_EQ(xAt(3 * i + 2), 3 * row);
      EXPECT_EQ(labelAt(i), row % 50);
    }
  }
}

/// Quotes enclose a field from its first character on alone: elsewhere they are text. The expected fields are those of
/// Python's csv module.
TEST_F(CsvFileTest, QuotesWithinAField) {
  struct Case {
    const char *text;
    std::vector<std::vector<std::string>> rows;
  };
  for (const auto &[text, rows] : std::vector<Case>{
           {"1,2,3,5\" pipe\n4,5,6,\"ok\"\n7,8,9,z\n7,8,9,6\"\n",
            {{"1", "2", "3", "5\" pipe"}, {"4", "5", "6", "ok"}, {"7", "8", "9", "z"}, {"7", "8", "9", "6\""}}},
           {"1,2,3,5\"\n4,5,6,7\"\n7,8,9,z", {{"1", "2", "3", "5\""}, {"4", "5", "6", "7\""}, {"7", "8", "9", "z"}}},
           {"1,\"a,\"\"\nb\",3,\"\"\n", {{"1", "a,\"\nb", "3", ""}}},
           {"\"\"\"\",b\"\"c,\"d\"e\"f,4\n", {{"\"", "b\"\"c", "de\"f", "4"}}}}) {
    write(std::string("a,b,c,label\n") + text);
    Result<std::shared_ptr<CsvFile>> file = CsvFile::open(folder / "a.csv");
    ASSERT_TRUE(succeeded(file)) << text;
    ASSERT_EQ((*file)->rows(), static_cast<int64_t>(rows.size())) << text;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<std::string> fields;
      for (std::string_view field : (*file)->row(static_cast<int64_t>(i)))
        fields.push_back((*file)->textOf(field));
      EXPECT_EQ(fields, rows[i]) << text;
    }
  }
  write("a;\"b\nb\";c\";label\n1;2;3;4\n");
  EXPECT_EQ((*CsvFile::open(folder / "a.csv"))->header(), (std::vector<std::string>{"a", "b\nb", "c\"", "label"}));
  write("a,b,\"c,label\n1,2,3,4\n");
  EXPECT_TRUE(failsWith(open(), "a.csv': the header opens quotes that nothing closes"));
}

TEST_F(CsvFileTest, OpenQuotes) {
  write("a,b,c,label\n1,2,3,4\n5,\"6,7,8\n9,10,11,12\n");
  Result<BatchSource> source = open();
  ASSERT_FALSE(source.ok());
  EXPECT_NE(source.status().message().find("row 2 below the header opens quotes that nothing closes"), std::string::npos)
      << source.status().message();
}

TEST_F(CsvFileTest, ColumnsOfOneName) {
  write("a,b,a,c,label\n1,2,3,4,5\n1,2,3,4,5\n1,2,3,4,5\n1,2,3,4,5\n");
  Result<BatchSource> source = open(":a,b", ":label");
  ASSERT_FALSE(source.ok());
  EXPECT_NE(source.status().message().find("has several columns 'a'"), std::string::npos) << source.status().message();
}

/// Whatever bytes a file has: it is refused, or all of its rows can be read or are refused.
TEST_F(CsvFileTest, SurvivesMutations) {
  std::string text = "a,b,c,label\n1,2,3,4\n\"5\",6,7,8\n9,10,11,12\n13,14,15,16\n";
  std::mt19937 random(7);
  int refused = 0;
  for (int n = 0; n < 2000; ++n) {
    std::string mutated = text;
    for (unsigned k = 0; k < 1 + random() % 4; ++k)
      mutated[random() % mutated.size()] = "\",;\n\r\t 1a\0\xff"[random() % 11];
    write(mutated.substr(0, random() % 8 ? mutated.size() : random() % mutated.size()));
    Result<BatchSource> source = open();
    refused += !source.ok();
    for (int64_t batch = 0; source.ok() && batch < source->allBatches(); ++batch)
      if (!load(*source, batch).ok())
        break;
  }
  EXPECT_GT(refused, 100);
}
} // namespace
