#include "passes/Planning/Cost/Collectives.h"
#include "llvm/ADT/DenseMap.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using llvm::ArrayRef;
using Kind = ReshardStep::Kind;

double planning::bytesSent(Kind kind, int64_t members, double bytes) {
  double once = (double)(members - 1) / (double)members * bytes;
  switch (kind) {
  case Kind::allReduce:
    return 2 * once;
  case Kind::reduceScatter:
  case Kind::allGather:
  case Kind::allToAll:
    return once;
  case Kind::slice:
    return 0;
  }
  return 0;
}

double planning::bytesSent(const Link &link, Kind kind, double bytes) {
  return kind == Kind::allReduce && link.byHosts ? link.byHosts->bytesSent(bytes)
                                                 : bytesSent(kind, link.members, bytes);
}

double planning::uncachedSeconds(double uncached, double sent) {
  return uncached * std::max(0.0, sent - Calibration::cachedMessage);
}

/// In caches.
static double cachedSeconds(const Link &link, Kind kind, double bytes) {
  double ring = bytesSent(kind, link.members, bytes) / link.bandwidth;
  switch (kind) {
  case Kind::allReduce:
    if (link.byHosts)
      return link.byHosts->seconds(bytes);
    return std::min(2 * link.pass + ring, link.tree + 2 * bytes / link.bandwidth);
  case Kind::reduceScatter:
  case Kind::allGather:
    return link.pass + ring;
  case Kind::allToAll:
    return link.messages + bytes * link.exchange;
  case Kind::slice:
    return 0;
  }
  return 0;
}

double planning::stepSeconds(const Link &link, Kind kind, double bytes) {
  return cachedSeconds(link, kind, bytes) + uncachedSeconds(link.uncached, bytesSent(link, kind, bytes));
}

double planning::permuteSeconds(const Link &link, double bytes) {
  return link.latency + bytes / link.bandwidth + uncachedSeconds(link.uncached, bytes);
}

double planning::transferSeconds(const Cluster &cluster, ArrayRef<Transfer> transfers, double bytes) {
  double latency = 0, secondsPerByte = 0, uncachedPerByte = 0;
  for (auto [level, size] : llvm::zip(cluster.levels, cluster.childSizes())) {
    llvm::DenseMap<int64_t, int64_t> out, in;
    for (auto [from, to] : transfers)
      if (from / size != to / size) {
        latency = level.latency;
        int64_t busiest = std::max(++out[from / size], ++in[to / size]);
        secondsPerByte = std::max(secondsPerByte, (double)busiest / level.bandwidth);
        uncachedPerByte = std::max(uncachedPerByte, (double)busiest * level.uncached);
      }
  }
  return latency + bytes * secondsPerByte + uncachedSeconds(uncachedPerByte, bytes);
}

const char *planning::collectiveName(ReshardStep::Kind kind) {
  using Kind = ReshardStep::Kind;
  return kind == Kind::allReduce       ? "all_reduce"
         : kind == Kind::reduceScatter ? "reduce_scatter"
         : kind == Kind::allGather     ? "all_gather"
         : kind == Kind::allToAll      ? "all_to_all"
                                       : "slice";
}

std::vector<Mesh> planning::enumerateMeshes(const Cluster &cluster, int64_t devices) {
  std::vector<Mesh> meshes = {{{{"data", devices}}}};
  for (int64_t data = 2; data < devices; ++data) {
    int64_t model = devices / data;
    if (devices % data != 0)
      continue;
    Mesh outside{{{"data", data}, {"model", model}}}, inside{{{"model", model}, {"data", data}}};
    meshes.push_back(outside);
    if (linkOf(cluster, outside, {0}) != linkOf(cluster, inside, {1}) ||
        linkOf(cluster, outside, {1}) != linkOf(cluster, inside, {0}))
      meshes.push_back(inside);
  }
  return meshes;
}

/// The number of borders that groups cross, over all axes of the mesh and levels of the cluster.
static int crossings(const Cluster &cluster, const Mesh &mesh) {
  int count = 0;
  int64_t inside = 1; // devices of the inner axes
  for (const auto &axis : llvm::reverse(mesh.axes)) {
    for (int64_t unit : cluster.childSizes())
      count += inside < unit && unit < inside * axis.size;
    inside *= axis.size;
  }
  return count;
}

std::vector<Mesh> planning::splitAxes(const Cluster &cluster, const Mesh &mesh) {
  std::vector<Mesh> result;
  if (mesh.axes.size() != 2)
    return result;
  for (size_t a : {1, 0})
    for (int64_t inner = 2; inner < mesh.axes[a].size; ++inner)
      if (mesh.axes[a].size % inner == 0) {
        Mesh &split = result.emplace_back(mesh);
        split.axes[a].size /= inner;
        split.axes.insert(split.axes.begin() + a + 1, {innerAxis.str(), inner});
      }
  llvm::stable_sort(result,
                    [&](const Mesh &x, const Mesh &y) { return crossings(cluster, x) < crossings(cluster, y); });
  return result;
}
