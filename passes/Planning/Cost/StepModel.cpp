#include "passes/Planning/Cost/StepModel.h"

#include "step/Liveness.h"
#include "step/Timeline.h"

#include <numeric>
#include <optional>
#include <set>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using Role = Problem::Role;

namespace {

/// A kernel or a call of a device, or what a reshard in its middle leaves of one.
struct Piece {
  llvm::SmallVector<int, 4> ops, reads, writes;         // operations; versions
  llvm::SmallVector<std::pair<int, int>, 1> overwrites; // versions: one that it may write over another
  step::Work work;
  int launches = 1;
  int64_t workspace = 0; // bytes
  std::optional<double> apart; // of an epilogue: bytes that it reads and writes although its call has them at hand
  int at = -1;
  double seconds = 0;
  int item = -1; // of the timeline
};

/// The streams of a device.
enum Stream { computing, communicating };

class Step {
public:
  Step(const Problem &problem, const Groups &groups, const FusedProblem &fused, const CostModel &costs,
       const Plan &plan, const Expansion &expansion)
      : problem(problem), groups(groups), fused(fused), costs(costs), mesh(costs.mesh), plan(plan), all(expansion),
        ready(all.versions.size(), -1), onDemand(problem.ops.size()), follows(all.versions.size()),
        made(problem.ops.size()), sent(all.versions.size()) {}

  Prediction run() {
    result.operations.assign(problem.ops.size(), 0);
    findNeeded();
    findCrossing();
    written.resize(all.versions.size());
    for (auto [v, version] : llvm::enumerate(all.versions))
      if (version.source >= 0 && needed[v])
        (version.user >= 0 ? onDemand[version.user] : follows[version.source]).push_back(v);
    for (const FusedProblem::Item &item : fused.items)
      addPieces(item);
    llvm::stable_sort(pieces, [](const Piece &a, const Piece &b) { return a.at < b.at; });
    timePieces();
    for (size_t t = 0; t < problem.tensors.size(); ++t)
      if (groups.maker[t] < 0)
        spread(all.produced[t], -1);
    for (Piece &piece : pieces)
      execute(piece);
    timeline.run();
    for (auto [collective, operand] : llvm::zip(result.collectives, operands))
      collective.ready = timeline.end(operand);
    double now = 0; // of the stream of computation
    for (const Piece &piece : pieces) {
      for (int version : piece.reads)
        await(version, timeline.start(piece.item), now);
      now = timeline.end(piece.item);
    }
    for (auto [output, version] : llvm::zip(problem.outputs, all.outputs))
      if (groups.maker[output.tensor] >= 0 && !output.seldom)
        await(version, timeline.end(), now);
    result.seconds = timeline.end() + repeated;
    measureMemory();
    return std::move(result);
  }

private:
  /// The versions that every step reads, and what they come from.
  void findNeeded() {
    needed.assign(all.versions.size(), false);
    for (size_t i = 0; i < problem.ops.size(); ++i)
      if (groups.groupOf[i] >= 0)
        for (int v : all.operands[i])
          needed[v] = true;
    for (auto [output, version] : llvm::zip(problem.outputs, all.outputs))
      if (!output.seldom)
        needed[version] = true;
    for (size_t v = all.versions.size(); v-- > 0;)
      if (needed[v] && all.versions[v].source >= 0)
        needed[all.versions[v].source] = true;
  }

  /// The versions that a message brings to stages with other axes than those of the operation that makes the value:
  /// only such stages use them.
  void findCrossing() {
    crosses.assign(all.versions.size(), false);
    if (plan.lacking.empty())
      return;
    std::vector<bool> near(all.versions.size());
    for (size_t i = 0; i < problem.ops.size(); ++i)
      for (int v : all.operands[i]) {
        int maker = groups.maker[all.versions[v].tensor];
        bool far = maker >= 0 && plan.lacking[maker] != plan.lacking[i];
        (far ? crosses : near)[v] = true;
      }
    for (int v : all.outputs)
      near[v] = true;
    for (size_t v = 0; v < near.size(); ++v)
      crosses[v] = crosses[v] && !near[v];
  }

  double bytesOf(int version) const {
    const auto &entry = all.versions[version];
    const Problem::Tensor &tensor = problem.tensors[entry.tensor];
    return tensor.splat ? 0 : localBytes(tensor, mesh, entry.sharding);
  }

