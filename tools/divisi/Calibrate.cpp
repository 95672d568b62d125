// Measures what this machine reaches with all of its cores, once: figures for plans of cpu:N.
#include "divisi/Calibrate.h"
#include "compiler/Profile/Calibrations.h"
#include "runtime/core/Context.h"
#include "runtime/core/Launch.h"
#include "runtime/devices/cpu/Blas.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace divisi;
using namespace divisi::tools;
using planning::Calibration;

namespace {

/// Rounds of all measurements; their medians count. All of it takes about a second.
constexpr int rounds = 7;
/// A measurement whose rounds differ by more than this share (upper quartile over median) was disturbed by other load.
constexpr double mostSpread = 0.25;
/// The bytes of kernels that are measured, for all cores: caches, and the memory. They are read in one half and written
/// in the other.
constexpr size_t sizes[] = {256 << 10, 2 << 20, 16 << 20, 64 << 20, 256 << 20};
/// The sides of square matmuls; the last one stands for all larger ones.
constexpr int sides[] = {32, 64, 128, 256, 512};
constexpr size_t messageBytes = 4 << 20;

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

class Measurement {
public:
  explicit Measurement(int threads) : context(threads), from(sizes[std::size(sizes) - 1] / 8), to(from.size()) {
    runtime::prepareBlas(&context);
  }

  /// Null if other load disturbed it.
  std::optional<Calibration> run() {
    std::vector<double> message, narrow;
    std::vector<std::vector<double>> matmuls(std::size(sides)), kernels(std::size(sizes));
    for (int round = 0; round < rounds; ++round) {
      for (auto [side, times] : llvm::zip(sides, matmuls))
        times.push_back(secondsOf([&] { multiply(side); }));
      narrow.push_back(secondsOf([&] { multiplyNarrow(); }));
      message.push_back(secondsOf([&] { std::memcpy(to.data(), from.data(), messageBytes); }));
      for (auto [size, times] : llvm::zip(sizes, kernels))
        times.push_back(secondsOf([&] { move(size); }));
    }
    Calibration result;
    for (auto [side, times] : llvm::zip(sides, matmuls)) {
      double flops = 2.0 * side * side * side;
      result.matmuls.push_back({flops, flops / median(times)});
    }
    result.flops = result.matmuls.back().rate;
    result.bf16 = result.matmuls.back().size / median(narrow);
    result.message = messageBytes / median(message) / 2; // sender and receiver copy it
    for (auto [size, times] : llvm::zip(sizes, kernels))
      result.caches.push_back({(double)size, (double)size / median(times)});
    result.bandwidth = result.caches.back().rate;
    return calm ? std::optional(result) : std::nullopt;
  }

private:
  void multiply(int side) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, side, side, side, 1, from.data(), side,
                from.data() + side * side, side, 0, to.data(), side);
  }

  /// A matmul of bf16 of the largest size, as programs compute it.
  void multiplyNarrow() {
    void *buffers[] = {from.data(), from.data() + largest * largest, to.data()};
    divisi_gemm(&context, &bfloats, buffers);
  }

  /// A kernel that reads and writes `size` bytes together.
  void move(size_t size) {
    runtime::forEachPiece((int64_t)(size / 2 / sizeof(float)), 1 << 10, context.threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[(size_t)i] = from[(size_t)i] * 0.5f + 1;
    });
  }

  double median(std::vector<double> &times) {
    llvm::sort(times);
    double middle = times[times.size() / 2];
    calm &= times[times.size() * 3 / 4] <= middle * (1 + mostSpread);
    return middle;
  }

  static constexpr int64_t largest = sides[std::size(sides) - 1];
  static constexpr DivisiGemm bfloats = {1, 1, largest, largest, largest, 0, 0, largest, largest, largest,
                                         0, 0, 0, 0, 0, 0, DIVISI_BF16, DIVISI_F32, 0, 0, 0};

  DivisiContext context;
  std::vector<float> from, to;
  bool calm = true;
};
} // namespace

llvm::Expected<planning::Machine> tools::calibratedMachine(Calibrating how) {
  planning::Machine machine = planning::thisMachine();
  std::string file = compiler::Calibrations::defaultFile(), name = compiler::nameOfThisMachine();
  if (how == Calibrating::off || file == "off")
    return machine;
  auto known = compiler::Calibrations::read(file);
  if (!known)
    return known.takeError();
  if (auto found = known->machines.find(name); found != known->machines.end()) {
    machine.calibration = found->second;
    return machine;
  }
  if (how == Calibrating::known)
    return machine;
  auto measured = Measurement(machine.cores).run();
  if (!measured)
    measured = Measurement(machine.cores).run();
  if (!measured) {
    llvm::errs() << "note: this machine is too busy to be measured: the plan uses rough figures of CPUs; ask again later, or "
                    "use divisi profile\n";
    return machine;
  }
  llvm::errs() << "note: measured this machine (" << name << ") for plans of cpu:N: " << file << "\n";
  known->machines[name] = *measured;
  if (llvm::Error error = known->write(file))
    return error;
  machine.calibration = std::move(measured);
  return machine;
}

llvm::Expected<planning::Machine> tools::machineFor(llvm::StringRef cluster, bool calibrate) {
  return calibratedMachine(calibrate && cluster.starts_with("cpu:") ? Calibrating::measure : Calibrating::off);
}
