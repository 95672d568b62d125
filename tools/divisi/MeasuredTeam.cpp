#include "divisi/MeasuredTeam.h"
#include "passes/Planning/Cost/Prices.h"
#include "runtime/core/Launch.h"
#include "runtime/devices/cpu/Blas.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tuple>

using namespace divisi;
using namespace divisi::tools;

namespace {

/// Of a measurement in a round, at least.
constexpr double leastSeconds = 0.006;
/// A measurement whose rounds differ by more than this share (upper quartile over median) was disturbed by other load.
constexpr double mostSpread = 0.25;
/// The bytes of kernels that are measured, for all cores: small ones, caches, and the memory. They are read in one half and
/// written in the other.
constexpr size_t sizes[] = {16 << 10, 64 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20, 256 << 20};
/// The elements of a kernel that are worth a thread, as in programs.
constexpr int64_t grain = 8192;
/// The sides of square matmuls; the last one stands for all larger ones.
constexpr int sides[] = {8, 16, 32, 64, 96, 128, 256, 512};
/// Of small ones a batch is measured that stays on one thread, with each of the ways to store the operands: the call of a single one
/// takes as long, and the ways differ by a factor of three.
constexpr int64_t small = 16, batchOfSmall = 16, waysToStore = 4;
static_assert(2 * small * small * small == planning::Calibration::mostOnOneThread);
/// Channels and the side of 8 images, of convolutions of 3 x 3 points; the last one stands for all larger ones.
constexpr int64_t images[][2] = {{8, 8}, {32, 16}, {64, 32}};
/// The side of a matmul of bf16: rows of 1,024 numbers would be in the same places of the caches.
constexpr int64_t sideOfBfloats = 960;
/// Rows and sides of matmuls that are far from square.
constexpr int64_t oblong[][2] = {{32, 256}, {32, 1024}};
constexpr size_t cachedMessage = planning::Calibration::cachedMessage, largeMessage = planning::Calibration::largeMessage;

constexpr DivisiGemm matmul(int64_t rows, int64_t side, int type) {
  DivisiGemm gemm = {1, 1, rows, side, side, 0, 0, side, side, side};
  if (side <= small)
    gemm.batch0 = batchOfSmall, gemm.a0 = gemm.b0 = gemm.c0 = side * side;
  gemm.type = type, gemm.result_type = DIVISI_F32;
  return gemm;
}

constexpr DivisiConv convolution(int64_t channels, int64_t side) {
  return {2, 8, 1, channels, channels, {side, side, 1}, {side, side, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 0},
          1, DIVISI_F32, 0, 0};
}

/// Seconds of a call of `work`.
template <typename Work> double secondsOf(const Work &work) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::duration<double> least(leastSeconds);
  auto begin = Clock::now();
  std::chrono::duration<double> passed;
  int64_t calls = 0;
  do {
    work();
    passed = Clock::now() - begin;
  } while (++calls, passed < least);
  return passed.count() / (double)calls;
}

/// Bytes that a kernel reads, and the largest matmul, convolution or message.
constexpr size_t halfOfLargest = sizes[std::size(sizes) - 1] / 2, mostRead = std::max<size_t>(largeMessage, 8 << 20);
constexpr double fastestPacking = 1e12; // bytes/s
/// The gradient of a layer's weights, which is between the fastest and the slowest of its three matmuls where these are larger than a core's
/// caches: units for bf16 reach twice as much within them.
constexpr DivisiGemm gradient() {
  DivisiGemm gemm = matmul(sideOfBfloats, sideOfBfloats, DIVISI_BF16);
  gemm.transpose_a = 1;
  return gemm;
}
constexpr DivisiGemm bfloats = gradient();
} // namespace

MeasuredTeam::MeasuredTeam(int threads, int teams, std::barrier<> &start)
    : start(start), teams(teams), context(threads), reads(std::max(halfOfLargest / teams, mostRead) / sizeof(float)),
      writes(std::max(halfOfLargest / teams, 2 * largeMessage) / sizeof(float)), from(new float[reads]), to(new float[writes]) {
  for (int side : sides)
    products.push_back(matmul(side, side, DIVISI_F32));
  for (auto [rows, side] : oblong)
    narrow.push_back(matmul(rows, side, DIVISI_F32));
  for (auto [channels, side] : images)
    convolutions.push_back(convolution(channels, side));
}

void MeasuredTeam::prepare() {
  context.blasReady = false;
  runtime::prepareBlas(&context);
}