  /// The operations of an item, without those that would recompute what an earlier item wrote to be resharded: the
  /// resharded value is read instead.
  llvm::SmallVector<int, 4> neededOps(const FusedProblem::Item &item) const {
    std::set<int> wanted(item.writes.begin(), item.writes.end()); // tensors
    llvm::SmallVector<int, 4> ops;
    for (int op : llvm::reverse(item.ops)) {
      if (!item.call && llvm::none_of(problem.ops[op].results, [&](int t) { return wanted.count(t); }))
        continue;
      ops.push_back(op);
      for (auto [t, version] : llvm::zip(problem.ops[op].operands, all.operands[op]))
        if (version == all.produced[t] || !written[all.produced[t]])
          wanted.insert(t);
    }
    std::reverse(ops.begin(), ops.end());
    return ops;
  }

  /// One piece, unless a value is resharded between an operation of the item that makes it and one that reads it.
  void addPieces(const FusedProblem::Item &item) {
    std::map<int, int> number; // by operation: its piece
    std::vector<Piece> parts(1);
    auto part = [&](int piece) -> Piece & {
      if (piece >= (int)parts.size())
        parts.resize(piece + 1);
      return parts[piece];
    };
    for (int op : neededOps(item)) {
      int piece = 0;
      llvm::SmallVector<int, 2> resharded, again;
      for (auto [t, version] : llvm::zip(problem.ops[op].operands, all.operands[op])) {
        auto producer = number.find(groups.maker[t]);
        if (producer == number.end()) {
          if (written[all.produced[t]] && version != all.produced[t] && llvm::is_contained(item.ops, groups.maker[t]))
            again.push_back(version);
          continue;
        }
        bool same = version == all.produced[t];
        piece = std::max(piece, producer->second + !same);
        if (!same)
          resharded.push_back(t);
      }
      number[op] = piece;
      part(piece).ops.push_back(op);
      for (int version : again)
        addUnique(part(piece).reads, version);
      step::Work work = localWork(problem, problem.ops[op], mesh, plan.ops[op]);
      if (item.call)
        part(piece).work = work;
      else
        part(piece).work.flops += work.flops;
      if (item.call && fused.forGpu)
        part(piece).workspace = localWorkspace(problem, all, mesh, op);
      for (int t : resharded) {
        addUnique(part(number.at(groups.maker[t])).writes, all.produced[t]);
        written[all.produced[t]] = true;
        for (auto [operand, version] : llvm::zip(problem.ops[op].operands, all.operands[op]))
          if (operand == t)
            addUnique(part(piece).reads, version);
      }
    }
    if (item.epilogue && parts.size() == 1)
      parts[0].apart = 0;
    for (const FusedProblem::Read &read : item.reads) {
      if (!number.count(read.op))
        continue;
      int version = all.operands[read.op][read.operand];
      if (parts[0].apart && llvm::is_contained(item.apart, read.memory)) {
        if (all.versions[version].source < 0)
          *parts[0].apart += bytesOf(version);
        else // not what the call has
          parts[0].apart.reset();
      }
      addUnique(part(number.at(read.op)).reads, version);
      if (all.versions[version].source < 0) // else it has a memory of its own
        memory[version].push_back(all.produced[read.memory]);
    }
    for (int t : item.writes)
      if (auto maker = number.find(groups.maker[t]); maker != number.end()) {
        addUnique(part(maker->second).writes, all.produced[t]);
        if (parts[0].apart && llvm::is_contained(item.apart, t))
          *parts[0].apart += bytesOf(all.produced[t]);
      }
    if (parts.size() == 1)
      for (auto [written, read] : item.overwrites)
        if (groups.maker[read] >= 0)
          parts[0].overwrites.push_back({all.produced[written], all.produced[read]});
    for (auto [p, piece] : llvm::enumerate(parts)) {
      if (piece.ops.empty())
        continue;
      bool last = p + 1 == parts.size();
      piece.launches = last && fused.launches[item.home()] == 0 ? 0 : 1;
      piece.at = last ? item.at : *llvm::max_element(piece.ops);
      for (int v : piece.reads)
        piece.work.bytes += bytesOf(v);
      for (int v : piece.writes)
        piece.work.bytes += bytesOf(v);
      pieces.push_back(std::move(piece));
    }
  }
  static void addUnique(llvm::SmallVectorImpl<int> &list, int entry) {
    if (!llvm::is_contained(list, entry))
      list.push_back(entry);
  }

  /// The time of every piece; that of its last operation is all of it.
  void timePieces() {
    for (Piece &piece : pieces) {
      int home = *llvm::max_element(piece.ops);
      step::Work timed = piece.work;
      if (piece.apart)
        timed.flops = 0, timed.bytes -= *piece.apart;
      piece.seconds = costs.prices.seconds(timed, problem.ops[home].precision, piece.apart ? 0 : piece.launches);
      result.operations[home] += piece.seconds;
      result.compute += piece.seconds * problem.ops[home].repeats;
      result.traffic += timed.bytes * problem.ops[home].repeats;
      repeated += piece.seconds * (problem.ops[home].repeats - 1);
    }
  }

