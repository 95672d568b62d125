// Collectives overlapped with computation, and the loss of a rank.
#include "runtime/core/Context.h"
#include "test/runtime/Util.h"
#include "test/runtime/comm/Conformance.h"
#include "test/runtime/comm/Ranks.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
constexpr DivisiPart four = {1, 4, 1, 1, 1};

/// Many collectives in flight, through the services that generated code calls, over several steps.
TEST(CommunicatorTest, ManyAreUnderWayAtOnce) {
  constexpr int ranks = 3, many = 20;
  LocalHub hub(ranks);
  onRanks(hub, [&](Transport &transport) {
    Communicator communicator(transport, Mesh({{"data", ranks}}));
    DivisiContext context(1);
    context.exchange = &communicator;
    std::vector<CollectiveBlock> blocks(many, CollectiveBlock(DIVISI_ALL_REDUCE, DIVISI_F32, {0}, {four}));
    for (int64_t step = 1; step <= 5; ++step) {
      std::vector<std::array<float, 4>> in(many), out(many);
      for (int64_t k = 0; k < many; ++k) {
        blocks[k]->id = k;
        for (int64_t i = 0; i < 4; ++i)
          in[k][i] = static_cast<float>((transport.rank() + 1) * (k + 1) * step + i);
        void *buffers[] = {in[k].data(), out[k].data()};
        divisi_collective(&context, blocks[k].get(), buffers);
      }
      for (int64_t k = many; k-- > 0;) {
        DivisiAwait await{k};
        divisi_await(&context, &await, nullptr);
        for (int64_t i = 0; i < 4; ++i) // 1 + 2 + 3 times, and three times i
          EXPECT_EQ(out[k][i], static_cast<float>(6 * (k + 1) * step + 3 * i));
      }
    }
    EXPECT_TRUE(succeeded(context.error));
    CommUsage usage = communicator.takeUsage();
    // Recursive doubling over three ranks: the last one hands its four elements to the first, which sends the sum back.
    EXPECT_EQ(usage.bytes, 5 * many * 4 * 4 * (transport.rank() == 0 ? 2 : 1));
    EXPECT_GT(usage.seconds, 0);
    EXPECT_EQ(communicator.takeUsage().bytes, 0);
  });
}

TEST(CommunicatorTest, WithoutRanksItSaysSo) {
  DivisiContext context(1);
  CollectiveBlock block(DIVISI_ALL_REDUCE, DIVISI_F32, {0}, {four});
  divisi_collective(&context, block.get(), nullptr);
  EXPECT_TRUE(failsWith(context.error, "runs on one device alone"));
}

TEST(CommunicatorTest, AwaitingWhatWasNotStartedFails) {
  LocalHub hub(1);
  Communicator communicator(hub.rank(0), Mesh({{"data", 1}}), {{3, "the sum"}});
  EXPECT_TRUE(failsWith(communicator.await(3), "'the sum' is waited for but was not started"));
}

/// A mesh with more devices than there are ranks.
TEST(CommunicatorTest, RefusesAnotherNumberOfRanks) {
  LocalHub hub(1);
  Communicator communicator(hub.rank(0), Mesh({{"data", 2}}));
  CollectiveBlock block(DIVISI_ALL_REDUCE, DIVISI_F32, {0}, {four});
  EXPECT_TRUE(failsWith(communicator.start(block.get(), nullptr), "the mesh has 2 ranks, but there are 1"));
}

/// One rank fails while the others wait for it: all of them end with its error and the place where they waited.
TEST(CommunicatorTest, AFailureReachesAllRanks) {
  LocalHub hub(3);
  onRanks(hub, [&](Transport &transport) {
    Communicator communicator(transport, Mesh({{"data", 3}}), {{7, "all_reduce of the gradient"}});
    communicator.setStep(12);
    if (transport.rank() == 1)
      return communicator.fail(failure("rank 1: out of luck"));
    float in[4] = {}, out[4];
    void *buffers[] = {in, out};
    CollectiveBlock block(DIVISI_ALL_REDUCE, DIVISI_F32, {0}, {four});
    Status status = communicator.start(block.get(), buffers);
    if (status.ok())
      status = communicator.await(7);
    EXPECT_TRUE(failsWith(status, "rank 1: out of luck"));
    if (status.message() != "rank 1: out of luck") // it had begun
      EXPECT_TRUE(
          failsWith(status, concat("rank ", transport.rank(), ": step 12: waited for 'all_reduce of the gradient': ")));
  });
}

/// The loss of a rank is not reported: after a signal to stop, waiting ends by itself and names the place.
TEST(CommunicatorTest, ASignalEndsWaitingForALostRank) {
  LocalHub hub(2);
  Communicator communicator(hub.rank(0), Mesh({{"data", 2}}), {{7, "all_gather of the weight"}});
  communicator.setStep(3);
  communicator.setInterrupt([] { return Interrupt::Urgent; });
  float in[4] = {}, out[8];
  void *buffers[] = {in, out};
  CollectiveBlock block(DIVISI_ALL_GATHER, DIVISI_F32, {0}, {four});
  ASSERT_TRUE(succeeded(communicator.start(block.get(), buffers)));
  EXPECT_TRUE(
      failsWith(communicator.await(7), "rank 0: step 3: waited in vain for 'all_gather of the weight': another"));
  EXPECT_TRUE(failsWith(communicator.maximum(1, true), "step 3"));
}

TEST(CommunicatorTest, AgreementEndsAfterASignalToo) {
  LocalHub hub(2);
  Communicator communicator(hub.rank(0), Mesh({{"data", 2}}));
  communicator.setStep(4);
  communicator.setInterrupt([] { return Interrupt::Urgent; });
  EXPECT_TRUE(failsWith(communicator.maximum(1, true), "rank 0: step 4: waited in vain for the ranks to agree"));
}

/// A communicator that is destroyed during a collective makes the others fail, and none hangs.
TEST(CommunicatorTest, EndingInTheMiddleFailsTheOthers) {
  LocalHub hub(2);
  onRanks(hub, [&](Transport &transport) {
    float in[4] = {}, out[8];
    void *buffers[] = {in, out};
    CollectiveBlock two(DIVISI_ALL_GATHER, DIVISI_F32, {0}, {four, four});
    Communicator communicator(transport, Mesh({{"data", 2}}));
    if (transport.rank() == 0) {
      CollectiveBlock block(DIVISI_ALL_GATHER, DIVISI_F32, {0}, {four});
      ASSERT_TRUE(succeeded(communicator.start(block.get(), buffers)));
      EXPECT_FALSE(communicator.await(7).ok());
    } else {
      // Another size than the other rank expects.
      float more[4] = {}, more2[8];
      void *four[] = {in, more, out, more2};
      ASSERT_TRUE(succeeded(communicator.start(two.get(), four)));
      EXPECT_TRUE(failsWith(communicator.finish(), "bytes"));
    }
  });
}
} // namespace
