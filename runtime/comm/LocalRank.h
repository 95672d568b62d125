//===- LocalRank.h - a rank's number on its host ----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_LOCALRANK_H
#define DIVISI_RUNTIME_COMM_LOCALRANK_H

#include "runtime/core/Status.h"

#include <optional>

namespace divisi::runtime {

/// This rank's number on its host as the launcher says: LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID of a step,
/// or MPI_LOCALRANKID. It is right in containers, too, each of which may have a host name of its own. Null without one;
/// fails if it is no number.
Result<std::optional<int>> localRankOfLauncher();

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_LOCALRANK_H
