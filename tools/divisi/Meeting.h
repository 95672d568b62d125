#pragma once
#include "runtime/comm/tcp/Rendezvous.h"

#include <string>
#include <vector>

namespace divisi::tools {

/// Where the ranks of a job on this host meet.
struct Meeting {
  int64_t ranks;
  int port;
  bool outlives; // it goes on without some of them
};

/// Becomes a rank; returns if the program cannot be started. `listener`: of rank 0.
void becomeRank(const std::vector<std::string> &words, int64_t rank, const Meeting &where,
                const runtime::Socket *listener);

} // namespace divisi::tools