  /// Starts the reshards that follow from a version, as soon as it is there.
  void spread(int version, int operation) {
    for (int next : follows[version]) {
      communicate(next, operation);
      spread(next, operation);
    }
  }

  void communicate(int version, int operation) {
    const auto &entry = all.versions[version];
    const auto &before = all.versions[entry.source].sharding;
    int done = ready[entry.source];
    int64_t local = localBytes(problem.tensors[entry.tensor], mesh, before);
    const double times = repeatsOf(version);
    const Sharding &after = entry.sharding;
    const Sharding collected =
        crosses[version] ? sentSharding(before, after, problem.tensors[entry.tensor].shape, mesh) : after;
    for (const ReshardStep &step : planReshard(before, collected)) {
      int64_t bytes = bytesOfStep(mesh, step, local);
      if (step.kind == ReshardStep::Kind::slice)
        continue;
      double seconds = costs.step(step, bytes);
      int item = timeline.add(communicating, seconds);
      timeline.wait(done, item);
      operands.push_back(done);
      if (entry.user >= 0)
        timeline.wait(last, item);
      done = item;
      result.communication += seconds * times;
      result.bytesSent += costs.bytesSent(step, bytes) * times;
      items.push_back(item);
      result.collectives.push_back({version, step, bytes, 0, seconds, 0, operation, times});
    }
    ready[version] = done;
  }

  /// Times that a step makes a version by communication: for each use in a microbatch, or when its value is there.
  int64_t repeatsOf(int version) const {
    const auto &entry = all.versions[version];
    return entry.user >= 0 ? problem.ops[entry.user].repeats : problem.tensors[entry.tensor].repeats;
  }

  /// The computation that has ended `now` waits for a version, until `start` at most. What communicates meanwhile is
  /// exposed: the collective that makes the version, and those before it on its stream.
  void await(int version, double start, double &now) {
    const double begin = now, end = std::min(timeline.end(ready[version]), start);
    if (end <= begin)
      return;
    now = end;
    const double times = (double)repeatsOf(version);
    result.waited += (end - begin) * times;
    repeated += (end - begin) * (times - 1);
    for (size_t c = llvm::upper_bound(items, ready[version]) - items.begin();
         c-- > 0 && timeline.end(items[c]) > begin;) {
      Prediction::Collective &collective = result.collectives[c];
      collective.waited += (std::min(timeline.end(items[c]), end) - std::max(timeline.start(items[c]), begin)) * times /
                           collective.times;
    }
  }

  void execute(Piece &piece) {
    for (int op : piece.ops) {
      for (int version : onDemand[op])
        if (!sent[version]) {
          sent[version] = true;
          communicate(version, op);
        }
    }
    last = piece.item = timeline.add(computing, piece.seconds);
    for (int version : piece.reads)
      timeline.wait(ready[version], piece.item);
    for (int op : piece.ops)
      if (!made[op]) {
        made[op] = true;
        for (int tensor : problem.ops[op].results) {
          ready[all.produced[tensor]] = piece.item;
          spread(all.produced[tensor], op);
        }
      }
  }

  /// Arguments stay; everything else lives from where it is made to its last reader.
  void measureMemory() {
    size_t end = problem.ops.size();
    std::vector<int> born(all.versions.size(), -1), dies(all.versions.size(), -1);
    std::vector<bool> stored(all.versions.size());
    for (const Piece &piece : pieces) {
      for (int v : piece.writes)
        stored[v] = true, born[v] = piece.at;
      for (int v : piece.reads) {
        dies[v] = piece.at;
        for (int source : memory[v])
          dies[source] = std::max(dies[source], piece.at);
      }
    }
    for (auto [output, version] : llvm::zip(problem.outputs, all.outputs))
      if (groups.maker[output.tensor] >= 0)
        dies[version] = end;
    // A version is made with its source or for its user, and its source lives until then.
    for (auto [v, version] : llvm::enumerate(all.versions))
      if (version.source >= 0 && needed[v]) {
        stored[v] = true;
        born[v] = version.user >= 0 ? version.user : std::max(born[version.source], 0);
        if (dies[v] >= 0)
          dies[version.source] = std::max(dies[version.source], born[v]);
      }
    std::vector<bool> renews(problem.tensors.size());
    for (const Problem::Output &output : problem.outputs)
      renews[output.tensor] = output.state >= 0;
    keepOverMicrobatches(born, dies);
    std::vector<int> place = takePlaces(dies, stored, renews);
    step::Liveness live(end + 1);
    for (auto [v, version] : llvm::enumerate(all.versions)) {
      const Problem::Tensor &tensor = problem.tensors[version.tensor];
      double bytes = localBytes(tensor, mesh, version.sharding);
      if (version.source < 0 && tensor.named()) {
        if (needed[v] && counted.insert(tensor.name).second)
          (tensor.role == Role::parameter ? result.memory.parameters
           : tensor.role == Role::moment  ? result.memory.moments
           : tensor.role == Role::input   ? result.memory.inputs
                                          : result.memory.others) += bytes;
        continue;
      }
      if (tensor.splat || dies[v] < 0 || !stored[v] || place[v] != (int)v)
        continue; // lives in kernels, or in the place of another
      if (renews[version.tensor] && dies[v] == (int)end && born[v] >= 0)
        dies[v] = born[v]; // takes the place of the old state
      live.add(std::max(born[v], 0), std::max({dies[v], born[v], 0}), bytes);
    }
    for (const Piece &piece : pieces)
      if (piece.workspace > 0)
        live.add(piece.at, piece.at, piece.workspace);
    auto [bytes, at] = live.peak();
    if (at < 0)
      return;
    result.memory.transient = bytes;
    result.memory.operation = std::min<int>(at, end - 1);
    at = result.memory.operation;
    result.memory.phase = at <= groups.loss ? Prediction::forward
                          : groups.late[at] ? Prediction::update
                                            : Prediction::backward;
  }

