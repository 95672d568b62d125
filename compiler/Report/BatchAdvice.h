#pragma once
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace divisi::compiler {

/// The noise of gradients in the log of a program that was compiled with --log-noise-scale.
struct MeasuredNoise {
  double gradient = 0, variance = 0; // means of grad_sq and grad_variance, both positive
  int64_t first = 0, last = 0;       // the steps that they are over

  /// The noise scale in samples (arXiv 1812.06162).
  double scale() const { return variance / gradient; }

  /// Of the last half of the steps that a log (docs/log.md) has estimates of: the noise grows while a model learns. `name` is the
  /// file's, for errors, which name the line.
  static llvm::Expected<MeasuredNoise> parse(llvm::StringRef name, llvm::StringRef text);
  static llvm::Expected<MeasuredNoise> read(const std::string &file);
};

/// A size of the batch, and what a step takes with it.
struct BatchPrice {
  int64_t size = 0;   // of the dimension
  double samples = 0; // of a step
  double seconds = 0; // of a step
  std::string plan;
  bool fits = true;
};

/// What sizes of the batch are worth.
class BatchAdvice {
public:
  /// `prices` has at least one entry; `present` is the index of the model's own.
  BatchAdvice(std::string dimension, std::string log, MeasuredNoise noise, std::vector<BatchPrice> prices, size_t present)
      : dimension(std::move(dimension)), log(std::move(log)), noise(noise), prices(std::move(prices)), present(present) {}

  /// The progress of a step as a share of that with an endless batch: 1 / (1 + B / b), for a noise scale B and b samples.
  double efficiency(const BatchPrice &price) const { return price.samples / (price.samples + noise.scale()); }
  /// Throughput times statistical efficiency relative to the present batch (Pollux, arXiv 2008.12260): the samples of the present
  /// batch whose progress a second makes.
  double goodput(const BatchPrice &price) const;
  /// The index of the best goodput among those that fit; -1 if none does.
  int best() const;

  /// As JSON (docs/plans.md), and as text for a terminal.
  llvm::json::Object describe() const;
  void print(llvm::raw_ostream &out) const;

private:
  std::string dimension; // that --dim sets; "": the model has none
  std::string log;
  MeasuredNoise noise;
  std::vector<BatchPrice> prices;
  size_t present;
};

} // namespace divisi::compiler
