// What ranks of two stages exchange of a message, against the elements that each rank has by the definition of a
// sharding.
#include "runtime/comm/Pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>

using namespace divisi::runtime;

namespace {
using Axes = std::vector<int64_t>;

/// The axes along which each dimension is sharded.
using Sharding = std::vector<Axes>;

/// A message's parameters in memory.
struct Block {
  Block(int64_t stage, int64_t bytes, const std::vector<int64_t> &extents, const Sharding &from, const Sharding &to) {
    words = {0, stage, bytes, static_cast<int64_t>(extents.size())};
    for (size_t d = 0; d < extents.size(); ++d) {
      words.push_back(extents[d]);
      for (const Axes *axes : {&from[d], &to[d]}) {
        words.push_back(static_cast<int64_t>(axes->size()));
        words.insert(words.end(), axes->begin(), axes->end());
        words.insert(words.end(), DIVISI_MAX_AXES - axes->size(), 0);
      }
    }
  }
  const DivisiTransfer &params() const { return *reinterpret_cast<const DivisiTransfer *>(words.data()); }
  std::vector<int64_t> words;
};

/// The numbers of a rank's elements in the whole tensor, in their order.
std::vector<int64_t> elementsOf(const Mesh &mesh, int rank, const std::vector<int64_t> &extents,
                                const Sharding &sharding) {
  std::vector<int64_t> result;
  int64_t count = std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
  for (int64_t element = 0; element < count; ++element) {
    bool mine = true;
    int64_t rest = element;
    for (size_t d = extents.size(); d-- > 0; rest /= extents[d]) {
      int64_t shard = 0, parts = 1;
      for (int64_t axis : sharding[d]) {
        shard = shard * mesh.axes()[static_cast<size_t>(axis)].size + mesh.index(rank, axis);
        parts *= mesh.axes()[static_cast<size_t>(axis)].size;
      }
      mine &= rest % extents[d] / (extents[d] / parts) == shard;
    }
    if (mine)
      result.push_back(element);
  }
  return result;
}

/// Sends the number of each element, a byte, and checks what arrives. Returns the bytes that each rank sends.
std::map<int, int64_t> exchange(const Mesh &mesh, int64_t sender, int64_t receiver, const std::vector<int64_t> &extents,
                                const Sharding &from, const Sharding &to) {
  std::map<std::pair<int, int>, std::vector<char>> messages;
  std::map<int, int64_t> sent;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (mesh.index(rank, 0) != sender)
      continue;
    std::vector<int64_t> shard = elementsOf(mesh, rank, extents, from);
    std::vector<char> data(shard.begin(), shard.end());
    Block block(receiver, static_cast<int64_t>(data.size()), extents, from, to);
    auto pieces = Piece::sentBy(rank, block.params(), mesh);
    EXPECT_TRUE(pieces.ok()) << pieces.status().message();
    for (const Piece &piece : *pieces) {
      std::vector<char> packed(static_cast<size_t>(piece.bytes));
      piece.pack(data.data(), packed.data());
      EXPECT_TRUE(messages.emplace(std::pair(rank, piece.peer), packed).second) << "two pieces for one rank";
      sent[rank] += piece.bytes;
    }
  }
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (mesh.index(rank, 0) != receiver)
      continue;
    std::vector<int64_t> shard = elementsOf(mesh, rank, extents, to);
    std::vector<char> data(shard.size()), want(shard.begin(), shard.end());
    std::vector<int> times(shard.size());
    Block block(sender, static_cast<int64_t>(data.size()), extents, from, to);
    auto pieces = Piece::receivedBy(rank, block.params(), mesh);
    EXPECT_TRUE(pieces.ok()) << pieces.status().message();
    for (const Piece &piece : *pieces) {
      auto message = messages.extract({piece.peer, rank});
      if (message.empty() || static_cast<int64_t>(message.mapped().size()) != piece.bytes) {
        ADD_FAILURE() << "rank " << rank << " waits for a piece that rank " << piece.peer << " does not send";
        continue;
      }
      piece.unpack(message.mapped().data(), data.data());
      std::vector<char> marks(static_cast<size_t>(piece.bytes), 1), here(shard.size());
      piece.unpack(marks.data(), here.data());
      for (size_t i = 0; i < here.size(); ++i)
        times[i] += here[i];
      if (piece.isContiguous() && piece.bytes > 0)
        EXPECT_EQ(std::memcmp(message.mapped().data(), data.data() + piece.offset, static_cast<size_t>(piece.bytes)),
                  0);
    }
    EXPECT_EQ(data, want) << "rank " << rank;
    EXPECT_EQ(times, std::vector<int>(shard.size(), 1)) << "rank " << rank;
  }
  EXPECT_TRUE(messages.empty()) << "a piece that nobody receives";
  return sent;
}

/// All ways to shard two dimensions over some of these axes, in any order.
std::vector<Sharding> shardings(const Axes &axes) {
  std::vector<Sharding> result = {{{}, {}}};
  for (size_t i = 0; i < result.size(); ++i)
    for (int64_t axis : axes)
      for (size_t d = 0; d < 2; ++d) {
        Sharding longer = result[i];
        bool there = false;
        for (const Axes &list : longer)
          there |= std::find(list.begin(), list.end(), axis) != list.end();
        longer[d].push_back(axis);
        if (!there && std::find(result.begin(), result.end(), longer) == result.end())
          result.push_back(longer);
      }
  return result;
}

