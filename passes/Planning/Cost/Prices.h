#pragma once
#include "passes/Planning/Cost/Cluster.h"
#include "step/Work.h"

#include "llvm/ADT/ArrayRef.h"

namespace divisi::planning {

/// Columns of a processor's matmul, or channels of its convolution, that are computed together: one vector of AVX-512, or two of
/// AVX2. What is left of the last ones is computed in vain.
inline constexpr double vectorOfCpu = 16;

/// The rate of work of a size; `ofLarger` beyond the last point.
double rateOf(double size, llvm::ArrayRef<Rate> points, double ofLarger);

/// The bytes of a matmul's operands and half of those of its result (which is not arranged), beyond those of a square one with
/// as many FLOPs, of which the rates by FLOPs know. 0 of convolutions.
double packedBytes(const step::Work &work, Cluster::Device::Precision precision);

/// FLOP/s that no matmul exceeds, single or in a batch.
double fastestMatmuls(const Cluster::Device &device);

/// How many times faster `count` of the devices `many` are than a device `one`, at most, if each has its part of the work:
/// it may fit a cache, and threads of several processes do not wait for each other. Packing, batches of matmuls, and ends of rows are
/// left out.
double mostTimesFaster(const Cluster::Device &one, const Cluster::Device &many, int64_t count);

/// The price list of a device: what kernels and calls take on it, in seconds. Every constant has its source in
/// Prices.cpp or Presets.cpp.
class Prices {
public:
  using Precision = Cluster::Device::Precision;

  explicit Prices(const Cluster::Device &device) : device(device) {}

  /// The longer of arithmetic and traffic, each at the rate that this work reaches (roofline, Williams et al. 2009), and
  /// no less than its launches; and the ends of its rows. The precision is that of the operands of products and attention.
  double seconds(const step::Work &work, Precision precision, int launches = 1) const;

private:
  /// The share of the peak that the arithmetic reaches.
  double efficiency(const step::Work &work, Precision precision) const;
  /// What its shape leaves of the largest share that products reach: tiles and waves that are not full, short sums.
  double shareOfShape(const step::Work &work, Precision precision) const;

  Cluster::Device device;
};

} // namespace divisi::planning
