#include "runtime/checkpoint/AtomicFile.h"
#include "test/runtime/Util.h"

#include <csignal>
#include <sys/resource.h>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
std::vector<std::string> listFolder(const TemporaryFolder &folder) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(folder.path))
    names.push_back(entry.path().filename().string());
  return names;
}

TEST(AtomicFileTest, ReplacesWholeFilesOnly) {
  TemporaryFolder folder;
  std::string path = folder / "a";
  ASSERT_TRUE(succeeded(writeFile(path, "old")));
  {
    AtomicFile file(path);
    file.write("new");
    EXPECT_EQ(readFile(path), "old");
    // Not committed.
  }
  EXPECT_EQ(readFile(path), "old");
  EXPECT_EQ(listFolder(folder), std::vector<std::string>{"a"});
  ASSERT_TRUE(succeeded(writeFile(path, "new")));
  EXPECT_EQ(readFile(path), "new");
  EXPECT_EQ(listFolder(folder), std::vector<std::string>{"a"});
}

TEST(AtomicFileTest, AFailedWriteLeavesTheOldFile) {
  TemporaryFolder folder;
  std::string path = folder / "a";
  ASSERT_TRUE(succeeded(writeFile(path, "old")));
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  auto *handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = {1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Status status = writeFile(path, std::string(5000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(failsWith(status, "cannot write '" + path + "': File too large"));
  EXPECT_EQ(readFile(path), "old");
  EXPECT_EQ(listFolder(folder), std::vector<std::string>{"a"});
}

TEST(AtomicFileTest, PipesStayPipes) {
  TemporaryFolder folder;
  std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
  int reader = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(succeeded(writeFile(path, "text")));
  char text[5] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 4);
  EXPECT_STREQ(text, "text");
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_EQ(listFolder(folder), std::vector<std::string>{"pipe"});
}

TEST(AtomicFileTest, AFullDeviceIsReported) {
  TemporaryFolder folder;
  std::string path = fullDevice(folder);
  if (path.empty())
    GTEST_SKIP() << "needs the right to make a device";
  EXPECT_TRUE(failsWith(writeFile(path, "x"), "cannot write '" + path + "': No space left on device"));
  EXPECT_TRUE(std::filesystem::is_character_file(path));
}

TEST(AtomicFileTest, LinksStayLinks) {
  TemporaryFolder folder;
  writeBytes(folder / "target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  ASSERT_TRUE(succeeded(writeFile(folder / "link", "new")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(readFile(folder / "target"), "new");
}

/// Links with the names that a program would use for unfinished files: nothing is written through them.
TEST(AtomicFileTest, PlantedLinksAreNotFollowed) {
  TemporaryFolder folder, other;
  writeBytes(other / "victim", "precious");
  for (std::string suffix : {std::string(".tmp-"), ".tmp-" + std::to_string(getpid()), std::string(".tmp")})
    std::filesystem::create_symlink(other / "victim", folder / ("a" + suffix));
  ASSERT_TRUE(succeeded(writeFile(folder / "a", "new")));
  EXPECT_EQ(readFile(folder / "a"), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "a"));
  EXPECT_EQ(readFile(other / "victim"), "precious");
  // A name that was guessed is skipped.
  int calls = 0;
  std::string first, name = makeBeside(folder / "b", [&](const char *free) {
    if (++calls > 1)
      return ::open(free, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    first = free;
    std::filesystem::create_symlink(other / "victim", first);
    return ::open(free, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  });
  EXPECT_EQ(calls, 2);
  EXPECT_NE(name, first);
  EXPECT_EQ(readFile(other / "victim"), "precious");
}

TEST(AtomicFileTest, PermissionsAreThoseOfTheUmask) {
  TemporaryFolder folder;
  for (mode_t mask : {022, 077, 002}) {
    mode_t before = umask(mask);
    ASSERT_TRUE(succeeded(writeFile(folder / "a", "x")));
    umask(before);
    struct stat info = {};
    ASSERT_EQ(stat((folder / "a").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
    std::filesystem::remove(folder / "a");
  }
}

TEST(AtomicFileTest, LongNamesFit) {
  TemporaryFolder folder;
  std::string name(255, 'n');
  ASSERT_TRUE(succeeded(writeFile(folder / name, "x")));
  EXPECT_EQ(listFolder(folder), std::vector<std::string>{name});
}

TEST(AtomicFileTest, SaysWhyItCannotWrite) {
  TemporaryFolder folder;
  EXPECT_TRUE(failsWith(writeFile(folder / "none/a", "x"), "none/a': No such file or directory"));
  EXPECT_TRUE(failsWith(writeFile(folder.path.string(), "x"), "Is a directory"));
}
} // namespace
