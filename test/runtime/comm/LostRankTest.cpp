#include "runtime/comm/Communicator.h"
#include "runtime/comm/tcp/TcpTransport.h"

#include <cstring>
#include <gtest/gtest.h>
#include <sys/socket.h>

using namespace divisi::runtime;

namespace {
/// Rank 0 of two, of which the other one may be lost; what that one sends is written by the test.
struct FirstRank {
  FirstRank() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    other = Socket(ends[1]);
    Connections connections;
    connections.hosts = {0, 0};
    Rendezvous where;
    where.size = 2;
    std::vector<Link> links(2);
    links[1] = Link(Socket(ends[0]));
    transport.emplace(where, std::move(connections), std::move(links), Secret());
    communicator.emplace(*transport, Mesh({{"data", 2}}));
    communicator->outlive({false, true});
  }

  void say(const void *data, uint64_t bytes) {
    const struct {
      uint64_t bytes;
      int64_t tag;
    } header{bytes, 0};
    EXPECT_EQ(::send(other.get(), &header, sizeof header, 0), ssize_t(sizeof header));
    EXPECT_EQ(::send(other.get(), data, bytes, 0), ssize_t(bytes));
  }

  Socket other;
  std::optional<TcpTransport> transport;
  std::optional<Communicator> communicator;
};

TEST(LostRankTest, TextsThatWereGatheredAnswerNothingElse) {
  FirstRank first;
  const uint64_t length = 96;
  const std::string text(length, 'x');
  first.say(&length, sizeof length);
  first.say(text.data(), length);
  first.other = Socket();
  for (int round = 0; round < 2; ++round) {
    Result<std::vector<std::string>> all = first.communicator->gather("mine");
    ASSERT_TRUE(all.ok()) << all.status().message();
    EXPECT_EQ(*all, (std::vector<std::string>{"mine", ""}));
  }
  EXPECT_TRUE(first.communicator->agree({}, 7).ok());
}

TEST(LostRankTest, VotesAnswerNothingElse) {
  FirstRank first;
  const int64_t vote[2] = {0, 0};
  const uint64_t length = sizeof vote;
  first.say(&length, sizeof length);
  first.say(vote, sizeof vote); // comes with its length; then the rank is lost
  first.other = Socket();
  for (int round = 0; round < 3; ++round) {
    Result<int64_t> agreed = first.communicator->agree({}, 7);
    ASSERT_TRUE(agreed.ok()) << agreed.status().message(); // in the second round: rank 0 expected 8 bytes of rank 1, which sent 16
    EXPECT_EQ(*agreed, 7);
    EXPECT_FALSE(first.communicator->tookPart(1));
  }
}
} // namespace
