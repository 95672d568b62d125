#include "passes/Planning/Cost/StepMemory.h"

#include "step/Liveness.h"

#include <numeric>
#include <set>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using Role = Problem::Role;

double planning::bytesOf(const Problem &problem, const Mesh &mesh, const Expansion::Version &version) {
  const Problem::Tensor &tensor = problem.tensors[version.tensor];
  return tensor.splat ? 0 : localBytes(tensor, mesh, version.sharding);
}

bool StepMemory::isArgument(int version) const {
  return all.versions[version].source < 0 && groups.maker[all.versions[version].tensor] < 0;
}

void StepMemory::keepUntilAwaited(llvm::ArrayRef<Prediction::Collective> begun, const std::vector<int> &born,
                                  std::vector<int> &dies) const {
  std::vector<int> firstRead(all.versions.size(), end);
  for (const Piece &piece : pieces)
    for (int v : piece.reads)
      firstRead[v] = std::min(firstRead[v], piece.at);
  for (auto [v, version] : llvm::enumerate(all.versions))
    if (version.source >= 0 && collectives.needed[v])
      firstRead[version.source] = std::min(firstRead[version.source], born[v]);
  std::vector<int> starts, awaited; // positions of the collectives, in order, and of what awaits one or a member of it
  for (const Prediction::Collective &collective : begun) {
    if (collective.leads) {
      starts.push_back(born[collective.version]);
      awaited.push_back(end);
    }
    awaited.back() = std::min(awaited.back(), firstRead[collective.version] - 1);
  }
  for (size_t i = step::mostUnderWay; i < starts.size(); ++i)
    awaited[i - step::mostUnderWay] = std::min(awaited[i - step::mostUnderWay], starts[i]);
  size_t number = 0;
  for (const Prediction::Collective &collective : begun) {
    number += collective.leads;
    const int source = all.versions[collective.version].source;
    if (source >= 0 && dies[source] >= 0)
      dies[source] = std::max(dies[source], awaited[number - 1]);
  }
}

void StepMemory::measure(Prediction &result) const {
  std::set<std::string> counted;
  std::vector<int> born(all.versions.size(), -1), dies(all.versions.size(), -1);
  std::vector<bool> stored(all.versions.size());
  for (const Piece &piece : pieces) {
    for (int v : piece.writes)
      stored[v] = true, born[v] = piece.at;
    for (int v : piece.reads) {
      dies[v] = piece.at;
      if (auto viewed = views.find(v); viewed != views.end())
        for (int source : viewed->second)
          dies[source] = std::max(dies[source], piece.at);
    }
  }
  for (auto [output, version] : llvm::zip(problem.outputs, all.outputs))
    if (groups.maker[output.tensor] >= 0)
      dies[version] = end;
  // A version is made with its source or for its user, and its source lives until then.
  for (auto [v, version] : llvm::enumerate(all.versions))
    if (version.source >= 0 && collectives.needed[v]) {
      stored[v] = true;
      born[v] = version.user >= 0 ? collectives.startOf(v) : std::max(born[version.source], 0);
      if (auto list = collectives.of(v); !list.empty() && list.back().bucket >= 0)
        born[v] = std::max(born[v], collectives.bucket(list.back().bucket).operation);
      if (dies[v] >= 0)
        dies[version.source] = std::max(dies[version.source], born[v]);
    }
  std::vector<bool> renews(problem.tensors.size());
  for (const Problem::Output &output : problem.outputs)
    renews[output.tensor] = output.state >= 0;
  keepUntilAwaited(result.collectives, born, dies);
  keepOverMicrobatches(born, dies);
  std::vector<int> place = takePlaces(dies, stored, renews);
  step::Liveness live(end + 1);
  for (auto [v, version] : llvm::enumerate(all.versions)) {
    const Problem::Tensor &tensor = problem.tensors[version.tensor];
    double bytes = localBytes(tensor, mesh, version.sharding);
    if (version.source < 0 && tensor.named()) {
      if (collectives.needed[v] && counted.insert(tensor.name).second)
        (tensor.role == Role::parameter ? result.memory.parameters
         : tensor.role == Role::moment  ? result.memory.moments
         : tensor.role == Role::input   ? result.memory.inputs
                                        : result.memory.others) += bytes;
      continue;
    }
    if (tensor.splat || dies[v] < 0 || !stored[v] || place[v] != (int)v)
      continue; // lives in kernels, or in the place of another
    if (renews[version.tensor] && dies[v] == end && born[v] >= 0 && !copied[v])
      continue; // takes the place of the old state
    live.add(std::max(born[v], 0), std::max({dies[v], born[v], 0}), bytes);
  }
  for (const Piece &piece : pieces)
    if (piece.workspace > 0)
      live.add(piece.at, piece.at, piece.workspace);
  auto [bytes, at] = live.peak();
  if (at < 0)
    return;
  result.memory.transient = bytes;
  at = std::min(at, end - 1);
  if (auto there = llvm::find_if(pieces, [&](const Piece &piece) { return piece.at == at; }); there != pieces.end())
    at = there->home; // an update may be there instead of the operation of this number
  result.memory.operation = at;
  result.memory.phase = at <= groups.loss ? Prediction::forward
                        : groups.late[at] ? Prediction::update
                                          : Prediction::backward;
}

