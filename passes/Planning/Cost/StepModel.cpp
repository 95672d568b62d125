#include "passes/Planning/Cost/StepModel.h"

#include "passes/Planning/Cost/Packing.h"
#include "passes/Planning/Cost/StepPieces.h"
#include "step/Timeline.h"

#include <numeric>
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
  Step(const Problem &problem, const Groups &groups, const FusedProblem &fused, const CostModel &costs, const Plan &plan,
       const Expansion &expansion)
      : problem(problem), groups(groups), costs(costs), mesh(costs.mesh), all(expansion),
        collectives(problem, groups, costs.mesh, plan, expansion), fused(fused), ready(all.versions.size(), -1),
        made(problem.ops.size()), sent(all.versions.size()), parts(problem, groups, fused, mesh, plan, all, collectives) {}

  Prediction run() {
    execute();
    sort();
    batch();
    timePieces();
    runTimeline();
    StepMemory(problem, groups, mesh, all, collectives, {pieces, parts.views, parts.copied, parts.end}).measure(result);
    return std::move(result);
  }
  std::vector<StepCall> calls() {
    execute();
    sort();
    batch();
    timePieces();
    runTimeline();
    return list();
  }

private:
  void execute() {
    for (size_t t = 0; t < problem.tensors.size(); ++t)
      if (groups.maker[t] < 0)
        spread(all.produced[t]);
    auto fetch = collectives.fetches().begin();
    for (Piece &piece : pieces) {
      for (; fetch != collectives.fetches().end() && fetch->start <= piece.at; ++fetch)
        communicate(fetch->version);
      execute(piece);
    }
  }
  /// What runs in the order of its positions, as far as buckets allow: the users of early members move behind them.
  void sort() {
    order.resize(runs.size());
    if (collectives.anyCombined()) {
      std::vector<int64_t> positions;
      for (const Run &run : runs)
        positions.push_back(run.position);
      order = step::sortByPosition(positions, waits);
    } else {
      std::iota(order.begin(), order.end(), 0);
    }
  }
  /// Kernels that share a launch. Where a collective starts, or is awaited because its result is read, none is added.
  void batch() {
    if (!fused.forGpu)
      return;
    std::vector<Piece *> pieceOf(runs.size()); // null: a collective of a plan
    for (Piece &piece : pieces)
      pieceOf[piece.run] = &piece;
    std::vector<bool> underWay(runs.size());
    std::vector<int> begun;
    std::vector<std::pair<int, int>> awaits; // operations that only some steps need, and what they wait for in each
    step::Batch batch;
    int64_t repeats = 1;
    for (int run : order) {
      Piece *piece = pieceOf[run];
      if (!piece || (!piece->copy && problem.ops[piece->home].collective)) {
        if (int seldom = piece ? firstSeldomReader(piece->home) : -1; seldom >= 0)
          awaits.push_back({seldom, run});
        batch = {};
        underWay[run] = true;
        begun.push_back(run);
        if (begun.size() > step::mostUnderWay) // (codegen/Kernels/PlaceAwaits.cpp)
          underWay[begun[begun.size() - 1 - step::mostUnderWay]] = false;
        continue;
      }
      bool apart = problem.ops[piece->home].repeats != repeats || !(piece->batched || piece->view);
      repeats = problem.ops[piece->home].repeats;
      for (int earlier : waits[run])
        if (underWay[earlier]) {
          apart = true;
          underWay[earlier] = false;
        }
      for (auto [number, earlier] : awaits)
        if (number < piece->home && underWay[earlier]) {
          apart = true;
          underWay[earlier] = false;
        }
      if (piece->view && !apart)
        continue;
      const step::Batch::Kernel kernel = piece->batched ? parts.kernelOf(*piece) : step::Batch::Kernel();
      if (apart || !batch.takes(kernel))
        batch = {};
      if (!piece->batched)
        continue;
      piece->launches = batch.empty();
      batch.add(kernel);
    }
  }

  /// The first operation that only some steps need, of those whose kernels read a result of this one; -1: there is none.
  int firstSeldomReader(int op) const {
    std::set<int> read(problem.ops[op].results.begin(), problem.ops[op].results.end());
    for (int user = op + 1; user < (int)problem.ops.size(); ++user) {
      const Problem::Op &entry = problem.ops[user];
      if (llvm::none_of(entry.operands, [&](int t) { return read.count(t); }))
        continue;
      if (entry.seldom)
        return user;
      if (llvm::none_of(entry.results, [&](int t) { return fused.stored[t]; })) // each reader computes it anew
        read.insert(entry.results.begin(), entry.results.end());
    }
    return -1;
  }

  /// The time of every piece; that of its last operation is all of it.
  void timePieces() {
    result.operations.assign(problem.ops.size(), 0);
    result.launches.assign(problem.ops.size(), 0);
    for (auto [p, piece] : llvm::enumerate(pieces)) {
      const int home = piece.home;
      step::Work timed = piece.work;
      if (problem.local && piece.batched && piece.launches == 0)
        continue; // with the first of its launch
      for (size_t other = p + 1; problem.local && piece.batched && other < pieces.size() && pieces[other].batched && pieces[other].launches == 0; ++other) {
        timed.flops += pieces[other].work.flops;
        timed.bytes += pieces[other].work.bytes;
        timed.rowSums += pieces[other].work.rowSums;
      }
      if (piece.apart)
        timed.flops = 0, timed.bytes -= *piece.apart;
      const int launches = piece.apart ? 0 : piece.launches;
      const auto precision = piece.call || !problem.local ? problem.ops[home].precision : graph::fp32;
      piece.seconds = costs.prices.seconds(timed, precision, launches);
      result.launches[home] += launches;
      result.operations[home] += piece.seconds;
      result.compute += piece.seconds * problem.ops[home].repeats;
      runs[piece.run].seconds = piece.seconds;
      result.traffic += timed.bytes * problem.ops[home].repeats;
      repeated += piece.seconds * (problem.ops[home].repeats - 1);
    }
  }

  int addRun(int stream, double seconds = 0) {
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

  void runTimeline() {
    int before = -1; // item, if the cores that compute also copy what collectives send
    for (int run : order) {
      runs[run].item = timeline.add(runs[run].stream, runs[run].seconds);
      for (int earlier : waits[run])
        timeline.wait(runs[earlier].item, runs[run].item); // none in a circle, where it does not wait
      if (costs.cluster.copies) {
        timeline.wait(before, runs[run].item);
        before = runs[run].item;
      }
    }
    timeline.run();
    for (int run : order)
      if (auto members = membersOf.find(run); members != membersOf.end())
        for (auto [collective, operand] : members->second)
          addCollective(*collective, operand, run);
    llvm::stable_sort(pieces, [&](const Piece &a, const Piece &b) { return itemOf(a.run) < itemOf(b.run); });
    if (costs.cluster.copies)
      exposeAll();
    else
      awaitAll();
    result.seconds = timeline.end() + repeated;
  }
  /// Nothing overlaps with collectives.
  void exposeAll() {
    for (Prediction::Collective &collective : result.collectives) {
      repeated += collective.seconds * (collective.times - 1);
      collective.waited = collective.seconds;
    }
    result.waited = result.communication;
  }
  void awaitAll() {
    double now = 0; // of the stream of computation
    for (const Piece &piece : pieces) {
      for (int version : piece.reads)
        await(version, timeline.start(itemOf(piece.run)), now);
      now = timeline.end(itemOf(piece.run));
    }
    for (auto [output, version] : llvm::zip(problem.outputs, all.outputs))
      if (groups.maker[output.tensor] >= 0 && !output.seldom)
        await(version, timeline.end(), now);
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
    last = piece.run = addRun(computing);
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

  /// What runs. What shares a launch is one call.
  std::vector<StepCall> list() const {
    std::vector<StepCall> calls;
    for (const Piece &piece : pieces) { // in order, as they run
      const Problem::Op &home = problem.ops[piece.home];
      if (!piece.batched || piece.launches > 0 || calls.empty())
        calls.push_back({piece.copy ? "copy" : piece.call ? home.kind : "kernel"});
      StepCall &call = calls.back();
      call.flops += piece.work.flops;
      call.bytes += piece.work.bytes;
      call.seconds += piece.seconds;
      call.times = home.repeats;
      call.operation = piece.copy ? -1 : piece.home;
      call.communicates = !piece.copy && (home.message || home.collective);
      for (int op : piece.ops)
        addName(call.name, problem.ops[op].name);
    }
    return calls;
  }
  static void addName(std::string &names, llvm::StringRef name) {
    constexpr int most = 3;
    llvm::SmallVector<llvm::StringRef> known;
    llvm::StringRef(names).split(known, ' ', -1, /*KeepEmpty=*/false);
    if (!name.empty() && known.size() < most && !llvm::is_contained(known, name))
      names += (names.empty() ? "" : " ") + name.str();
  }

  const Problem &problem;
  const Groups &groups;
  const CostModel &costs;
  const Mesh &mesh;
  const Expansion &all;
  const StepCollectives collectives;
  const FusedProblem &fused;
  std::vector<int> ready;    // by version: the run that makes it; -1: it is there
  std::vector<bool> made;    // by operation
  std::vector<bool> sent;    // by version: made for its user
  StepPieces parts;
  std::vector<Piece> &pieces = parts.pieces;
  std::vector<Run> runs;
  std::vector<int> order; // of the runs
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

std::vector<StepCall> planning::callsOf(const Problem &problem, const CostModel &costs) {
  const Groups groups(problem, /*evaluation=*/false);
  const FusedProblem fused(problem, /*evaluation=*/false, costs.cluster.device.kind == "cuda", groups);
  const Plan whole = unsplit(problem);
  const Expansion expansion = expand(problem, costs.mesh, whole);
  return Step(problem, groups, fused, costs, whole, expansion).calls();
}
