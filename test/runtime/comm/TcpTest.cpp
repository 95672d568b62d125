// Processes as ranks that find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/core/Json.h"
#include "test/runtime/comm/Processes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <thread>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
/// A port that is currently not used.
int freePort() {
  Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in name = {};
  socklen_t length = sizeof name;
  name.sin_family = AF_INET;
  ::bind(socket.get(), reinterpret_cast<sockaddr *>(&name), sizeof name);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&name), &length);
  return ntohs(name.sin_port);
}

class TcpTest : public ProcessTest {
protected:
  pid_t start(int rank, int size, const std::string &arguments) {
    return spawn({RUNTIME_FAKE_RANKS}, arguments,
                 {{"RANK", std::to_string(rank)},
                  {"WORLD_SIZE", std::to_string(size)},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", std::to_string(port)}},
                 concat("output", rank).c_str());
  }
  std::vector<pid_t> startAll(int size, const std::string &arguments) {
    std::vector<pid_t> all;
    for (int rank = 0; rank < size; ++rank)
      all.push_back(start(rank, size, arguments));
    return all;
  }
  std::string output(int rank) { return readFile(folder / concat("output", rank)); }
  int port = freePort();
};

TEST_F(TcpTest, CommunicationIsWhatItIsDefinedToBe) {
  for (int ranks : {2, 4}) {
    port = freePort();
    std::vector<pid_t> all = startAll(ranks, "--conformance");
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(wait(all[rank], 120), 0) << "rank " << rank << " of " << ranks << "\n" << output(rank);
  }
}

TEST_F(TcpTest, ProgramsTrain) {
  std::vector<pid_t> all = startAll(4, data + "--epochs 2 --log @/log --checkpoint @/ck");
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(wait(all[rank], 60), 0) << output(rank);
  EXPECT_EQ(linesOf(readFile(folder / "log")).size(), 20u);
  EXPECT_EQ(readFile(folder / "ck/latest"), "step-20\n");
}

/// The table at the end of a run has the sums of the calls in its profile.
TEST_F(TcpTest, ProfilesAreSummedUp) {
  writeNpy(folder / "x.npy", "<f4", {40, 3}, randomNumbers(120, 1));
  std::vector<pid_t> all = startAll(4, "--stages " + data + "--epochs 5 --profile @/profile");
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(wait(all[rank], 60), 0) << output(rank);
  std::map<std::string, std::pair<int, double>> kinds; // calls and milliseconds
  std::vector<std::string> lines = linesOf(readFile(folder / "profile"));
  for (const std::string &line : lines) {
    Json call = Json::parse(line);
    if (call.value("stage", 0) != 0)
      continue; // the table is that of rank 0
    auto &[count, sum] = kinds[call.value("kind", "step")];
    count += call.contains("kind") ? 1 : 0;
    sum += call["us"].get<double>() * 1e-3;
  }
  EXPECT_GE(kinds.size(), 4u);
  std::istringstream text(output(0).substr(output(0).find("in a step")));
  std::string line;
  std::getline(text, line);
  while (!kinds.empty() && std::getline(text, line)) {
    std::istringstream words(line);
    std::string kind;
    int count = 0;
    double measured = -1;
    words >> kind;
    if (kind != "step")
      words >> count;
    words >> measured;
    ASSERT_TRUE(kinds.count(kind)) << line;
    EXPECT_EQ(count, kinds[kind].first) << line;
    EXPECT_NEAR(measured, kinds[kind].second, 0.0006) << line;
    kinds.erase(kind);
  }
  EXPECT_TRUE(kinds.empty()) << output(0);
}

/// No launcher ends the others: they notice the end of a connection.
TEST_F(TcpTest, ALostRankEndsTheOthers) {
  for (const char *stages : {"", "--stages "}) {
    port = freePort();
    std::filesystem::remove(folder / "log");
    int64_t width = *stages ? 3 : 4;
    writeNpy(folder / "x.npy", "<f4", {40, width}, randomNumbers(40 * width, 1));
    std::vector<pid_t> all = startAll(4, stages + data + "--lr 0 --steps 100000000 --quiet --log @/log");
    ASSERT_TRUE(waitForSteps("log")) << output(0);
    kill(all[1], SIGKILL);
    for (int rank : {0, 2, 3}) {
      EXPECT_EQ(wait(all[rank], 10), 1) << output(rank);
      EXPECT_NE(output(rank).find("the connection to rank "), std::string::npos) << output(rank);
    }
    wait(all[1], 1);
  }
}

/// An error of one rank is reported by all.
TEST_F(TcpTest, AnErrorReachesAllRanks) {
  std::vector<pid_t> all;
  for (int rank = 0; rank < 4; ++rank)
    all.push_back(start(rank, 4, concat("--data x=@/x.npy --data label=@/", rank == 2 ? "missing" : "y", ".npy")));
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(wait(all[rank], 20), 1) << output(rank);
  EXPECT_NE(output(0).find("error: rank 2: "), std::string::npos) << output(0);
  EXPECT_NE(output(0).find("missing.npy"), std::string::npos) << output(0);
}

TEST_F(TcpTest, AnotherNumberOfRanksIsAUsageError) {
  std::vector<pid_t> all = startAll(2, data);
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(wait(all[rank], 20), 2) << output(rank);
  EXPECT_NE(output(0).find("is for 4 devices, but was started as 2 processes"), std::string::npos) << output(0);
}

/// Ranks that would train differently, or wait for each other forever, do not begin.
TEST_F(TcpTest, RanksWithOtherFlagsAreRefused) {
  for (const char *other : {"--lr 0.5", "--quiet", "--save-weights @/w", "--no-shuffle"}) {
    port = freePort();
    std::vector<pid_t> all;
    for (int rank = 0; rank < 4; ++rank)
      all.push_back(start(rank, 4, data + "--epochs 2 " + (rank == 2 ? other : "")));
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(wait(all[rank], 20), 2) << other << "\n" << output(rank);
    EXPECT_NE(output(0).find("all ranks must be started with the same program and flags"), std::string::npos)
        << output(0);
  }
}

TEST_F(TcpTest, HelpWaitsForNobody) {
  pid_t alone = start(0, 4, "--help");
  EXPECT_EQ(wait(alone, 10), 0) << output(0);
  EXPECT_NE(output(0).find("--save-weights"), std::string::npos) << output(0);
}

/// A rank that ends while others are missing may be restarted.
TEST_F(TcpTest, ARankMayComeTwice) {
  std::vector<pid_t> all = {start(0, 4, data), start(1, 4, data), start(2, 4, data)};
  usleep(500000);
  kill(all[1], SIGKILL);
  wait(all[1], 5);
  all[1] = start(1, 4, data);
  all.push_back(start(3, 4, data));
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(wait(all[rank], 60), 0) << output(rank);
}

TEST_F(TcpTest, AProgramForOneDeviceIsNotStartedTwice) {
  for (int rank : {0, 1}) {
    pid_t alone = spawn({RUNTIME_FAKE}, data,
                        {{"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", std::to_string(port)}},
                        concat("output", rank).c_str());
    EXPECT_EQ(wait(alone, 20), 2) << output(rank);
  }
  EXPECT_NE(output(0).find("is for one device, but was started as 2 processes"), std::string::npos) << output(0);
  EXPECT_EQ(output(1), "");
}

TEST_F(TcpTest, ARankThatIsNoNumberIsAUsageError) {
  pid_t bad = start(7, 4, data);
  EXPECT_EQ(wait(bad, 20), 2);
  EXPECT_NE(output(7).find("RANK is not a number below WORLD_SIZE"), std::string::npos) << output(7);
}

const Secret ours{"a secret of this job", true};

TEST(RendezvousTest, RanksThatContradictEachOtherAreRefused) {
  Rendezvous where{0, 2, "127.0.0.1", freePort(), 20}, other = where;
  other.rank = 1;
  other.size = 3;
  Status zero, one;
  std::thread first([&] { zero = connectRanks(where, ours).status(); });
  one = connectRanks(other, ours).status();
  first.join();
  EXPECT_TRUE(failsWith(zero, "rank 1 was started as one of 3 ranks (WORLD_SIZE), but rank 0 as one of 2"));
  EXPECT_TRUE(failsWith(one, "rank 0 has ended, or is silent, before all ranks had come"));
}

TEST(RendezvousTest, GivesUpWhenNobodyComes) {
  Rendezvous where{0, 2, "127.0.0.1", freePort(), 0.3};
  EXPECT_TRUE(failsWith(connectRanks(where, ours).status(), "1 of 2 ranks have not come within 0.3 seconds"));
  where.rank = 1;
  EXPECT_TRUE(failsWith(connectRanks(where, ours).status(), "nobody answers at 127.0.0.1:"));
}

/// A rank with another secret is a stranger, and the others continue.
TEST(RendezvousTest, WhoDoesNotKnowTheSecretTakesNoPart) {
  Rendezvous where{0, 2, "127.0.0.1", freePort(), 20}, wrong = where, right = where;
  wrong.rank = right.rank = 1;
  wrong.patience = 1;
  Status zero;
  std::thread first([&] { zero = connectRanks(where, ours).status(); });
  EXPECT_TRUE(failsWith(connectRanks(wrong, {"the secret of somebody else", true}).status(),
                        "rank 1 does not reach rank 0 at 127.0.0.1:"));
  EXPECT_TRUE(succeeded(connectRanks(right, ours)));
  first.join();
  EXPECT_TRUE(succeeded(zero));
}

TEST(RendezvousTest, NumbersThatDoNotFitAreNone) {
  auto rankOf = [](const char *rank) {
    const std::pair<const char *, const char *> all[] = {
        {"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
    for (auto [name, value] : all)
      setenv(name, value, 1);
    auto where = Rendezvous::fromEnvironment();
    for (auto [name, value] : all)
      unsetenv(name);
    return where;
  };
  auto where = rankOf("1");
  ASSERT_TRUE(where.ok() && *where);
  EXPECT_EQ((*where)->rank, 1);
  for (const char *rank : {"", "-1", "2", "1x", "99999999999"})
    EXPECT_TRUE(failsWith(rankOf(rank), "RANK is not a number below WORLD_SIZE"));
}

/// The default secret of a user on one host is not valid for several hosts.
TEST(RendezvousTest, SeveralHostsNeedASecret) {
  Rendezvous where{0, 2, "127.0.0.1", freePort(), 0.3};
  where.severalHosts = true;
  Secret users{"a secret of this user", false};
  for (int rank : {0, 1}) {
    where.rank = rank;
    EXPECT_TRUE(failsWith(connectRanks(where, users).status(), "set DIVISI_SECRET to the same random text"));
    EXPECT_TRUE(failsWith(connectRanks(where, ours).status(), rank ? "nobody answers" : "have not come"));
  }
  Rendezvous elsewhere{1, 2, "192.0.2.1", 4711, 0.3}; // an unused address
  EXPECT_TRUE(failsWith(connectRanks(elsewhere, users).status(), "MASTER_ADDR is another host: "));
}

/// Every socket listens at the intended address.
TEST(RendezvousTest, ListensWhereItIsMeantTo) {
  Rendezvous where{0, 3, "127.0.0.2", freePort(), 20}, second = where;
  second.rank = 1;
  Status zero, one;
  std::thread a([&] { zero = connectRanks(where, ours).status(); });
  std::thread b([&] { one = connectRanks(second, ours).status(); });
  std::vector<std::string> found;
  for (int i = 0; i < 500 && found.size() < 2; ++i, usleep(10000)) {
    // The sockets of this process, by the inodes of its files.
    std::set<std::string> inodes;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      inodes.insert(std::filesystem::read_symlink(entry.path(), error).string());
    }
    found.clear();
    for (const char *table : {"/proc/net/tcp", "/proc/net/tcp6"})
      for (const std::string &line : linesOf(readFile(table))) {
        std::istringstream words(line);
        std::vector<std::string> fields;
        for (std::string word; words >> word;)
          fields.push_back(word);
        if (fields.size() > 9 && fields[3] == "0A" && inodes.count("socket:[" + fields[9] + "]"))
          found.push_back(fields[1].substr(0, fields[1].find(':')));
      }
  }
  EXPECT_EQ(found.size(), 2u);
  for (const std::string &address : found) // as the kernel writes 127.0.0.x
    EXPECT_TRUE(address == "0200007F" || address == "0100007F") << address;
  Rendezvous third = where;
  third.rank = 2;
  EXPECT_TRUE(succeeded(connectRanks(third, ours)));
  a.join();
  b.join();
  EXPECT_TRUE(succeeded(zero));
  EXPECT_TRUE(succeeded(one));
}

/// Strangers that connect are ignored.
TEST(RendezvousTest, StrangersAreLeft) {
  Rendezvous where{0, 2, "127.0.0.1", freePort(), 20};
  Status zero, one;
  std::thread first([&] { zero = connectRanks(where, ours).status(); });
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(where.port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Socket stranger(::socket(AF_INET, SOCK_STREAM, 0));
  while (::connect(stranger.get(), reinterpret_cast<sockaddr *>(&name), sizeof name) != 0)
    usleep(1000);
  std::string text = "GET / HTTP/1.1\r\n" + std::string(200, 'x');
  EXPECT_EQ(::send(stranger.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  std::vector<Socket> silent;
  for (int i = 0; i < 400; ++i) { // more than are listened to at a time
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::connect(silent.back().get(), reinterpret_cast<sockaddr *>(&name), sizeof name), 0);
  }
  Rendezvous second = where;
  second.rank = 1;
  one = connectRanks(second, ours).status();
  first.join();
  EXPECT_TRUE(succeeded(zero));
  EXPECT_TRUE(succeeded(one));
}
} // namespace
