#pragma once
#include "passes/Planning/Cost/Cluster.h"
#include "runtime/core/Context.h"

#include <barrier>
#include <memory>
#include <vector>

namespace divisi::tools {

/// A team of threads that computes as programs do, and what it reaches. Rounds of teams alternate, because a machine's speed
/// changes; the second fastest of each measurement counts.
class MeasuredTeam {
public:
  /// One of `teams`, which meet at `start` before each measurement.
  MeasuredTeam(int threads, int teams, std::barrier<> &start);

  /// Before each round, not beside other teams: OpenBLAS has one number of threads for all.
  void prepare();
  /// Measures everything once.
  void runRound();
  /// Computes the results of at least two rounds.
  void finish();

  planning::Rates rates;
  double message = 0, large = 0; // as in planning::Calibration
  bool calm = true;              // whether no other load disturbed a measurement

private:
  void multiply(const DivisiGemm &gemm);
  /// A convolution and the gradient of its images.
  void convolve(const DivisiConv &conv);
  /// The gradient of its filters.
  void deriveFilters(const DivisiConv &conv);
  /// A kernel that reads and writes `size` bytes together.
  void move(size_t size);
  /// What a rank does in an all_reduce: it packs what it sends, and adds what it receives to what it has.
  void exchange(size_t bytes);
  double usual(std::vector<double> &seconds);

  std::vector<DivisiGemm> products, narrow;
  std::vector<DivisiConv> convolutions;

  std::barrier<> &start;
  size_t teams;
  DivisiContext context;
  int64_t moves = 0;
  size_t reads, writes; // elements of `from` and `to`
  std::unique_ptr<float[]> from, to;
  std::vector<std::vector<double>> times; // seconds, by measurement and round
};

} // namespace divisi::tools
