// Messages between stages beside all other communication, and the loss of the other stage.
#include "runtime/core/Context.h"
#include "test/runtime/Util.h"
#include "test/runtime/comm/Conformance.h"
#include "test/runtime/comm/Ranks.h"
#include "test/runtime/comm/TransferChecks.h"

#include <deque>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
TEST(TransferTest, EveryMessageArrivesWhereItShould) {
  for (int ranks : {1, 2, 3, 4}) {
    LocalHub hub(ranks);
    onRanks(hub, [&](Transport &transport) {
      for (const std::string &mistake : checkTransfers(transport))
        ADD_FAILURE() << ranks << " ranks: " << mistake;
    });
  }
}

/// The peer differs only in its index along the axis of stages.
TEST(TransferTest, GoesAlongTheAxisOfStages) {
  LocalHub hub(6);
  onRanks(hub, [&](Transport &transport) {
    Communicator ranks(transport, Mesh({{"stage", 3}, {"data", 2}}));
    DivisiContext context(1);
    context.exchange = &ranks;
    int64_t stage = transport.rank() / 2, data = transport.rank() % 2, mine = transport.rank(), got = -1;
    DivisiTransfer out{5, (stage + 1) % 3, 8}, in{5, (stage + 2) % 3, 8};
    void *from[] = {&mine}, *to[] = {&got};
    DivisiAwait await{5};
    divisi_receive(&context, &in, to);
    divisi_send(&context, &out, from);
    divisi_await(&context, &await, nullptr);
    EXPECT_TRUE(succeeded(context.error));
    EXPECT_EQ(got, (stage + 2) % 3 * 2 + data);
    EXPECT_TRUE(succeeded(ranks.finish()));
    EXPECT_EQ(ranks.takeUsage().bytes, 8);
    EXPECT_EQ(ranks.takeUsage().bytes, 0);
  });
}

/// Stages of 2 x 2, of 2 (along the second axis) and of one device: ranks 0 to 3, 4 and 5, and 6.
TEST(TransferTest, StagesMayHaveFewerDevices) {
  LocalHub hub(7);
  onRanks(hub, [&](Transport &transport) {
    Mesh mesh({{"stage", 3}, {"data", 2}, {"model", 2}}, {{}, {1}, {1, 2}});
    ASSERT_EQ(mesh.size(), 7);
    int rank = transport.rank();
    const int stages[] = {0, 0, 0, 0, 1, 1, 2};
    const int data[] = {0, 0, 1, 1, 0, 0, 0}, model[] = {0, 1, 0, 1, 0, 1, 0};
    EXPECT_EQ(mesh.index(rank, 0), stages[rank]);
    EXPECT_EQ(mesh.index(rank, 1), data[rank]);
    EXPECT_EQ(mesh.index(rank, 2), model[rank]);
    const std::vector<int> rows[] = {{0, 2}, {1, 3}, {0, 2}, {1, 3}, {4}, {5}, {6}};
    const std::vector<int> columns[] = {{0, 1}, {0, 1}, {2, 3}, {2, 3}, {4, 5}, {4, 5}, {6}};
    const int64_t axes[] = {1, 2};
    EXPECT_EQ(mesh.group(rank, std::span(axes, 1)), rows[rank]);
    EXPECT_EQ(mesh.group(rank, std::span(axes + 1, 1)), columns[rank]);
    // Each rank receives from the one rank that has its data.
    const int senders[3][7] = {{0, 1, 2, 3, 0, 1, 0}, {4, 5, 4, 5, 4, 5, 4}, {6, 6, 6, 6, 6, 6, 6}};
    Communicator ranks(transport, mesh);
    DivisiContext context(1);
    context.exchange = &ranks;
    int64_t number = 0, sent = 0;
    std::deque<DivisiTransfer> blocks; // as in a program, each message has its own
    for (int64_t from = 0; from < 3; ++from)
      for (int64_t to = 0; to < 3; ++to) {
        if (from == to)
          continue;
        int64_t mine = rank, got = -1, id = ++number;
        void *value[] = {&mine}, *place[] = {&got};
        DivisiTransfer &in = blocks.emplace_back(DivisiTransfer{id, from, 8, 0});
        DivisiTransfer &out = blocks.emplace_back(DivisiTransfer{id, to, 8, 0});
        DivisiAwait await{id};
        if (stages[rank] == to)
          divisi_receive(&context, &in, place);
        if (stages[rank] == from) {
          divisi_send(&context, &out, value);
          for (int other = 0; other < 7; ++other)
            sent += stages[other] == to && senders[from][other] == rank;
        }
        if (stages[rank] == to) {
          divisi_await(&context, &await, nullptr);
          EXPECT_EQ(got, senders[from][rank]) << "stage " << from << " to rank " << rank;
        }
        EXPECT_TRUE(succeeded(context.error));
        EXPECT_TRUE(succeeded(ranks.finish()));
      }
    EXPECT_EQ(ranks.takeUsage().bytes, 8 * sent);
  });
}

