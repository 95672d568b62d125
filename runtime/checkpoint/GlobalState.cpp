#include "runtime/checkpoint/GlobalState.h"
#include "runtime/comm/Communicator.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

namespace {
/// Whether `rank` is the first of the owner's stage that has its piece: its index is 0 along every axis that does not
/// split the tensor.
bool isFirstOwner(const Manifest &manifest, const Tensor &owner, int64_t rank) {
  const Mesh &mesh = manifest.mesh;
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
} // namespace

bool GlobalState::writes() const { return !ranks || ranks->rank() == 0; }

Status GlobalState::agree(const Status &mine) const { return ranks ? ranks->agree(mine).status() : mine; }

Result<const char *> GlobalState::whole(const State &state) {
  const Tensor &owner = state.owner();
  if (!ranks || (!owner.isSplit() && owner.stage <= 0))
    return writes() ? arena.at(state) : nullptr;
  auto bytes = static_cast<size_t>(owner.bytes);
  if (!writes()) {
    Status status = isFirstOwner(manifest_, owner, ranks->rank()) ? ranks->send(0, arena.at(state), bytes) : Status();
    return status.ok() ? Result<const char *>(nullptr) : status;
  }
  tensor.resize(static_cast<size_t>(owner.wholeBytes()));
  piece.resize(bytes);
  int64_t width = widthOf(state.dtype);
  for (int rank = 0; rank < ranks->size(); ++rank) {
    if (!isFirstOwner(manifest_, owner, rank))
      continue;
    if (rank != 0)
      if (Status status = ranks->receive(rank, piece.data(), bytes); !status.ok())
        return status;
    const char *from = rank == 0 ? arena.at(state) : piece.data();
    manifest_.sliceOf(owner, rank).forEachRun([&](int64_t there, int64_t here, int64_t count) {
      std::memcpy(tensor.data() + there * width, from + here * width, static_cast<size_t>(count * width));
    });
  }
  return static_cast<const char *>(tensor.data());
}
