#include "runtime/checkpoint/Shards.h"

#include <algorithm>

using namespace divisi::runtime;

Shape Shard::shape() const {
  Shape sizes;
  for (size_t d = 0; d < slice.local.size(); ++d)
    sizes.push_back(slice.inside(d));
  return sizes;
}

bool divisi::runtime::isFirstOwner(const Manifest &manifest, const Tensor &owner, int64_t rank) {
  const Mesh &mesh = manifest.mesh;
  if (rank >= mesh.size()) // a server's state is that of the workers
    return false;
  int64_t stageAxis = owner.stage < 0 ? -1 : mesh.stageAxis().value_or(-1);
  if (owner.stage >= 0 && manifest.stageOf(rank) != owner.stage)
    return false;
  for (int64_t axis = 0; axis < static_cast<int64_t>(mesh.axes().size()); ++axis) {
    bool splits = std::any_of(owner.split.begin(), owner.split.end(), [&](const std::vector<int64_t> &axes) {
      return std::find(axes.begin(), axes.end(), axis) != axes.end();
    });
    if (!splits && axis != stageAxis && mesh.index(rank, axis) != 0)
      return false;
  }
  return true;
}

std::vector<Shard> divisi::runtime::shardsOf(const Manifest &manifest, int64_t rank) {
  std::vector<Shard> shards;
  for (const State &state : manifest.state) {
    int64_t first = manifest.replicasOf(state) > 0 ? manifest.mesh.withIndex(rank, manifest.sync->axis, 0) : rank;
    if (!isFirstOwner(manifest, state.owner(), first))
      continue;
    Shard shard{&state, manifest.storedSlice(state, state.owner(), rank)};
    Shape shape = shard.shape();
    // a rank may have only padding
    if (state.owner().wholeBytes() == 0 || std::find(shape.begin(), shape.end(), 0) == shape.end())
      shards.push_back(std::move(shard));
  }
  return shards;
}
