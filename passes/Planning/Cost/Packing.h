#pragma once
#include "dialects/Dist/Reshard.h"
#include "passes/Planning/Cost/Prices.h"

namespace divisi::planning {

/// What several tensors in one collective take beside it, on CPUs: the copies of a reduce_scatter's operands into the
/// bucket, or of an all_gather's results out of it, of `bytes` in all. (NCCL takes tensors from where they are; the
/// copies of all_reduces are not counted.)
inline double packingSeconds(const Cluster::Device &device, const Prices &prices, dist::ReshardStep::Kind kind,
                             double bytes) {
  using Kind = dist::ReshardStep::Kind;
  if (device.kind != "cpu" || (kind != Kind::reduceScatter && kind != Kind::allGather))
    return 0;
  step::Work copies;
  copies.bytes = 2 * bytes; // read and written
  return prices.seconds(copies, Cluster::Device::fp32, /*launches=*/0);
}

} // namespace divisi::planning