/// Stages of 2, 3 and 1 replicas that take microbatches in turn: ranks 0 and 1, 2 to 4, and 5.
TEST(TransferTest, ReplicasMayTakeMicrobatchesInTurn) {
  LocalHub hub(6);
  onRanks(hub, [&](Transport &transport) {
    Mesh mesh({{"stage", 3}, {"turn", 2}, {"turn2", 3}}, {{2}, {1}, {1, 2}});
    mesh.setTurns({1, 2, std::nullopt});
    ASSERT_EQ(mesh.size(), 6);
    const int stages[] = {0, 0, 1, 1, 1, 2}, firsts[] = {0, 2, 5}, replicas[] = {2, 3, 1};
    int rank = transport.rank(), stage = stages[rank];
    Communicator ranks(transport, mesh);
    DivisiContext context(1);
    context.exchange = &ranks;
    for (int64_t microbatch = 0; microbatch < 7; ++microbatch) {
      auto takes = [&](int of) { return firsts[of] + microbatch % replicas[of]; };
      if (takes(stage) != rank)
        continue;
      ranks.setTurn(microbatch);
      int64_t mine = 100 * microbatch + rank, got = -1;
      void *value[] = {&mine}, *place[] = {&got};
      DivisiTransfer in{5, (stage + 2) % 3, 8}, out{5, (stage + 1) % 3, 8};
      DivisiAwait await{5};
      divisi_send(&context, &out, value);
      divisi_receive(&context, &in, place);
      divisi_await(&context, &await, nullptr);
      EXPECT_EQ(got, 100 * microbatch + takes((stage + 2) % 3));
    }
    EXPECT_TRUE(succeeded(context.error));
    EXPECT_TRUE(succeeded(ranks.finish()));
  });
}

TEST(TransferTest, RefusesWhatCannotBeSent) {
  LocalHub hub(1);
  Communicator ranks(hub.rank(0), Mesh({{"stage", 1}}), {{3, "the features"}});
  int64_t value = 1;
  EXPECT_TRUE(failsWith(ranks.send({3, 1, 8}, &value), "'the features': has parameters out of their ranges"));
  EXPECT_TRUE(failsWith(ranks.receive({3, -1, 8}, &value), "out of their ranges"));
  EXPECT_TRUE(failsWith(ranks.receive({3, 0, -8}, &value), "out of their ranges"));
  EXPECT_TRUE(failsWith(ranks.receive({-3, 0, 8}, &value), "has a number that no message can have"));
  EXPECT_TRUE(failsWith(ranks.receive({int64_t(1) << 40, 0, 8}, &value), "the largest is 2147483646"));
  EXPECT_TRUE(failsWith(ranks.await(3), "was not started"));
  EXPECT_TRUE(succeeded(ranks.finish()));
  DivisiContext context(1);
  DivisiTransfer params{3, 0, 8};
  void *buffers[] = {&value};
  divisi_send(&context, &params, buffers);
  EXPECT_TRUE(failsWith(context.error, "divisi_send: this program runs on one device alone"));
}

