// How threads run together: paths that diverge and meet, barriers, and what is noticed.
#include "test/gpu/ptx/KernelText.h"

#include <gtest/gtest.h>

using namespace divisi::test::ptx;

namespace {
const std::string thread = "mov.u32 %r0, %tid.x;\n";

/// Collatz: lanes leave the loop after different numbers of steps, and take one of two ways in each.
TEST(PtxMachine, LoopsThatDiverge) {
  std::vector<uint32_t> steps(100);
  std::string text = thread + R"(
    add.s32 %r1, %r0, 1; mov.b32 %r2, 0;
    setp.eq.b32 %p1, %r1, 1; @%p1 bra $done;
    $loop: and.b32 %r3, %r1, 1; setp.eq.b32 %p2, %r3, 0; @%p2 bra $even;
    mad.lo.s32 %r1, %r1, 3, 1; bra.uni $next;
    $even: shr.u32 %r1, %r1, 1;
    $next: add.s32 %r2, %r2, 1; setp.ne.b32 %p1, %r1, 1; @%p1 bra $loop;
    $done: bar.warp.sync -1;
  )" + storeText(0, "%r2", 4);
  ASSERT_EQ(launch(kernelText(1, text), 1, 100, steps), "");
  for (uint32_t i = 0; i < 100; ++i) {
    uint32_t count = 0;
    for (uint64_t x = i + 1; x != 1; x = x % 2 ? 3 * x + 1 : x / 2)
      ++count;
    EXPECT_EQ(steps[i], count);
  }
}

/// Some lanes end early, others take one of three ways; predicates guard single instructions.
TEST(PtxMachine, SeveralWays) {
  std::vector<uint32_t> to(64, 9);
  std::string text = thread + R"(
    rem.u32 %r1, %r0, 4; setp.eq.b32 %p1, %r1, 3; @%p1 ret;
    $list: .branchtargets $a, $b, $c;
    brx.idx %r1, $list;
    $a: mov.b32 %r2, 10; bra.uni $end;
    $b: mov.b32 %r2, 20; bra.uni $end;
    $c: mov.b32 %r2, 30;
    $end: setp.gt.u32 %p2, %r0, 40; @!%p2 add.s32 %r2, %r2, 1;
  )" + storeText(0, "%r2", 4);
  ASSERT_EQ(launch(kernelText(1, text), 1, 64, to), "");
  for (uint32_t i = 0; i < 64; ++i)
    EXPECT_EQ(to[i], i % 4 == 3 ? 9 : 10 * (i % 4 + 1) + (i <= 40));
}

/// Each thread stores a number; after the barrier it reads that of its mirror image, in another warp.
std::string mirror(const std::string &between) {
  return kernelText(1, thread + R"(
    .shared .align 16 .b8 numbers[512];
    mov.u32 %r1, %ctaid.x; mul.lo.s32 %r2, %r0, 3; add.s32 %r2, %r2, %r1;
    mov.b64 %rd1, numbers; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2; sub.s64 %rd4, %rd1, %rd2;
    st.shared.b32 [%rd3], %r2;
    )" + between + R"(
    ld.shared.b32 %r3, [%rd4+508];
    mul.lo.s32 %r1, %r1, 128; add.s32 %r0, %r0, %r1;
  )" + storeText(0, "%r3", 4));
}

TEST(PtxMachine, Barriers) {
  std::vector<uint32_t> to(128 * 40);
  ASSERT_EQ(launch(mirror("bar.sync 0;"), 40, 128, to), "");
  for (uint32_t block = 0; block < 40; ++block)
    for (uint32_t i = 0; i < 128; ++i)
      EXPECT_EQ(to[128 * block + i], 3 * (127 - i) + block);
}

