// Measures what this machine reaches, each core alone and all of them together.
#include "divisi/MeasureMachine.h"
#include "runtime/core/Context.h"
#include "runtime/core/Cores.h"
#include "runtime/core/Launch.h"
#include "runtime/devices/cpu/Blas.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>

using namespace divisi;
using namespace divisi::tools;

namespace {

/// Rounds of all measurements; their medians count. All of it takes less than two seconds.
constexpr int rounds = 5;
/// A measurement whose rounds differ by more than this share (upper quartile over median) was disturbed by other load.
constexpr double mostSpread = 0.25;
/// The bytes of kernels that are measured, for all cores: small ones, caches, and the memory. They are read in one half and
/// written in the other.
constexpr size_t sizes[] = {16 << 10, 64 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20, 256 << 20};
/// The elements of a kernel that are worth a thread, as in programs.
constexpr int64_t grain = 8192;
/// The sides of square matmuls; the last one stands for all larger ones.
constexpr int sides[] = {8, 16, 32, 64, 128, 256, 512};
constexpr int64_t largest = sides[std::size(sides) - 1];
/// Channels and the side of 8 images, of convolutions of 3 x 3 points; the last one stands for all larger ones.
constexpr int64_t images[][2] = {{8, 8}, {32, 16}, {64, 32}};
constexpr size_t messageBytes = 1 << 20;

constexpr DivisiGemm matmul(int64_t side, int type) {
  DivisiGemm gemm = {1, 1, side, side, side, 0, 0, side, side, side};
  gemm.type = type, gemm.result_type = DIVISI_F32;
  return gemm;
}

constexpr DivisiConv convolution(int64_t channels, int64_t side) {
  return {2, 8, 1, channels, channels, {side, side, 1}, {side, side, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 0},
          1, DIVISI_F32, 0, 0};
}

/// Seconds of calls of `work`, for about 10 ms, each.
template <typename Work> double secondsOf(const Work &work) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::duration<double> least(0.01);
  auto begin = Clock::now();
  std::chrono::duration<double> passed;
  int64_t calls = 0;
  do {
    work();
    passed = Clock::now() - begin;
  } while (++calls, passed < least);
  return passed.count() / (double)calls;
}

/// A team of threads that computes as programs do.
class Team {
public:
  /// One of `teams`, which meet at `start` before each measurement.
  Team(int threads, int teams, std::barrier<> &start)
      : start(start), teams(teams), context(threads), from(std::max(sizes[std::size(sizes) - 1] / teams, leastBytes) / 8),
        to(from.size()) {
    for (int side : sides)
      products.push_back(matmul(side, DIVISI_F32));
    for (auto [channels, side] : images)
      filters.push_back(convolution(channels, side));
  }

  /// Not beside other teams: OpenBLAS has one number of threads for all.
  void prepare() { runtime::prepareBlas(&context); }

  void run() {
    divisi_team_set_size(context.threads);
    std::vector<double> narrow, messages;
    std::vector<std::vector<double>> matmuls(std::size(sides)), convolutions(std::size(images)), kernels(std::size(sizes));
    for (int round = 0; round < rounds; ++round) {
      for (auto [gemm, times] : llvm::zip(products, matmuls))
        times.push_back(measure([&] { multiply(gemm); }));
      for (auto [conv, times] : llvm::zip(filters, convolutions))
        times.push_back(measure([&] { convolve(conv); }));
      narrow.push_back(measure([&] { multiply(bfloats); }));
      messages.push_back(measure([&] { exchange(); }));
      for (auto [size, times] : llvm::zip(sizes, kernels))
        times.push_back(measure([&] { move(size / teams); }));
    }
    auto flopsOf = [](const DivisiGemm &gemm) { return 2.0 * (double)(gemm.m * gemm.n * gemm.k); };
    for (auto [gemm, times] : llvm::zip(products, matmuls))
      rates.matmuls.push_back({flopsOf(gemm), flopsOf(gemm) / median(times)});
    for (auto [conv, times] : llvm::zip(filters, convolutions)) {
      double flops = 2.0 * (double)(conv.batch * conv.in_channels * conv.out_channels * conv.in[0] * conv.in[1] * 9);
      rates.convolutions.push_back({flops, 3 * flops / median(times)});
    }
    for (auto [size, times] : llvm::zip(sizes, kernels))
      rates.kernels.push_back({(double)(size / teams), (double)(size / teams) / median(times)});
    rates.flops = rates.matmuls.back().rate;
    rates.bf16 = flopsOf(bfloats) / median(narrow);
    rates.bandwidth = rates.kernels.back().rate;
    message = messageBytes / median(messages);
  }