void MeasuredTeam::runRound() {
  divisi_team_set_size(context.threads);
  if (times.empty()) { // memory is of the thread that writes it first
    std::fill_n(from.get(), reads, 1.0f);
    std::fill_n(to.get(), writes, 1.0f);
  }
  size_t next = 0;
  auto measure = [&](const auto &work) {
    start.arrive_and_wait();
    times.resize(std::max(times.size(), next + 1));
    times[next++].push_back(secondsOf(work));
  };
  for (const auto *list : {&products, &narrow})
    for (const DivisiGemm &gemm : *list)
      measure([&] { multiply(gemm); });
  for (const DivisiConv &conv : convolutions) {
    measure([&] { convolve(conv); });
    measure([&] { deriveFilters(conv); });
  }
  measure([&] { multiply(bfloats); });
  for (size_t bytes : {cachedMessage, largeMessage})
    measure([&] { exchange(bytes); });
  for (size_t size : sizes)
    measure([&] { move(size / teams); });
}

void MeasuredTeam::finish() {
  auto next = times.begin();
  auto flopsOf = [](const DivisiGemm &gemm) { return 2.0 * (double)(gemm.m * gemm.n * gemm.k); };
  for (const DivisiGemm &gemm : products) {
    const double matmuls = gemm.batch0 > 1 ? batchOfSmall * waysToStore : 1;
    rates.matmuls.push_back({flopsOf(gemm), matmuls * flopsOf(gemm) / usual(*next++)});
  }
  rates.flops = rates.matmuls.back().rate;
  for (const DivisiGemm &gemm : narrow) {
    step::Work work{graph::Form::product, flopsOf(gemm)};
    work.m = (double)gemm.m, work.n = (double)gemm.n, work.k = (double)gemm.k;
    const double bytes = planning::packedBytes(work, planning::Cluster::Device::fp32);
    const double square = work.flops / planning::rateOf(work.flops, rates.matmuls, rates.flops);
    rates.packings.push_back({bytes, bytes / std::max(usual(*next++) - square, bytes / fastestPacking)});
  }
  for (const DivisiConv &conv : convolutions) {
    double flops = 2.0 * (double)(conv.batch * conv.in_channels * conv.out_channels * conv.in[0] * conv.in[1] * 9);
    rates.convolutions.push_back({flops, 2 * flops / usual(*next++)});
    rates.filters.push_back({flops, flops / usual(*next++)});
  }
  rates.bf16 = flopsOf(bfloats) / usual(*next++);
  message = cachedMessage / usual(*next++);
  large = largeMessage / usual(*next++);
  for (size_t size : sizes)
    rates.kernels.push_back({(double)(size / teams), (double)(size / teams) / usual(*next++)});
  rates.bandwidth = rates.kernels.back().rate;
}

void MeasuredTeam::multiply(const DivisiGemm &gemm) {
  void *buffers[] = {from.get(), from.get() + sideOfBfloats * sideOfBfloats / 2, to.get()};
  divisi_gemm(&context, &gemm, buffers); // (the address names the call)
  if (gemm.batch0 == 1)
    return;
  DivisiGemm stored = gemm;
  for (int64_t way = 1; way < waysToStore; ++way) {
    stored.transpose_a = way % 2, stored.transpose_b = way / 2;
    divisi_gemm(&context, &stored, buffers);
  }
}

void MeasuredTeam::convolve(const DivisiConv &conv) {
  void *buffers[] = {from.get(), from.get() + reads / 2, to.get()};
  divisi_conv_forward(&context, &conv, buffers);
  divisi_conv_input_grad(&context, &conv, buffers);
}

void MeasuredTeam::deriveFilters(const DivisiConv &conv) {
  void *buffers[] = {from.get(), from.get() + reads / 2, to.get()};
  divisi_conv_filter_grad(&context, &conv, buffers);
}

void MeasuredTeam::move(size_t size) {
  const int64_t extent = (int64_t)(size / 2 / sizeof(float));
  const bool turned = moves++ / 2 % 2; // half of the calls find what another thread has written, as behind a library's call
  runtime::forEachPiece(extent, grain, context.threads, [&](int64_t begin, int64_t end) {
    if (turned)
      std::tie(begin, end) = std::pair(extent - end, extent - begin);
    for (int64_t i = begin; i < end; ++i)
      to[(size_t)i] = from[(size_t)i] * 0.5f + 1;
  });
}

void MeasuredTeam::exchange(size_t bytes) {
  const size_t count = bytes / sizeof(float);
  std::memcpy(to.get(), from.get(), bytes);
  std::memcpy(to.get() + count, to.get(), bytes);
  for (size_t i = 0; i < count; ++i)
    to[i] += to[i + count];
}

double MeasuredTeam::usual(std::vector<double> &seconds) {
  llvm::sort(seconds);
  calm &= seconds[seconds.size() * 3 / 4] <= seconds[seconds.size() / 2] * (1 + mostSpread);
  return seconds[1];
}
