#include "runtime/checkpoint/GlobalState.h"
#include "runtime/checkpoint/Shards.h"
#include "runtime/comm/Communicator.h"

#include <cstring>

using namespace divisi::runtime;

bool GlobalState::writes() const { return !ranks || ranks->rank() == 0; }

Status GlobalState::agree(const Status &mine) const { return ranks ? ranks->agree(mine).status() : mine; }

Result<const char *> GlobalState::whole(const State &given) {
  const State *average = averaged && given.role == Role::Parameter ? manifest_.averageOf(given) : nullptr;
  const State &state = average ? *average : given;
  const Tensor &owner = state.owner();
  if (!owner.isSplit() && (!ranks || owner.stage <= 0))
    return writes() ? arena.at(state) : nullptr;
  auto bytes = static_cast<size_t>(owner.bytes);
  char turn = 0; // ranks send when they are asked to: what came early would be kept in memory
  if (!writes()) {
    Status status;
    if (isFirstOwner(manifest_, owner, ranks->rank()))
      if (status = ranks->receive(0, &turn, 1); status.ok())
        status = ranks->send(0, arena.at(state), bytes);
    return status.ok() ? Result<const char *>(nullptr) : status;
  }
  tensor.resize(static_cast<size_t>(owner.wholeBytes()));
  piece.resize(bytes);
  int64_t width = widthOf(state.dtype);
  const int size = ranks ? ranks->size() : 1; // of one rank, padding is left out
  for (int rank = 0; rank < size; ++rank) {
    if (!isFirstOwner(manifest_, owner, rank))
      continue;
    if (rank != 0) {
      Status status = ranks->send(rank, &turn, 1);
      if (status.ok())
        status = ranks->receive(rank, piece.data(), bytes);
      if (!status.ok())
        return status;
    }
    const char *from = rank == 0 ? arena.at(state) : piece.data();
    manifest_.sliceOf(owner, rank).forEachRun([&](int64_t there, int64_t here, int64_t count) {
      std::memcpy(tensor.data() + there * width, from + here * width, static_cast<size_t>(count * width));
    });
  }
  return static_cast<const char *>(tensor.data());
}
