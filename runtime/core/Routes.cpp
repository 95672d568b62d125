#include "runtime/core/Routes.h"

#include <algorithm>
#include <numeric>

using namespace divisi::runtime;

namespace {
// Streams that share a queue of a GPU wait for each other. The streams of computing, of collectives and of inputs have one each,
// a communicator two, and a route one more.
constexpr size_t queues = 32, ofRank = 3, ofCommunicator = 2, ofRoute = ofCommunicator + 1;
} // namespace

std::vector<Route> divisi::runtime::routesOf(const Mesh &mesh,
                                             const std::map<std::pair<int64_t, int64_t>, int64_t> &messages,
                                             size_t groups) {
  std::vector<Route> routes;
  std::optional<int64_t> axis = mesh.stageAxis();
  if (!axis || (mesh.isNarrow() && !mesh.takesTurns()))
    return routes;
  size_t used = ofRank + ofCommunicator * groups, most = used < queues ? (queues - used) / ofRoute : 0;
  std::map<std::pair<int64_t, int64_t>, std::vector<int>> ranks; // by stage and replica
  for (int rank = 0; rank < mesh.size(); ++rank) {
    int64_t stage = mesh.index(rank, *axis);
    std::optional<int64_t> turns = mesh.turnsOf(stage);
    ranks[{stage, turns ? mesh.index(rank, *turns) : 0}].push_back(rank);
  }
  auto period = [&](int64_t a, int64_t b) { return std::lcm(mesh.replicasOf(a), mesh.replicasOf(b)); };
  int64_t longest = 0;
  for (const auto &[stages, bytes] : messages)
    longest = std::max(longest, period(stages.first, stages.second));
  std::vector<size_t> counts(static_cast<size_t>(mesh.size()));
  for (int64_t microbatch = 0; microbatch < longest; ++microbatch)
    for (const auto &[stages, bytes] : messages) {
      if (microbatch >= period(stages.first, stages.second))
        continue;
      for (int from : ranks.at({stages.first, microbatch % mesh.replicasOf(stages.first)})) {
        int to = mesh.inTurn(from, stages.second, microbatch);
        size_t &sent = counts[static_cast<size_t>(from)], &received = counts[static_cast<size_t>(to)];
        if (from == to || sent >= most || received >= most)
          continue;
        routes.push_back({from, to, bytes});
        ++sent, ++received;
      }
    }
  return routes;
}