  /// By version: the one in whose place it is; that lives as long. A result takes the place of a value that dies with the
  /// kernel.
  std::vector<int> takePlaces(std::vector<int> &dies, const std::vector<bool> &stored,
                              const std::vector<bool> &renews) const {
    std::vector<int> place(all.versions.size());
    std::iota(place.begin(), place.end(), 0);
    for (const Piece &piece : pieces)
      for (auto [written, read] : piece.overwrites) {
        int old = place[read];
        if (place[written] != written || !stored[written] || !stored[read] || dies[old] != piece.at || dies[written] < 0 ||
            bytesOf(written) != bytesOf(read) || renews[all.versions[written].tensor])
          continue;
        place[written] = old;
        dies[old] = dies[written];
      }
    return place;
  }

  /// What microbatches share lives from the first operation that runs for each of them to the last: sums of their
  /// gradients, and what is made once and read by each.
  void keepOverMicrobatches(std::vector<int> &born, std::vector<int> &dies) const {
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
          if (auto viewed = memory.find(v); viewed != memory.end())
            for (int source : viewed->second)
              shared[source] = true;
        }
    for (auto [v, version] : llvm::enumerate(all.versions))
      if (version.source >= 0 && version.user >= 0 && needed[v] && repeated(version.user))
        shared[version.source] = true;
    for (auto [v, version] : llvm::enumerate(all.versions)) {
      const int maker = groups.maker[version.tensor];
      const bool sum = version.source < 0 && maker >= 0 && repeated(maker);
      if (repeatsOf(v) > 1 || !(shared[v] || sum) || dies[v] < 0)
        continue;
      born[v] = first;
      dies[v] = std::max(dies[v], last);
    }
    // A sum is resharded behind the last microbatch, and ends with that.
    for (auto [v, version] : llvm::enumerate(all.versions))
      if (version.source >= 0 && needed[v] && repeatsOf(v) == 1 && dies[v] > last && born[v] <= last) {
        const int maker = groups.maker[version.tensor];
        if (maker >= 0 && repeated(maker))
          born[v] = last + 1;
      }
  }

  const Problem &problem;
  const Groups &groups;
  const FusedProblem &fused;
  const CostModel &costs;
  const Mesh &mesh;
  const Plan &plan;
  const Expansion &all;
  std::vector<bool> needed;                    // by version
  std::vector<bool> crosses;                   // by version
  std::vector<bool> written;                   // by version: in the middle of an item, to be resharded
  std::vector<int> ready;                      // by version: the item that makes it; -1: it is there
  std::vector<int> items;                      // by collective: that of the timeline, ascending
  std::vector<int> operands;                   // by collective: the item that makes its operand; -1: it is there
  std::vector<llvm::SmallVector<int, 2>> onDemand, follows;
  std::vector<bool> made; // by operation
  std::vector<bool> sent; // by version: made for its user
  std::vector<Piece> pieces;
  std::map<int, llvm::SmallVector<int, 1>> memory; // by version that is read: that of the tensor that it is a view of
  std::set<std::string> counted;
  step::Timeline timeline; // of the first microbatch and what runs once
  int last = -1;           // item of computation
  double repeated = 0;     // of the other microbatches
  Prediction result;
};
} // namespace

Prediction planning::predict(const Problem &problem, const Groups &groups, const FusedProblem &fused,
                             const CostModel &costs, const Plan &plan, const Expansion &expansion) {
  return Step(problem, groups, fused, costs, plan, expansion).run();
}