/// The same error of the same block in every run, although processors share the blocks.
TEST(PtxMachine, RacesAreNamed) {
  std::vector<uint32_t> to(128 * 40);
  EXPECT_EQ(launch(mirror(""), 40, 128, to), "test: line 14: ld.shared.b32: thread 0 of block 0: race: reads "
                                             "numbers+508 (512 bytes), which no thread has written");
  EXPECT_EQ(launch(mirror("bar.sync 0; st.shared.b32 [%rd3], %r2;"), 1, 128, to),
            "test: line 13: st.shared.b32: thread 64 of block 0: race: writes numbers+256 (512 bytes), which another "
            "thread reads in line 14 with no barrier in between");
  EXPECT_EQ(launch(mirror("bar.sync 0; st.shared.b32 [%rd4+508], %r2; st.shared.b32 [%rd3], %r2;"), 1, 128, to),
            "test: line 13: st.shared.b32: thread 64 of block 0: race: writes numbers+252 (512 bytes), which thread 63 "
            "writes in line 13 with no barrier in between");
}

std::string exchange(const std::string &between) {
  return kernelText(1, thread + R"(
    .shared .align 4 .b8 numbers[128];
    mov.b64 %rd1, numbers; and.b32 %r1, %r0, 31; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; sub.s64 %rd4, %rd1, %rd2;
    st.shared.b32 [%rd3], %r0;
    )" + between + "\nld.shared.b32 %r3, [%rd4+124];\n" +
                           storeText(0, "%r3", 4));
}

TEST(PtxMachine, BarriersOfWarps) {
  std::vector<uint32_t> to(64);
  ASSERT_EQ(launch(exchange("bar.warp.sync -1;"), 1, 32, to), "");
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(to[i], 31 - i);
  // Shuffles order nothing in memory.
  std::string race =
      ": race: reads numbers+124 (128 bytes), which thread 31 writes in line 11 with no barrier in between";
  EXPECT_EQ(launch(exchange(""), 1, 32, to), "test: line 13: ld.shared.b32: thread 0 of block 0" + race);
  EXPECT_EQ(launch(exchange("shfl.sync.bfly.b32 %r4, %r0, 1, 31, -1;"), 1, 32, to),
            "test: line 13: ld.shared.b32: thread 0 of block 0" + race);
  // Two warps at the same place.
  EXPECT_EQ(launch(exchange("bar.warp.sync -1;"), 1, 64, to),
            "test: line 11: st.shared.b32: thread 32 of block 0: race: writes numbers+0 (128 bytes), which thread 0 "
            "writes in line 11 with no barrier in between");
  // What is read may be written after a barrier only.
  EXPECT_EQ(launch(exchange("bar.warp.sync -1; ld.shared.b32 %r4, [%rd4+124]; st.shared.b32 [%rd3], %r4;"), 1, 32, to),
            "test: line 12: st.shared.b32: thread 0 of block 0: race: writes numbers+0 (128 bytes), which another "
            "thread reads in line 12 with no barrier in between");
}

/// Each thread stores a number in global memory, and reads that of its mirror image in the block.
std::string globalMirror(const std::string &between, const std::string &load = "ld.global.b32") {
  return kernelText(2, thread + R"(
    mov.u32 %r1, %ntid.x; sub.s32 %r2, %r1, 1; sub.s32 %r2, %r2, %r0; mov.u32 %r3, %ctaid.x; mad.lo.s32 %r4, %r3, %r1, %r0; mad.lo.s32 %r5, %r3, %r1, %r2;
    ld.param.b64 %rd1, [p0]; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd1, %rd4;
    st.global.b32 [%rd3], %r4;
    )" + between + "\n" + load +
                           " %r6, [%rd5]; mov.b32 %r0, %r4;\n" + storeText(1, "%r6", 4));
}

