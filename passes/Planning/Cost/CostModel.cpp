#include "passes/Planning/Cost/CostModel.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using llvm::ArrayRef;

CostModel::CostModel(const Cluster &cluster, const Mesh &mesh)
    : cluster(cluster), mesh(mesh), prices(cluster.device), links(1) {
  for (size_t set = 1; set < size_t{1} << mesh.axes.size(); ++set) {
    Axes axes;
    for (size_t a = 0; a < mesh.axes.size(); ++a)
      if (set >> a & 1)
        axes.push_back(a);
    links.push_back(linkOf(cluster, mesh, axes));
  }
}

const Link &CostModel::linkOver(const Axes &over) const {
  size_t set = 0;
  for (int axis : over)
    set |= size_t{1} << axis;
  return links[set];
}

double CostModel::step(const ReshardStep &step, int64_t bytes) const {
  return stepSeconds(linkOver(step.axes), step.kind, bytes);
}

double CostModel::bytesSent(const ReshardStep &step, int64_t bytes) const {
  return planning::bytesSent(linkOver(step.axes), step.kind, bytes);
}

double CostModel::reshard(int64_t whole, const Sharding &from, const Sharding &to) const {
  return reshard(whole, from, planReshard(from, to));
}

double CostModel::reshard(int64_t whole, const Sharding &from, llvm::ArrayRef<ReshardStep> steps) const {
  int64_t local = whole;
  for (const Axes &axes : from.dims)
    local /= mesh.parts(axes);
  double seconds = 0;
  for (const ReshardStep &s : steps) {
    int64_t bytes = bytesOfStep(mesh, s, local);
    seconds += step(s, bytes);
  }
  return seconds;
}

step::Work planning::localWork(const Problem &problem, const Problem::Op &op, const Mesh &mesh,
                               const FactorAxes &factors) {
  step::Work work;
  work.form = op.form;
  work.causal = op.causal;
  work.images = op.images;
  work.flops = op.flops;
  llvm::SmallVector<double> sizes;
  for (auto [factor, axes] : llvm::zip(op.rule.factors, factors)) {
    double parts = mesh.parts(axes);
    work.flops *= (factor.skewed && parts > 1 ? 2 : 1) / parts;
    sizes.push_back(factor.size / parts);
  }
  double elements = 1;
  if (!op.results.empty()) {
    elements = (double)problem.tensors[op.results[0]].elements();
    for (const auto &list : op.rule.results[0])
      for (int factor : list)
        elements /= mesh.parts(factors[factor]);
  }
  work.shapeBy(op.rule, sizes, elements);
  return work;
}

double planning::localBytes(const Problem::Tensor &tensor, const Mesh &mesh, const Sharding &sharding) {
  double bytes = tensor.bytes();
  for (const Axes &axes : sharding.dims)
    bytes /= mesh.parts(axes);
  return bytes;
}

int64_t planning::localWorkspace(const Problem &problem, const Expansion &expansion, const Mesh &mesh, int op) {
  const Problem::Op &entry = problem.ops[op];
  auto bytesOf = [&](int v) {
    const auto &version = expansion.versions[v];
    return localBytes(problem.tensors[version.tensor], mesh, version.sharding);
  };
  const int result = entry.results[0];
  double bytes = 0;
  for (int version : expansion.operands[op])
    bytes += bytesOf(version);
  for (int t : entry.results)
    bytes += bytesOf(expansion.produced[t]);
  return entry.workspace.bytes(bytesOf(expansion.produced[result]) / problem.tensors[result].elementBytes, bytes);
}