  planning::Rates rates;
  double message = 0;
  bool calm = true;

private:
  template <typename Work> double measure(const Work &work) {
    start.arrive_and_wait();
    return secondsOf(work);
  }

  void multiply(const DivisiGemm &gemm) {
    void *buffers[] = {from.data(), from.data() + largest * largest, to.data()};
    divisi_gemm(&context, &gemm, buffers);
  }

  /// A convolution and its gradients.
  void convolve(const DivisiConv &conv) {
    void *buffers[] = {from.data(), from.data() + from.size() / 2, to.data()};
    divisi_conv_forward(&context, &conv, buffers);
    divisi_conv_input_grad(&context, &conv, buffers);
    divisi_conv_filter_grad(&context, &conv, buffers);
  }

  /// A kernel that reads and writes `size` bytes together.
  void move(size_t size) {
    runtime::forEachPiece((int64_t)(size / 2 / sizeof(float)), grain, context.threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[(size_t)i] = from[(size_t)i] * 0.5f + 1;
    });
  }

  /// What a rank does in an all_reduce: it packs what it sends, and adds what it receives to what it has.
  void exchange() {
    constexpr size_t count = messageBytes / sizeof(float);
    std::memcpy(to.data(), from.data(), messageBytes);
    std::memcpy(to.data() + count, to.data(), messageBytes);
    for (size_t i = 0; i < count; ++i)
      to[i] += to[i + count];
  }

  double median(std::vector<double> &times) {
    llvm::sort(times);
    double middle = times[times.size() / 2];
    calm &= times[times.size() * 3 / 4] <= middle * (1 + mostSpread);
    return middle;
  }

  static constexpr size_t leastBytes = 16 << 20; // for the largest convolution
  static constexpr DivisiGemm bfloats = matmul(largest, DIVISI_BF16);
  std::vector<DivisiGemm> products;
  std::vector<DivisiConv> filters;

  std::barrier<> &start;
  size_t teams;
  DivisiContext context;
  std::vector<float> from, to;
};

} // namespace

std::optional<planning::Calibration> tools::measureMachine(int cores) {
  planning::Calibration result;
  {
    std::barrier start(cores);
    std::vector<std::unique_ptr<Team>> teams;
    for (int core = 0; core < cores; ++core)
      teams.push_back(std::make_unique<Team>(1, cores, start));
    DivisiContext enough(cores + 2); // OpenBLAS would wait for memory for ever: is there enough for it and the threads' own?
    runtime::prepareBlas(&enough);
    for (auto &team : teams)
      team->prepare();
    std::vector<std::jthread> threads;
    for (auto [core, team] : llvm::enumerate(teams))
      threads.emplace_back([core, &team] {
        runtime::keepThreadOn((int)core);
        team->run();
      });
    threads.clear();
    if (!llvm::all_of(teams, [](const auto &team) { return team->calm; }))
      return std::nullopt;
    result.core = teams[0]->rates;
    result.message = teams[0]->message;
  }
  std::barrier start(1);
  Team team(cores, 1, start);
  team.prepare();
  team.run();
  result.all = team.rates;
  return team.calm ? std::optional(result) : std::nullopt;
}
