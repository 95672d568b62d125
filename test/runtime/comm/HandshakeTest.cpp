// Which processes are accepted as ranks.
#include "runtime/comm/tcp/Handshake.h"
#include "test/runtime/Util.h"

#include <thread>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
const Secret ours{"a secret of this job", true}, other{"a secret of another job", true};

class HandshakeTest : public testing::Test {
protected:
  HandshakeTest() {
    hello.rank = 2;
    hello.size = 3;
    hello.port = 4711;
    renew();
  }
  /// Another connection to rank 1, which waits.
  void renew() {
    int ends[2] = {};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    coming = Socket(ends[0]);
    visitor.emplace(Socket(ends[1]), ours, 1);
  }
  void say(const void *data, size_t bytes) {
    ASSERT_EQ(::send(coming.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  Challenge hear() {
    Challenge challenge;
    EXPECT_EQ(::recv(coming.get(), &challenge, sizeof challenge, MSG_DONTWAIT), static_cast<ssize_t>(sizeof challenge));
    return challenge;
  }
  /// The state of the visitor after all messages.
  Visitor::State listen() {
    for (int i = 0; i < 500 && visitor->state() == Visitor::State::Speaks; ++i)
      visitor->listen();
    return visitor->state();
  }
  /// Connects like another process.
  Socket come(const Secret &secret, int rank = 1) {
    Socket made;
    std::thread thread([&] {
      made = greet(std::move(coming), rank, hello, secret, Clock::now() + std::chrono::seconds(5), why);
      over = true;
    });
    while (!over || visitor->state() == Visitor::State::Speaks) {
      if (visitor->listen() == Visitor::State::Stranger)
        break;
      usleep(100);
    }
    thread.join();
    return made;
  }

  Hello hello;
  Socket coming;
  std::optional<Visitor> visitor;
  std::string why;
  std::atomic<bool> over = false;
};

TEST_F(HandshakeTest, RanksOfOneJobKnowEachOther) {
  EXPECT_TRUE(come(ours)) << why;
  EXPECT_EQ(visitor->state(), Visitor::State::Known) << visitor->why();
  EXPECT_EQ(visitor->hello().rank, 2);
  EXPECT_EQ(visitor->hello().size, 3);
  EXPECT_EQ(visitor->hello().port, 4711);
}

TEST_F(HandshakeTest, WhoComesNoticesThatTheOtherSideIsAStranger) {
  EXPECT_FALSE(come(other));
  EXPECT_EQ(why, "who answers there does not know the secret of this job");
  EXPECT_EQ(visitor->state(), Visitor::State::Stranger); // and was given no proof to use elsewhere
  renew();
  over = false;
  EXPECT_FALSE(come({other.text, false}));
  EXPECT_NE(why.find("set DIVISI_SECRET to the same random text"), std::string::npos) << why;
}

TEST_F(HandshakeTest, AnotherRankThanTheOneMeantIsLeft) {
  EXPECT_FALSE(come(ours, 7));
  EXPECT_EQ(why, "rank 1 answers there");
}

TEST_F(HandshakeTest, AWrongProofIsRefused) {
  say(&hello, sizeof hello);
  listen();
  Digest proof = proofOf(other, "coming", hello, hear());
  say(proof.data(), proof.size());
  EXPECT_EQ(listen(), Visitor::State::Stranger);
  EXPECT_EQ(visitor->why(), "does not know the secret of this job");
}

/// A recorded proof of either side is not valid again.
TEST_F(HandshakeTest, AProofThatWasOverheardIsRefused) {
  say(&hello, sizeof hello);
  listen();
  Challenge first = hear();
  Digest proof = proofOf(ours, "coming", hello, first);
  say(proof.data(), proof.size());
  ASSERT_EQ(listen(), Visitor::State::Known) << visitor->why();
  for (const Digest &overheard : {proof, first.proof}) {
    renew();
    say(&hello, sizeof hello);
    listen();
    hear();
    say(overheard.data(), overheard.size());
    EXPECT_EQ(listen(), Visitor::State::Stranger);
  }
  renew();
  say(&hello, sizeof hello);
  listen();
  Digest reflected = hear().proof;
  say(reflected.data(), reflected.size());
  EXPECT_EQ(listen(), Visitor::State::Stranger);
}

/// The proof covers the whole hello.
TEST_F(HandshakeTest, ClaimsAreProved) {
  say(&hello, sizeof hello);
  listen();
  Hello claimed = hello;
  claimed.rank = 1;
  Digest proof = proofOf(ours, "coming", claimed, hear());
  say(proof.data(), proof.size());
  EXPECT_EQ(listen(), Visitor::State::Stranger);
}

TEST_F(HandshakeTest, OtherLanguagesAreLeftAtTheFirstBytes) {
  say("GET", 3);
  EXPECT_EQ(listen(), Visitor::State::Stranger);
  EXPECT_EQ(visitor->why(), "does not speak as a rank does");
}

TEST_F(HandshakeTest, WhoGoesAwayIsLeft) {
  coming = Socket();
  EXPECT_EQ(listen(), Visitor::State::Stranger);
  EXPECT_EQ(visitor->why(), ""); // a port scan is not reported
  renew();
  say(&hello, 20);
  listen();
  coming = Socket();
  EXPECT_EQ(listen(), Visitor::State::Stranger);
  EXPECT_EQ(visitor->why(), "went away before it had said who it is");
}

class SecretTest : public testing::Test {
protected:
  void SetUp() override { TearDown(); }
  void TearDown() override {
    unsetenv("DIVISI_SECRET");
    unsetenv("DIVISI_SECRET_FILE");
  }
  TemporaryFolder folder;
};

TEST_F(SecretTest, IsThatOfTheEnvironment) {
  setenv("DIVISI_SECRET", "0123456789abcdef", 1);
  Result<Secret> secret = Secret::ofJob();
  ASSERT_TRUE(succeeded(secret));
  EXPECT_EQ(secret->text, "0123456789abcdef");
  EXPECT_TRUE(secret->given);
}

TEST_F(SecretTest, IsTheFirstLineOfAFile) {
  writeBytes(folder / "secret", "0123456789abcdef\nmore");
  setenv("DIVISI_SECRET_FILE", (folder / "secret").c_str(), 1);
  Result<Secret> secret = Secret::ofJob();
  ASSERT_TRUE(succeeded(secret));
  EXPECT_EQ(secret->text, "0123456789abcdef");
  EXPECT_TRUE(secret->given);
}

TEST_F(SecretTest, IsOtherwiseThatOfTheUser) {
  Result<Secret> secret = Secret::ofJob(), again = Secret::ofJob();
  ASSERT_TRUE(succeeded(secret));
  EXPECT_GE(secret->text.size(), 32u);
  EXPECT_EQ(secret->text, again->text);
  EXPECT_FALSE(secret->given);
  std::string path = concat("/tmp/divisi-", geteuid());
  struct stat info = {};
  ASSERT_EQ(lstat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, S_IFDIR | 0700u);
  ASSERT_EQ(lstat((path + "/secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, S_IFREG | 0600u);
}

TEST_F(SecretTest, OneThatIsNoneIsAnError) {
  setenv("DIVISI_SECRET", "short", 1);
  EXPECT_TRUE(failsWith(Secret::ofJob(), "DIVISI_SECRET: a secret has 16 to 4096 characters"));
  setenv("DIVISI_SECRET_FILE", "/dev/null", 1);
  EXPECT_TRUE(failsWith(Secret::ofJob(), "DIVISI_SECRET and DIVISI_SECRET_FILE are both set"));
  unsetenv("DIVISI_SECRET");
  EXPECT_TRUE(failsWith(Secret::ofJob(), "DIVISI_SECRET_FILE: '/dev/null': a secret has"));
  setenv("DIVISI_SECRET_FILE", (folder / "none").c_str(), 1);
  EXPECT_TRUE(failsWith(Secret::ofJob(), "DIVISI_SECRET_FILE: cannot open"));
}

TEST_F(SecretTest, RandomDigitsAreOthersEachTime) {
  Result<std::string> a = randomDigits(64), b = randomDigits(64);
  ASSERT_TRUE(succeeded(a));
  EXPECT_EQ(a->size(), 64u);
  EXPECT_EQ(a->find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(*a, *b);
}
} // namespace
