//===- Routes.h - pairs of devices between which messages go -----*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_ROUTES_H
#define DIVISI_RUNTIME_CORE_ROUTES_H

#include "runtime/core/Mesh.h"

#include <map>
#include <utility>

namespace divisi::runtime {

/// One direction between two ranks, whose devices exchange messages without the hosts' memory.
struct Route {
  int from = 0, to = 0;
  int64_t bytes = 0; ///< of the largest message
};

/// The routes of messages between stages (the largest bytes by sender and receiver), in the same order on all ranks.
/// Replicas that take microbatches in turn have one for each microbatch until they repeat. A rank has only as many as
/// its device has queues for, beside `groups` communicators of collectives; microbatches whose turn comes first go
/// first. Stages that lack axes of each other have none, unless they take turns.
std::vector<Route> routesOf(const Mesh &mesh, const std::map<std::pair<int64_t, int64_t>, int64_t> &messages,
                            size_t groups);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_ROUTES_H