TEST(PtxMachine, RacesInGlobalMemory) {
  std::vector<uint32_t> between(64 * 20), to(64 * 20);
  ASSERT_EQ(launch(globalMirror("bar.sync 0;"), 20, 64, between, to), "");
  for (uint32_t i = 0; i < to.size(); ++i)
    EXPECT_EQ(to[i], i / 64 * 64 + 63 - i % 64);
  EXPECT_EQ(launch(globalMirror("bar.warp.sync -1;"), 20, 32, between, to), "");
  EXPECT_EQ(launch(globalMirror(""), 1, 32, between, to),
            "test: line 13: ld.global.b32: thread 0 of block 0: race: reads what thread 31 writes in line 11 with no "
            "barrier in between");
  EXPECT_EQ(launch(globalMirror("bar.warp.sync -1;"), 1, 64, between, to),
            "test: line 11: st.global.b32: thread 32 of block 0: race: writes what another thread reads in line 13 "
            "with no barrier in between");
  EXPECT_EQ(launch(globalMirror("bar.sync 0;", "ld.global.nc.b32"), 1, 64, between, to),
            "test: line 13: ld.global.nc.b32: thread 0 of block 0: race: reads what thread 63 writes in line 11, "
            "although .nc means that nobody does");
}

/// Nothing orders blocks: here each writes the same element, or all read what the first one writes.
TEST(PtxMachine, RacesOfBlocks) {
  std::vector<uint32_t> to(64);
  std::string same = thread + "mov.u32 %r1, %ctaid.x;\n" + storeText(0, "%r1", 4);
  EXPECT_EQ(launch(kernelText(1, same), 2, 32, to),
            "test: line 9: st.global.b32: thread 0 of block 1: race: writes what another block writes in line 9");
  EXPECT_NE(launch(kernelText(1, same), 64, 32, to).find("race: "), std::string::npos); // on two processors
  std::string read = thread + "mov.u32 %r1, %ctaid.x; setp.ne.b32 %p1, %r1, 0;\n" + addressText(0, 4) +
                     "\n@%p1 ld.global.b32 %r2, [%rd8]; @!%p1 st.global.b32 [%rd8], %r1;";
  EXPECT_EQ(launch(kernelText(1, read), 2, 32, to),
            "test: line 10: ld.global.b32: thread 0 of block 1: race: reads what another block writes in line 10");
  EXPECT_NE(launch(kernelText(1, read), 64, 32, to).find("race: "), std::string::npos);
}

TEST(PtxMachine, Bounds) {
  std::vector<uint32_t> to(100);
  std::string text = thread + storeText(0, "%r0", 4);
  EXPECT_EQ(launch(kernelText(1, text), 1, 100, to), "");
  EXPECT_EQ(launch(kernelText(1, text), 1, 101, to),
            "test: line 8: st.global.b32: thread 100 of block 0: out of bounds: writes 4 bytes, 0 bytes after the end "
            "of an allocation of 400 bytes");
  std::string before = thread + addressText(0, 4) + "\nld.global.nc.v2.b32 {%r1, %r2}, [%rd8+-8];";
  EXPECT_EQ(launch(kernelText(1, before), 1, 1, to),
            "test: line 9: ld.global.nc.v2.b32: thread 0 of block 0: out of bounds: reads 8 bytes, 8 bytes before an "
            "allocation of 400 bytes");
  std::string odd = thread + addressText(0, 4) + "\nst.global.v2.b32 [%rd8], {%r0, %r0};";
  EXPECT_NE(launch(kernelText(1, odd), 1, 2, to).find("test: line 9: st.global.v2.b32: thread 1 of block 0: address "),
            std::string::npos);
  std::string shared = thread + ".shared .align 4 .b8 numbers[8]; .shared .align 4 .b8 others[8];\nmov.b64 %rd1, "
                                "numbers; st.shared.b32 [%rd1+8], %r0;";
  EXPECT_EQ(launch(kernelText(1, shared), 1, 1, to), "test: line 9: st.shared.b32: thread 0 of block 0: out of bounds: "
                                                     "writes 4 bytes at numbers+8 (8 bytes), beyond shared memory");
  std::string zero = thread + "mov.b64 %rd1, 0;\nst.global.b32 [%rd1], %r0;";
  EXPECT_NE(launch(kernelText(1, zero), 1, 1, to)
                .find("test: line 9: st.global.b32: thread 0 of block 0: out of bounds: writes 4 bytes, "),
            std::string::npos);
}

