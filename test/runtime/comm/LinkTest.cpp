#include "runtime/comm/tcp/Link.h"
#include "runtime/comm/tcp/TcpTransport.h"
#include "test/runtime/Util.h"

#include <fcntl.h>
#include <numeric>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace divisi::runtime;
using divisi::test::failsWith;
using divisi::test::succeeded;
using divisi::test::TemporaryFolder;

namespace {
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Clock::time_point soon() { return after(10); }

/// Both ends of a connection through the loopback.
std::pair<Socket, Socket> connection() {
  Socket listener = listenAnywhere();
  Socket first = connectTo(Address::ofThisEnd(listener), soon());
  EXPECT_TRUE(isReadable(listener, soon()));
  return {std::move(first), Socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

/// Links between ranks that are threads: [rank][other].
std::vector<std::vector<Link>> linksOf(std::vector<std::vector<Socket>> sockets) {
  std::vector<std::vector<Link>> links(sockets.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < sockets.size(); ++rank)
    threads.emplace_back([&, rank] {
      Result<std::vector<Link>> connected = connectLinks(std::move(sockets[rank]), static_cast<int>(rank), soon());
      ASSERT_TRUE(succeeded(connected));
      links[rank] = std::move(*connected);
    });
  for (std::thread &thread : threads)
    thread.join();
  return links;
}

std::vector<std::vector<Socket>> socketsOf(size_t ranks) {
  std::vector<std::vector<Socket>> sockets(ranks);
  for (std::vector<Socket> &mine : sockets)
    mine.resize(ranks);
  for (size_t first = 0; first < ranks; ++first)
    for (size_t second = first + 1; second < ranks; ++second)
      std::tie(sockets[first][second], sockets[second][first]) = connection();
  return sockets;
}

/// Sends all bytes of a text, or receives as many.
void sendAll(Link &link, std::string_view text) {
  while (!text.empty()) {
    ssize_t done = link.send(text.data(), text.size(), false);
    ASSERT_GE(done, 0);
    text.remove_prefix(static_cast<size_t>(done));
  }
}

std::string receive(Link &link, size_t bytes) {
  std::string text(bytes, ' ');
  for (size_t at = 0; at < bytes;) {
    ssize_t done = link.receive(text.data() + at, bytes - at);
    if (done < 0)
      return "ended";
    at += static_cast<size_t>(done);
  }
  return text;
}

TEST(RingTest, CarriesBytesInTheirOrderBetweenThreads) {
  auto memory = std::make_unique<Ring::Memory>();
  Ring out(*memory), in(*memory);
  std::vector<char> sent(5 * Ring::capacity + 12345), found(sent.size());
  std::mt19937 draw(1);
  for (char &byte : sent)
    byte = static_cast<char>(draw());
  std::thread writer([&] {
    std::mt19937 draw(2);
    for (size_t at = 0; at < sent.size();)
      at += out.write(sent.data() + at, std::min<size_t>(sent.size() - at, draw() % (2 * Ring::capacity)));
  });
  for (size_t at = 0; at < found.size();)
    at += in.read(found.data() + at, std::min<size_t>(found.size() - at, draw() % 100000));
  writer.join();
  EXPECT_TRUE(sent == found);
  EXPECT_EQ(in.read(found.data(), 1), 0u);
}

TEST(RingTest, TakesOnlyWhatThereIsRoomFor) {
  auto memory = std::make_unique<Ring::Memory>();
  Ring ring(*memory);
  std::vector<char> bytes(2 * Ring::capacity, 'x');
  EXPECT_EQ(ring.write(bytes.data(), bytes.size()), Ring::capacity);
  EXPECT_EQ(ring.write(bytes.data(), 1), 0u);
  EXPECT_EQ(ring.read(bytes.data(), 10), 10u);
  EXPECT_EQ(ring.write(bytes.data(), bytes.size()), 10u);
  // A number that the other side cannot have written: nothing outside of the ring is touched.
  memory->taken = memory->written + 5;
  EXPECT_EQ(ring.write(bytes.data(), bytes.size()), 0u);
  EXPECT_LE(ring.read(bytes.data(), bytes.size()), Ring::capacity);
}

TEST(RingPairTest, OpensNothingElse) {
  std::unique_ptr<RingPair> pair = RingPair::make();
  ASSERT_TRUE(pair);
  const RingOffer offer = pair->offer();
  EXPECT_TRUE(RingPair::open(offer));
  RingOffer wrong = offer;
  wrong.token[3] ^= 1;
  EXPECT_FALSE(RingPair::open(wrong)) << "another token";
  wrong = offer;
  wrong.process = INT32_MAX;
  EXPECT_FALSE(RingPair::open(wrong)) << "no process";
  TemporaryFolder folder;
  wrong = offer;
  wrong.descriptor = ::open((folder / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const off_t bytes = ::lseek(offer.descriptor, 0, SEEK_END);
  ASSERT_EQ(::ftruncate(wrong.descriptor, bytes), 0);
  EXPECT_FALSE(RingPair::open(wrong)) << "a file";
  ::close(wrong.descriptor);
  for (bool isSealed : {false, true}) {
    wrong.descriptor = ::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(::ftruncate(wrong.descriptor, isSealed ? bytes - 1 : bytes), 0);
    if (isSealed) {
      ASSERT_EQ(::fcntl(wrong.descriptor, F_ADD_SEALS, seals), 0);
    }
    EXPECT_FALSE(RingPair::open(wrong)) << (isSealed ? "another size" : "memory that may become smaller");
    ::close(wrong.descriptor);
  }
  pair->close();
  EXPECT_FALSE(RingPair::open(offer)) << "a closed descriptor";
}

TEST(LinkTest, RanksOfAHostShareMemory) {
  std::vector<std::vector<Link>> links = linksOf(socketsOf(4));
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t other = 0; other < 4; ++other)
      if (rank != other) {
        EXPECT_TRUE(links[rank][other].sharesMemory());
        sendAll(links[rank][other], concat("from ", rank, " to ", other));
      }
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t other = 0; other < 4; ++other)
      if (rank != other) {
        EXPECT_EQ(receive(links[rank][other], 11), concat("from ", other, " to ", rank));
      }
}

TEST(LinkTest, OthersUseTheirSocket) {
  int ends[2]; // without addresses, which may be those of two hosts
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::vector<std::vector<Socket>> sockets(2);
  for (std::vector<Socket> &mine : sockets)
    mine.resize(2);
  sockets[0][1] = Socket(ends[0]);
  sockets[1][0] = Socket(ends[1]);
  std::vector<std::vector<Link>> links = linksOf(std::move(sockets));
  EXPECT_FALSE(links[0][1].sharesMemory() || links[1][0].sharesMemory());
  sendAll(links[0][1], "hello");
  EXPECT_EQ(receive(links[1][0], 5), "hello");
  links[0].clear();
  EXPECT_EQ(receive(links[1][0], 1), "ended");
}

TEST(LinkTest, NoneSharesMemoryIfThisIsForbidden) {
  ASSERT_EQ(::setenv("DIVISI_SHARED_MEMORY", "0", 1), 0);
  std::vector<std::vector<Link>> links = linksOf(socketsOf(2));
  ::unsetenv("DIVISI_SHARED_MEMORY");
  EXPECT_FALSE(links[0][1].sharesMemory() || links[1][0].sharesMemory());
  sendAll(links[1][0], "hello");
  EXPECT_EQ(receive(links[0][1], 5), "hello");
}

TEST(LinkTest, WhatWasSentBeforeTheEndIsReceived) {
  std::vector<std::vector<Link>> links = linksOf(socketsOf(2));
  sendAll(links[0][1], "last words");
  links[0].clear();
  EXPECT_EQ(receive(links[1][0], 10), "last words");
  char byte;
  EXPECT_EQ(links[1][0].receive(&byte, 1), -1);
}

TEST(LinkTest, MessagesToARankThatHasEndedFail) {
  for (size_t bytes : {size_t(100), 4 * Ring::capacity}) {
    std::vector<std::vector<Link>> links = linksOf(socketsOf(2));
    Rendezvous where;
    where.size = 2;
    Connections connections;
    connections.hosts = {0, 0};
    TcpTransport transport(where, std::move(connections), std::move(links[0]), Secret());
    links[1].clear();
    EXPECT_FALSE(transport.lookAround().ok());
    std::vector<char> data(bytes);
    transport.send(1, 1, data.data(), data.size());
    EXPECT_TRUE(failsWith(transport.wait(), "the connection to rank 1 has ended"));
  }
}

TEST(LinkTest, ARankThatEndsWhileLinksAreMadeIsNamed) {
  auto [mine, other] = connection();
  std::vector<Socket> sockets(2);
  sockets[1] = std::move(mine);
  other = Socket();
  EXPECT_TRUE(failsWith(connectLinks(std::move(sockets), 0, soon()), "rank 1 has ended, or is silent, before training began"));
}
} // namespace
