#include "passes/Planning/Cost/CostModel.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using llvm::ArrayRef;
using Precision = Cluster::Device::Precision;

CostModel::CostModel(const Cluster &cluster, const Mesh &mesh) : cluster(cluster), mesh(mesh) {
  for (size_t set = 1; set < size_t{1} << mesh.axes.size(); ++set) {
    std::vector<int> axes;
    for (size_t a = 0; a < mesh.axes.size(); ++a)
      if (set >> a & 1)
        axes.push_back(a);
    links.emplace(axes, linkOf(cluster, mesh, axes));
  }
}

double CostModel::item(double flops, double bytes, Precision precision, bool launches) const {
  const Cluster::Device &device = cluster.device;
  return std::max({flops / (device.flops[precision] * device.computeEfficiency),
                   bytes / (device.bandwidth * device.memoryEfficiency), flops > 0 && launches ? device.launch : 0});
}

double CostModel::compute(double flops, double bytes, Precision precision) const {
  return item(flops, bytes, precision, /*launches=*/true);
}

double CostModel::step(const ReshardStep &step, int64_t bytes) const {
  std::vector<int> axes(step.axes.begin(), step.axes.end());
  std::sort(axes.begin(), axes.end());
  return stepSeconds(links.at(axes), step.kind, bytes);
}

double CostModel::reshard(int64_t whole, const Sharding &from, const Sharding &to) const {
  int64_t local = whole;
  for (const Axes &axes : from.dims)
    local /= mesh.parts(axes);
  double seconds = 0;
  for (const ReshardStep &s : planReshard(from, to)) {
    int64_t bytes = bytesOfStep(mesh, s, local);
    seconds += step(s, bytes);
  }
  return seconds;
}

double planning::localFlops(const Problem::Op &op, const Mesh &mesh, const FactorAxes &factors) {
  double pieces = 1;
  for (const Axes &axes : factors)
    pieces *= mesh.parts(axes);
  return op.flops / pieces;
}

Precision planning::precisionOf(const Problem &problem, const Problem::Op &op) {
  if (op.tf32)
    return Cluster::Device::tf32;
  if (op.operands.empty() || problem.tensors[op.operands[0]].elementBytes != 2)
    return Cluster::Device::fp32;
  return op.fp16 ? Cluster::Device::fp16 : Cluster::Device::bf16;
}

double planning::localBytes(const Problem::Tensor &tensor, const Mesh &mesh, const Sharding &sharding) {
  double bytes = tensor.bytes();
  for (const Axes &axes : sharding.dims)
    bytes /= mesh.parts(axes);
  return bytes;
}
