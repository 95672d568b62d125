#pragma once
#include "dialects/Dist/Reshard.h"
#include "passes/Planning/Cost/Collectives.h"
#include "passes/Planning/Cost/Prices.h"
#include "passes/Planning/Expansion.h"

#include <vector>

namespace divisi::planning {

/// What operations and reshards cost on the devices of a mesh. Times are in seconds.
class CostModel {
public:
  CostModel(const Cluster &cluster, const dist::Mesh &mesh);

  /// One step of a reshard; `bytes` as dist::bytesOfStep counts them.
  double step(const dist::ReshardStep &step, int64_t bytes) const;
  /// The bytes that a device sends in it.
  double bytesSent(const dist::ReshardStep &step, int64_t bytes) const;
  /// All steps; `whole` are the bytes of the whole tensor.
  double reshard(int64_t whole, const dist::Sharding &from, const dist::Sharding &to) const;
  double reshard(int64_t whole, const dist::Sharding &from, llvm::ArrayRef<dist::ReshardStep> steps) const;

  const Cluster cluster;
  const dist::Mesh mesh;
  const Prices prices;

private:
  const Link &linkOver(const dist::Axes &axes) const;

  std::vector<Link> links; // by set of axes: bit a is axis a
};

/// What one device does of an operation under a split, but for the bytes.
step::Work localWork(const Problem &problem, const Problem::Op &op, const dist::Mesh &mesh,
                     const dist::FactorAxes &factors);
/// Bytes of a device's piece.
double localBytes(const Problem::Tensor &tensor, const dist::Mesh &mesh, const dist::Sharding &sharding);
/// Bytes of the workspace of an operation, in which a GPU's library computes a device's part of it.
int64_t localWorkspace(const Problem &problem, const Expansion &expansion, const dist::Mesh &mesh, int op);

} // namespace divisi::planning