std::vector<int> StepMemory::takePlaces(std::vector<int> &dies, const std::vector<bool> &stored,
                            const std::vector<bool> &renews) const {
  std::vector<int> place(all.versions.size());
  std::iota(place.begin(), place.end(), 0);
  auto bytesOf = [&](int version) { return planning::bytesOf(problem, mesh, all.versions[version]); };
  for (const Piece &piece : pieces)
    for (auto [written, read] : piece.overwrites) {
      int old = place[read];
      if (isArgument(read) || place[written] != written || !stored[written] ||
          !stored[read] || dies[old] != piece.at || dies[written] < 0 || bytesOf(written) != bytesOf(read) ||
          (renews[all.versions[written].tensor] && !copied[written]))
        continue;
      place[written] = old;
      dies[old] = dies[written];
    }
  return place;
}

void StepMemory::keepOverMicrobatches(std::vector<int> &born, std::vector<int> &dies) const {
  auto repeated = [&](int op) { return problem.ops[op].repeats > 1; };
  int first = -1, last = -1;
  for (int op = 0; op < (int)problem.ops.size(); ++op)
    if (groups.groupOf[op] >= 0 && repeated(op)) {
      first = first < 0 ? op : first;
      last = op;
    }
  if (first < 0)
    return;
  std::vector<bool> shared(all.versions.size());
  for (const Piece &piece : pieces)
    if (llvm::any_of(piece.ops, repeated))
      for (int v : piece.reads) {
        shared[v] = true;
        if (auto viewed = views.find(v); viewed != views.end())
          for (int source : viewed->second)
            shared[source] = true;
      }
  for (auto [v, version] : llvm::enumerate(all.versions))
    if (version.source >= 0 && version.user >= 0 && collectives.needed[v] && repeated(version.user))
      shared[version.source] = true;
  for (auto [v, version] : llvm::enumerate(all.versions)) {
    const int maker = groups.maker[version.tensor];
    const bool sum = version.source < 0 && maker >= 0 && repeated(maker);
    if (collectives.repeatsOf(v) > 1 || !(shared[v] || sum) || dies[v] < 0)
      continue;
    born[v] = first;
    dies[v] = std::max(dies[v], last);
  }
  // A sum is resharded behind the last microbatch, and ends with that.
  for (auto [v, version] : llvm::enumerate(all.versions))
    if (version.source >= 0 && collectives.needed[v] && collectives.repeatsOf(v) == 1 && dies[v] > last &&
        born[v] <= last) {
      const int maker = groups.maker[version.tensor];
      if (maker >= 0 && repeated(maker))
        born[v] = last + 1;
    }
}
