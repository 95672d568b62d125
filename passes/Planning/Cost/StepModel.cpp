#include "passes/Planning/Cost/StepModel.h"

#include "passes/Planning/Cost/Packing.h"
#include "passes/Planning/Cost/StepMemory.h"
#include "step/Timeline.h"
#include "step/UpdateOrder.h"

#include <numeric>
#include <optional>
#include <set>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

namespace {

/// What runs on a stream of the device: a piece, or a collective, which may be several that are combined.
struct Run {
  int stream;
  double seconds;
  int64_t position; // in program order
  int item = -1;    // of the timeline
};

/// The streams of a device.
enum Stream { computing, communicating };

class Step {
public:
  Step(const Problem &problem, const Groups &groups, const FusedProblem &fused, const CostModel &costs,
       const Plan &plan, const Expansion &expansion)
      : problem(problem), groups(groups), fused(fused), costs(costs), mesh(costs.mesh), all(expansion),
        collectives(problem, groups, costs.mesh, plan, expansion), plan(plan), ready(all.versions.size(), -1),
        made(problem.ops.size()), sent(all.versions.size()) {}

  Prediction run() {
    result.operations.assign(problem.ops.size(), 0);
    result.launches.assign(problem.ops.size(), 0);
    written.resize(all.versions.size());
    for (const FusedProblem::Item &item : fused.items)
      addPieces(item);
    llvm::stable_sort(pieces, [](const Piece &a, const Piece &b) { return a.at < b.at; });
    moveUpdates();
    addCopies();
    timePieces();
    for (size_t t = 0; t < problem.tensors.size(); ++t)
      if (groups.maker[t] < 0)
        spread(all.produced[t]);
    auto fetch = collectives.fetches().begin();
    for (Piece &piece : pieces) {
      for (; fetch != collectives.fetches().end() && fetch->start <= piece.at; ++fetch)
        communicate(fetch->version);
      execute(piece);
    }
    runTimeline();
    StepMemory(problem, groups, mesh, all, collectives, {pieces, memory, copied}).measure(result);
    return std::move(result);
  }

private:
  double bytesOf(int version) const { return planning::bytesOf(problem, mesh, all.versions[version]); }

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
      for (auto [written, memory] : item.overwrites) {
        int version = all.produced[memory];
        for (const FusedProblem::Read &read : item.reads)
          if (int v = all.operands[read.op][read.operand]; read.memory == memory && all.versions[v].source >= 0)
            version = v;
        parts[0].overwrites.push_back({all.produced[written], version});
      }
    for (auto [p, piece] : llvm::enumerate(parts)) {
      if (piece.ops.empty())
        continue;
      bool last = p + 1 == parts.size();
      piece.launches = last && fused.launches[item.home()] == 0 ? 0 : 1;
      piece.call = item.call;
      piece.batched = last && fused.batched(item, groups);
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

  /// Updates run where the program runs them (codegen/Kernels/OrderUpdates.cpp).
  void moveUpdates() {
    if (mesh.devices() > 1 || llvm::any_of(problem.ops, [](const Problem::Op &op) { return op.repeats > 1; }))
      return;
    std::vector<step::OrderedItem> items(pieces.size());
    std::vector<int> writer(all.versions.size(), -1); // pieces
    std::vector<int64_t> bytes(all.versions.size());
    for (auto [p, piece] : llvm::enumerate(pieces)) {
      items[p].call = piece.call;
      for (int v : piece.reads) {
        items[p].reads.push_back(v);
        if (auto viewed = memory.find(v); viewed != memory.end())
          items[p].reads.append(viewed->second.begin(), viewed->second.end());
      }
      items[p].writes.assign(piece.writes.begin(), piece.writes.end());
      for (int v : piece.writes) {
        writer[v] = p;
        bytes[v] = bytesOf(v);
      }
    }
    for (auto [output, version] : llvm::zip(problem.outputs, all.outputs)) {
      bytes[version] = 0;
      if (output.state < 0 || output.seldom || writer[version] < 0)
        continue;
      const Problem::Role role = problem.tensors[output.state].role;
      items[writer[version]].renews.push_back(all.produced[output.state]);
      items[writer[version]].trains |= role == Problem::Role::parameter || role == Problem::Role::moment;
    }
    std::vector<Piece> moved;
    for (int p : step::sortBehind(step::orderUpdates(items, bytes, fused.forGpu))) {
      const int at = pieces[moved.size()].at; // the positions stay, and others have them
      moved.push_back(pieces[p]);
      moved.back().at = at;
    }
    pieces = std::move(moved);
    bool before = false;
    for (Piece &piece : pieces) {
      if (piece.batched)
        piece.launches = !before;
      before = piece.batched;
    }
  }

  /// Renewed states that cannot be computed in the place of the old one: they are copied there at the end, as
  /// codegen/Kernels/AssignBuffers.cpp does it. A shard that is cut out of a value is written in place, by a kernel
  /// that moves as many bytes.
  void addCopies() {
    copied.resize(all.versions.size());
    std::vector<int> writer(all.versions.size(), -1), reader(all.versions.size(), -1); // pieces; the last one
    for (auto [p, piece] : llvm::enumerate(pieces)) {
      for (int v : piece.writes)
        writer[v] = p;
      for (int v : piece.reads) {
        reader[v] = p;
        if (auto viewed = memory.find(v); viewed != memory.end())
          for (int source : viewed->second)
            reader[source] = p;
      }
      for (int op : piece.ops)
        for (int v : collectives.onDemand[op])
          reader[all.versions[v].source] = p;
    }
    for (auto [output, version] : llvm::zip(problem.outputs, all.outputs)) {
      if (output.state < 0 || output.seldom || groups.maker[output.tensor] < 0)
        continue;
      const int old = all.produced[output.state], made = writer[version];
      if (made >= 0 && mayLieAt(pieces[made], version, old, reader[old] < made, made < reader[old]))
        continue;
      copied[version] = made >= 0 || !collectives.of(version).empty();
      Piece &copy = pieces.emplace_back();
      copy.ops.push_back(groups.maker[output.tensor]);
      copy.reads.push_back(version);
      copy.work.bytes = 2 * bytesOf(version);
      copy.at = problem.ops.size();
    }
  }
  static bool mayLieAt(const Piece &piece, int version, int old, bool unread, bool readLater) {
    return !piece.call && !readLater && (unread || llvm::is_contained(piece.overwrites, std::pair(version, old)));
  }

  /// The time of every piece; that of its last operation is all of it.
  void timePieces() {
    for (Piece &piece : pieces) {
      int home = *llvm::max_element(piece.ops);
      step::Work timed = piece.work;
      if (piece.apart)
        timed.flops = 0, timed.bytes -= *piece.apart;
      const int launches = piece.apart ? 0 : piece.launches;
      piece.seconds = costs.prices.seconds(timed, problem.ops[home].precision, launches);
      result.launches[home] += launches;
      result.operations[home] += piece.seconds;
      result.compute += piece.seconds * problem.ops[home].repeats;
      result.traffic += timed.bytes * problem.ops[home].repeats;
      repeated += piece.seconds * (problem.ops[home].repeats - 1);
    }
  }

  int addRun(int stream, double seconds) {
    runs.push_back({stream, seconds, (int64_t)position++});
    waits.emplace_back();
    return runs.size() - 1;
  }
  /// `later` starts no sooner than `earlier` ends; -1: it is there from the beginning.
  void wait(int earlier, int later) {
    if (earlier >= 0)
      waits[later].push_back(earlier);
  }

  /// Starts the reshards that follow from a version, as soon as it is there.
  void spread(int version) {
    for (int next : collectives.follows[version]) {
      communicate(next);
      spread(next);
    }
  }

  void communicate(int version) {
    const auto &entry = all.versions[version];
    int done = ready[entry.source];
    for (const StepCollectives::Entry &collective : collectives.of(version)) {
      int run = runFor(collective);
      wait(done, run);
      if (entry.user >= 0)
        wait(last, run);
      membersOf[run].push_back({&collective, done});
      done = run;
    }
    ready[version] = done;
  }

  /// The run of a collective. That of a bucket starts at the position of the last member.
  int runFor(const StepCollectives::Entry &collective) {
    int *known = nullptr;
    int64_t bytes = collective.bytes;
    if (collective.bucket >= 0) {
      bytes = collectives.bucket(collective.bucket).bytes;
      known = &bucketRuns.try_emplace(collective.bucket, -1).first->second;
      if (*known >= 0) {
        runs[*known].position = position++;
        return *known;
      }
    }
    double seconds = costs.step(collective.step, bytes);
    if (collective.bucket >= 0)
      seconds += packingSeconds(costs.cluster.device, costs.prices, collective.step.kind, (double)bytes);
    int run = addRun(communicating, seconds);
    if (known)
      *known = run;
    return run;
  }

  /// What runs in the order of its positions, as far as buckets allow: the users of early members move behind them.
  void runTimeline() {
    std::vector<int> order(runs.size());
    if (collectives.anyCombined()) {
      std::vector<int64_t> positions;
      for (const Run &run : runs)
        positions.push_back(run.position);
      order = step::sortByPosition(positions, waits);
    } else {
      std::iota(order.begin(), order.end(), 0);
    }
    for (int run : order) {
      runs[run].item = timeline.add(runs[run].stream, runs[run].seconds);
      for (int earlier : waits[run])
        timeline.wait(runs[earlier].item, runs[run].item); // none in a circle, where it does not wait
    }
    timeline.run();
    for (int run : order)
      if (auto members = membersOf.find(run); members != membersOf.end())
        for (auto [collective, operand] : members->second)
          addCollective(*collective, operand, run);
    llvm::stable_sort(pieces, [&](const Piece &a, const Piece &b) { return itemOf(a.run) < itemOf(b.run); });
    double now = 0; // of the stream of computation
    for (const Piece &piece : pieces) {
      for (int version : piece.reads)
        await(version, timeline.start(itemOf(piece.run)), now);
      now = timeline.end(itemOf(piece.run));
    }
    for (auto [output, version] : llvm::zip(problem.outputs, all.outputs))
      if (groups.maker[output.tensor] >= 0 && !output.seldom)
        await(version, timeline.end(), now);
    result.seconds = timeline.end() + repeated;
  }
  int itemOf(int run) const { return run < 0 ? -1 : runs[run].item; }

  /// Of a bucket, a member has its part by bytes.
  void addCollective(const StepCollectives::Entry &entry, int operand, int run) {
    double share = 1;
    int64_t bytes = entry.bytes;
    Prediction::Collective collective{entry.version, entry.step, entry.bytes};
    if (entry.bucket >= 0) {
      const StepCollectives::Bucket &bucket = collectives.bucket(entry.bucket);
      bytes = bucket.bytes;
      share = bytes > 0 ? (double)entry.bytes / (double)bytes : 1.0 / bucket.members;
      collective.together = bucket.members;
      collective.leads = items.empty() || items.back() != itemOf(run);
    }
    collective.ready = timeline.end(itemOf(operand));
    collective.seconds = runs[run].seconds * share;
    collective.sent = costs.bytesSent(entry.step, bytes) * share;
    collective.operation = entry.operation;
    collective.times = (double)entry.times;
    result.communication += collective.seconds * collective.times;
    result.bytesSent += collective.sent * collective.times;
    items.push_back(itemOf(run));
    shares.push_back(share);
    result.collectives.push_back(std::move(collective));
  }

  /// The computation that has ended `now` waits for a version, until `start` at most. What communicates meanwhile is
  /// exposed: the collective that makes the version, and those before it on its stream.
  void await(int version, double start, double &now) {
    const int item = itemOf(ready[version]);
    const double begin = now, end = std::min(timeline.end(item), start);
    if (end <= begin)
      return;
    now = end;
    const double times = (double)collectives.repeatsOf(version);
    result.waited += (end - begin) * times;
    repeated += (end - begin) * (times - 1);
    for (size_t c = llvm::upper_bound(items, item) - items.begin(); c-- > 0 && timeline.end(items[c]) > begin;) {
      Prediction::Collective &collective = result.collectives[c];
      collective.waited += (std::min(timeline.end(items[c]), end) - std::max(timeline.start(items[c]), begin)) *
                           shares[c] * times / collective.times;
    }
  }

  void execute(Piece &piece) {
    for (int op : piece.ops)
      for (int version : collectives.onDemand[op])
        if (!sent[version]) {
          sent[version] = true;
          communicate(version);
        }
    last = piece.run = addRun(computing, piece.seconds);
    for (int version : piece.reads)
      wait(ready[version], piece.run);
    for (int op : piece.ops)
      if (!made[op]) {
        made[op] = true;
        for (int tensor : problem.ops[op].results) {
          ready[all.produced[tensor]] = piece.run;
          spread(all.produced[tensor]);
        }
      }
  }

  const Problem &problem;
  const Groups &groups;
  const FusedProblem &fused;
  const CostModel &costs;
  const Mesh &mesh;
  const Expansion &all;
  const StepCollectives collectives;
  const Plan &plan;
  std::vector<bool> written; // by version: in the middle of an item, to be resharded
  std::vector<int> ready;    // by version: the run that makes it; -1: it is there
  std::vector<bool> made;    // by operation
  std::vector<bool> sent;    // by version: made for its user
  std::vector<bool> copied;  // by version: a renewed state that lies elsewhere until the end
  std::vector<Piece> pieces;
  std::map<int, llvm::SmallVector<int, 1>> memory; // by version that is read: that of the tensor that it is a view of
  std::vector<Run> runs;
  std::vector<llvm::SmallVector<int, 4>> waits; // by run: for others
  int64_t position = 0;                         // of the next run
  int last = -1;                                // run of computation
  llvm::DenseMap<int, int> bucketRuns;          // by bucket
  /// By run: its collectives, and the runs that make their operands.
  llvm::DenseMap<int, llvm::SmallVector<std::pair<const StepCollectives::Entry *, int>, 1>> membersOf;
  step::Timeline timeline;    // of the first microbatch and what runs once
  std::vector<int> items;     // by collective of the result: that of the timeline, ascending
  std::vector<double> shares; // by collective of the result: of its bucket
  double repeated = 0;     // of the other microbatches
  Prediction result;
};
} // namespace

Prediction planning::predict(const Problem &problem, const Groups &groups, const FusedProblem &fused,
                             const CostModel &costs, const Plan &plan, const Expansion &expansion) {
  return Step(problem, groups, fused, costs, plan, expansion).run();
}