/// Both stages of a mesh with two axes, each with any of them; all pairs of shardings.
TEST(PiecesTest, EveryByteThatARankNeedsArrivesOnce) {
  const std::vector<int64_t> extents = {12, 12};
  for (const std::vector<Axis> &axes :
       {std::vector<Axis>{{"stage", 2}, {"a", 2}, {"b", 3}}, std::vector<Axis>{{"stage", 2}, {"a", 2}, {"b", 2}}}) {
    for (int64_t had : {0, 1, 2, 3})
      for (int64_t have : {0, 1, 2, 3}) {
        std::vector<Axes> mine(2), lacking(2);
        for (int64_t axis : {1, 2})
          for (auto [stage, set] : {std::pair<size_t, int64_t>{0, had}, {1, have}})
            ((set >> (axis - 1) & 1) ? mine : lacking)[stage].push_back(axis);
        Mesh mesh(axes, lacking);
        for (const Sharding &from : shardings(mine[0]))
          for (const Sharding &to : shardings(mine[1])) {
            exchange(mesh, 0, 1, extents, from, to);
            if (::testing::Test::HasFailure())
              FAIL() << "stages with the axes " << had << " and " << have;
          }
      }
  }
}

/// Four senders that all have the value and three receivers that all need it; then one receiver.
TEST(PiecesTest, ReceiversTakeSendersInTurn) {
  std::map<int, int64_t> sent =
      exchange(Mesh({{"stage", 2}, {"a", 4}, {"b", 3}}, {{2}, {1}}), 0, 1, {8, 2}, {{}, {}}, {{}, {}});
  EXPECT_EQ(sent, (std::map<int, int64_t>{{0, 16}, {1, 16}, {2, 16}}));
  sent = exchange(Mesh({{"stage", 2}, {"a", 2}, {"b", 2}}, {{}, {1, 2}}), 0, 1, {8, 2}, {{2}, {}}, {{}, {}});
  EXPECT_EQ(sent, (std::map<int, int64_t>{{0, 8}, {3, 8}})); // halves of different replicas
}

/// Along an axis that both stages have and that shards nothing, as that of a pending sum, each rank has its own value.
TEST(PiecesTest, RanksWithTheSamePlaceAreTogether) {
  Mesh mesh({{"stage", 2}, {"a", 2}, {"b", 2}}, {{}, {2}});
  for (int rank = 0; rank < 4; ++rank) {
    Block block(1, 2, {4}, {{2}}, {{}});
    auto pieces = Piece::sentBy(rank, block.params(), mesh);
    ASSERT_TRUE(pieces.ok());
    ASSERT_EQ(pieces->size(), 1u);
    EXPECT_EQ((*pieces)[0].peer, 4 + rank / 2);
  }
}

/// Without dimensions both have the value alike.
TEST(PiecesTest, AValueThatBothHaveAlikeIsSentWhole) {
  Mesh mesh({{"stage", 2}, {"a", 2}, {"b", 2}}, {{}, {2}});
  Block block(1, 5, {}, {}, {});
  std::map<int, int> peers;
  for (int rank = 0; rank < 4; ++rank) {
    auto pieces = Piece::sentBy(rank, block.params(), mesh);
    ASSERT_TRUE(pieces.ok());
    for (const Piece &piece : *pieces) {
      EXPECT_EQ(piece.bytes, 5);
      peers[rank] = piece.peer;
    }
  }
  EXPECT_EQ(peers, (std::map<int, int>{{0, 4}, {2, 5}}));
}

TEST(PiecesTest, RefusesWhatCannotBe) {
  Mesh mesh({{"stage", 2}, {"a", 2}, {"b", 2}}, {{}, {2}});
  auto refused = [&](const Block &block) { return !Piece::sentBy(0, block.params(), mesh).ok(); };
  EXPECT_FALSE(refused(Block(1, 4, {4, 2}, {{1}, {}}, {{}, {}})));
  EXPECT_TRUE(refused(Block(1, 5, {4, 2}, {{1}, {}}, {{}, {}})));  // bytes
  EXPECT_TRUE(refused(Block(1, 2, {3, 2}, {{1}, {}}, {{}, {}})));  // does not divide
  EXPECT_TRUE(refused(Block(1, 4, {4, 2}, {{1}, {}}, {{2}, {}}))); // an axis that the receiver lacks
  for (int64_t axis : {-1, 0, 3})
    EXPECT_TRUE(refused(Block(1, 4, {4, 2}, {{axis}, {}}, {{}, {}}))) << axis;
  EXPECT_TRUE(refused(Block(1, 2, {4, 2}, {{1}, {1}}, {{}, {}}))); // twice
  Block many(1, 4, {4, 2}, {{1}, {}}, {{}, {}});
  for (int64_t count : {-1, DIVISI_MAX_AXES + 1}) {
    many.words[5] = count;
    EXPECT_TRUE(refused(many)) << count;
  }
  EXPECT_TRUE(refused(Block(1, 4, {-4, 2}, {{1}, {}}, {{}, {}})));
}
} // namespace