TEST(TransferTest, AFailureReachesWhoWaits) {
  LocalHub hub(2);
  onRanks(hub, [&](Transport &transport) {
    Communicator ranks(transport, Mesh({{"stage", 2}}), {{7, "the features of layer 3"}});
    ranks.setStep(12);
    if (transport.rank() == 1) {
      usleep(20000);
      return ranks.fail(failure("rank 1: out of luck"));
    }
    int64_t got = 0;
    ASSERT_TRUE(succeeded(ranks.receive({7, 1, 8}, &got)));
    EXPECT_TRUE(
        failsWith(ranks.await(7), "rank 0: step 12: waited for 'the features of layer 3': rank 1: out of luck"));
    EXPECT_FALSE(ranks.finish().ok());
    EXPECT_FALSE(ranks.send({7, 1, 8}, &got).ok());
  });
}

/// The loss of a stage is not reported: after a signal to stop, waiting for its message, or for it to receive one,
/// ends.
TEST(TransferTest, ASignalEndsWaitingForALostStage) {
  int64_t value = 0;
  for (bool sends : {false, true}) {
    LocalHub hub(2);
    Communicator ranks(hub.rank(0), Mesh({{"stage", 2}}), {{7, "the features"}});
    ranks.setStep(3);
    ranks.setInterrupt([] { return Interrupt::Urgent; });
    ASSERT_TRUE(succeeded(sends ? ranks.send({7, 1, 8}, &value) : ranks.receive({7, 1, 8}, &value)));
    EXPECT_TRUE(failsWith(sends ? ranks.finish() : ranks.await(7),
                          "rank 0: step 3: waited in vain for 'the features': another"));
    std::string text = "x";
    EXPECT_FALSE(ranks.broadcast(text, 1, true).ok());
  }
  LocalHub hub(2);
  Communicator ranks(hub.rank(0), Mesh({{"stage", 2}}));
  ranks.setInterrupt([] { return Interrupt::Urgent; });
  std::string text;
  EXPECT_TRUE(failsWith(ranks.broadcast(text, 1, true), "waited in vain for what another rank tells all"));
}

TEST(TransferTest, OtherSizesAreAnError) {
  LocalHub hub(2);
  onRanks(hub, [&](Transport &transport) {
    Communicator ranks(transport, Mesh({{"stage", 2}}));
    char data[16] = {};
    Status status = transport.rank() == 0 ? ranks.send({1, 1, 16}, data) : ranks.receive({1, 0, 8}, data);
    if (status.ok())
      status = ranks.finish();
    EXPECT_TRUE(failsWith(status, "rank 1 expected 8 bytes of rank 0, which sent 16"));
  });
}

/// A message that was never received, and a receive that never ended, leave no trace: later messages do not use freed
/// memory.
TEST(TransferTest, UnfinishedOnesAreForgotten) {
  LocalHub hub(2);
  {
    std::vector<char> data(1000, 'a');
    Communicator ranks(hub.rank(0), Mesh({{"stage", 2}}));
    ASSERT_TRUE(succeeded(ranks.send({1, 1, 1000}, data.data())));
    ASSERT_TRUE(succeeded(ranks.send({2, 0, 1000}, data.data())));
    ASSERT_TRUE(succeeded(ranks.receive({3, 1, 1000}, data.data())));
    usleep(20000); // they begin
  }
  char got[1000], sent[1000] = {};
  std::unique_ptr<Message> in = hub.rank(1).receive(0, 2, got, 1000), out = hub.rank(1).send(0, 4, sent, 1000);
  EXPECT_FALSE(in->poll());
  EXPECT_FALSE(out->poll());
  EXPECT_TRUE(failsWith(hub.rank(1).status(), "ended before its collectives and transfers"));
}
} // namespace