TEST(PtxMachine, DivergentCode) {
  std::vector<uint32_t> to(32);
  std::string half = thread + "setp.gt.u32 %p1, %r0, 15; @%p1 bra $end;\n";
  EXPECT_EQ(launch(kernelText(1, half + "bar.sync 0; $end: mov.b32 %r1, 0;"), 1, 32, to),
            "test: line 9: bar.sync: thread 0 of block 0: a barrier in divergent code: thread 16 is elsewhere");
  EXPECT_EQ(
      launch(kernelText(1, half + "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; $end: mov.b32 %r1, 0;"), 1, 32, to),
      "test: line 9: shfl.sync.bfly.b32: thread 0 of block 0: a shuffle in divergent code: thread 16 is elsewhere");
  EXPECT_EQ(launch(kernelText(1, half + "shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1; $end: ret;"), 1, 20, to)
                .find("test: line 9: shfl.sync.bfly.b32: thread 0 of block 0: "),
            0u);
  EXPECT_EQ(launch(kernelText(1, "$loop: bra.uni $loop;"), 1, 1, to),
            "test: line 7: bra.uni: thread 0 of block 0: the thread does not end");
}

TEST(PtxMachine, TextsThatAreNotKnown) {
  std::vector<uint32_t> to(32);
  auto said = [&](const std::string &body) { return launch(kernelText(1, body), 1, 32, to); };
  EXPECT_EQ(said("\nsin.exact.f32 %r1, %r2;"), "test: line 8: sin.exact.f32: not known");
  EXPECT_EQ(said("add.s32 %r1, %rd2, %r3;"), "test: line 7: add.s32: %rd2 has 64 bits and not 32");
  EXPECT_EQ(said("add.s32 %r1, %r2;"), "test: line 7: add.s32: 2 operands and not 3");
  EXPECT_EQ(said("bra $nowhere;"), "test: line 7: bra: there is no label $nowhere");
  EXPECT_EQ(said("bar.sync 1;"), "test: line 7: bar.sync: only barrier 0 is known");
  EXPECT_THROW(said("add.s32 %r1, %r2"), Error);
  EXPECT_THROW(Module(".version 7.8\n.func f"), Error);
  EXPECT_THROW(Module(kernelText(1, "").substr(0, 150)), Error);
}

/// Constants of a module, and memory of each thread.
TEST(PtxMachine, GlobalsAndLocals) {
  std::vector<uint32_t> to(40);
  std::string text = thread + R"(
    .local .align 4 .b8 depot[16];
    rem.u32 %r1, %r0, 4; mul.wide.u32 %rd1, %r1, 4;
    mov.b64 %rd2, depot; add.s64 %rd3, %rd2, %rd1; mov.b64 %rd4, table; add.s64 %rd5, %rd4, %rd1;
    ld.global.nc.b32 %r2, [%rd5]; st.local.b32 [%rd3], %r2; ld.local.b32 %r3, [%rd3];
  )" + storeText(0, "%r3", 4);
  ASSERT_EQ(
      launch(kernelText(1, text, ".global .align 4 .b8 table[16] = {1, 1, 0, 0, 2, 1, 0, 0, 3, 1, 0, 0, 4, 1, 0, 0};"),
             1, 40, to),
      "");
  for (uint32_t i = 0; i < 40; ++i)
    EXPECT_EQ(to[i], 256 + i % 4 + 1);
  std::string beyond = thread + ".local .align 4 .b8 depot[16]; mov.b64 %rd2, depot;\nst.local.b32 [%rd2+16], %r0;";
  EXPECT_EQ(launch(kernelText(1, beyond), 1, 1, to),
            "test: line 9: st.local.b32: thread 0 of block 0: out of bounds of local memory");
}
} // namespace
