#pragma once
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/SamplePlaces.h"

namespace divisi::training {

/// A number of terms that grows with the number n of rows: N = times * n^power, or N (N - 1), the pairs of different
/// ones, or N - 1.
struct TermCount {
  enum Kind { all, pairs, lessOne };
  Kind kind = all;
  double times = 1;
  int power = 1;

  double of(double rows) const;
  /// Of a number of rows in a floating-point type; at least 1.
  mlir::Value of(graph::GraphBuilder &b, mlir::Value rows) const;
};

/// Finds where @loss divides sums over samples by their number of terms, as means and unbiased deviations do.
class SampleSums {
public:
  explicit SampleSums(const SamplePlaces &places) : places(places) {}

  /// The divisor of a quotient in numbers of samples; `before`: the one by which the file has divided already, and which
  /// this one replaces.
  struct Division {
    TermCount by;
    std::optional<TermCount> before;
  };
  /// To be called for each operation in order. None if the operation is no such quotient.
  std::optional<Division> add(mlir::Operation &op);
  /// Says that two values are the same.
  void setAlike(mlir::Value value, mlir::Value known);

private:
  struct Sum {
    int64_t terms = 0;      // for each sample, or tuple of samples
    int dims = 0;           // of samples
    bool ofSquares = false; // of distances to the mean over samples
    mlir::Operation *last = nullptr; // the reduction that made it,
    int64_t lastTerms = 0;           // and what this one has summed,
    int lastDims = 0;                // in how many dimensions of samples
  };
  struct Variance {
    TermCount count;
    double divisor = 1; // of the mean
  };
  std::optional<Division> divide(mlir::Value quotient, Sum sum, double divisor, bool isOfOneNode);
  std::optional<Sum> sumOf(mlir::Operation &op) const;
  void addDistances(mlir::Operation &op);

  const SamplePlaces &places;
  llvm::DenseMap<mlir::Value, Sum> sums;           // not divided by their number of samples
  llvm::DenseMap<mlir::Value, Variance> variances; // divided by it
  llvm::DenseSet<mlir::Value> means, centred, squares;
};

} // namespace divisi::training
