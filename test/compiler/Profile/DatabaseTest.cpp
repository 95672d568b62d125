#include "compiler/Profile/Database.h"

#include "gtest/gtest.h"
#include "test/passes/Planning/Unwrap.h"

#include <filesystem>
#include <fstream>
#include <random>

using namespace divisi::compiler;
using divisi::test::unwrap;

namespace {

class Database : public ::testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("divisi-database-" + std::to_string(std::random_device{}()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string file(const std::string &name, const std::string &text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }
  /// The output of a program's --profile with one call of this time.
  std::string run(double microseconds) {
    return file("run.jsonl", "{\"profile\":1,\"ranks\":2,\"threads\":1,\"us\":100,\"task_us\":90,\"input_bytes\":64}\n"
                             "{\"kind\":\"gemm\",\"name\":\"/fc\",\"key\":\"gemm 1\",\"us\":" +
                                 std::to_string(microseconds) +
                                 "}\n"
                                 "{\"kind\":\"await\",\"name\":\"\",\"key\":\"\",\"us\":7}\n");
  }
  std::filesystem::path folder;
};

TEST_F(Database, KeepsTimesBySettingAcrossFiles) {
  ProfileDatabase database;
  EXPECT_EQ(llvm::toString(database.fold(run(12.5))), "");
  std::string path = (folder / "deep/er/profile.json").string(), error;
  EXPECT_EQ(llvm::toString(database.write(path)), "");
  auto again = unwrap(ProfileDatabase::read(path), error);
  ASSERT_TRUE(again) << error;
  EXPECT_EQ(again->microseconds({2, 1}, "gemm 1"), 12.5);
  EXPECT_EQ(again->microseconds({2, 1}, feedKey(64)), 10); // the step without its task
  EXPECT_FALSE(again->microseconds({1, 2}, "gemm 1"));
  EXPECT_FALSE(again->microseconds({2, 1}, ""));
  EXPECT_EQ(again->size(), 2u);
  EXPECT_EQ(again->settings(), std::vector<RunSetting>({{2, 1}}));
}

TEST_F(Database, TheMedianOfTheLastFiveCounts) {
  ProfileDatabase database;
  for (double time : {1000.0, 1.0, 2.0, 3.0, 4.0, 5.0})
    EXPECT_EQ(llvm::toString(database.fold(run(time))), "");
  EXPECT_EQ(database.microseconds({2, 1}, "gemm 1"), 3); // of 1 to 5
}

TEST_F(Database, NoFileIsAnEmptyDatabase) {
  std::string error;
  auto database = unwrap(ProfileDatabase::read((folder / "none.json").string()), error);
  ASSERT_TRUE(database);
  EXPECT_TRUE(database->empty());
}

TEST_F(Database, RefusesWhatIsNoDatabase) {
  for (const char *text :
       {"", "{", "[]", "{\"divisi_profile\":2,\"microseconds\":{}}", "{\"divisi_profile\":1}",
        "{\"divisi_profile\":1,\"microseconds\":{\"a\":3}}", "{\"divisi_profile\":1,\"microseconds\":{\"a\":[]}}",
        "{\"divisi_profile\":1,\"microseconds\":{\"a\":[-1]}}",
        "{\"divisi_profile\":1,\"microseconds\":{\"a\":[\"b\"]}}"}) {
    std::string error;
    EXPECT_FALSE(unwrap(ProfileDatabase::read(file("p.json", text)), error)) << text;
    EXPECT_NE(error.find("p.json"), std::string::npos) << text;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST_F(Database, RefusesWhatIsNoRunAndStaysAsItWas) {
  for (const char *text : {"", "x\n", "{}\n", "{\"profile\":1,\"ranks\":0,\"threads\":1}\n",
                           "{\"profile\":1,\"ranks\":1,\"threads\":1}\n[]\n",
                           "{\"profile\":1,\"ranks\":1,\"threads\":1}\n{\"key\":\"a\"}\n",
                           "{\"profile\":1,\"ranks\":1,\"threads\":1}\n{\"key\":\"a\",\"us\":1e300}\n"}) {
    ProfileDatabase database;
    EXPECT_NE(llvm::toString(database.fold(file("run.jsonl", text))), "") << text;
    EXPECT_TRUE(database.empty()) << text;
  }
}
} // namespace
