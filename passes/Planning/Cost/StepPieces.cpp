#include "passes/Planning/Cost/StepPieces.h"

#include "step/UpdateOrder.h"

#include <map>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

static void addUnique(llvm::SmallVectorImpl<int> &list, int entry) {
  if (!llvm::is_contained(list, entry))
    list.push_back(entry);
}
static bool mayLieAt(const Piece &piece, int version, int old, bool unread, bool readLater) {
  return !piece.call && !readLater && (unread || llvm::is_contained(piece.overwrites, std::pair(version, old)));
}

StepPieces::StepPieces(const Problem &problem, const Groups &groups, const FusedProblem &fused, const Mesh &mesh,
                       const Plan &plan, const Expansion &expansion, const StepCollectives &collectives)
    : end(problem.ops.size()), problem(problem), groups(groups), fused(fused), mesh(mesh), plan(plan), all(expansion),
      collectives(collectives), written(expansion.versions.size()), cutBefore(expansion.versions.size()),
      wantedBy(problem.tensors.size(), -1), pieceOf(problem.ops.size(), -1) {
  for (auto [v, version] : llvm::enumerate(all.versions)) // a source comes before what is made of it
    sent.push_back(version.source >= 0 && (sent[version.source] || !collectives.of(v).empty()));
  for (const FusedProblem::Item &item : fused.items)
    problem.local ? addPiece(item) : addPieces(item);
  llvm::stable_sort(pieces, [](const Piece &a, const Piece &b) { return a.at < b.at; });
  moveUpdates();
  if (problem.local) {
    for (auto [p, piece] : llvm::enumerate(pieces))
      piece.at = p;
    end = pieces.size();
  }
  addCopies();
}

/// The operations of an item, without those that would recompute what an earlier item wrote to be resharded: the
/// resharded value is read instead.
llvm::SmallVector<int, 4> StepPieces::neededOps(const FusedProblem::Item &item) {
  const int number = &item - fused.items.data();
  auto want = [&](int t) { wantedBy[t] = number; };
  llvm::for_each(item.writes, want);
  llvm::SmallVector<int, 4> ops;
  for (int op : llvm::reverse(item.ops)) {
    if (!item.call && llvm::none_of(problem.ops[op].results, [&](int t) { return wantedBy[t] == number; }))
      continue;
    ops.push_back(op);
    for (auto [t, version] : llvm::zip(problem.ops[op].operands, all.operands[op]))
      if (!sent[version] || !written[all.produced[t]])
        want(t);
  }
  std::reverse(ops.begin(), ops.end());
  return ops;
}

/// What an operation of the item computes.
void StepPieces::addWork(Piece &piece, const FusedProblem::Item &item, int op) const {
  const step::Work work = localWork(problem, problem.ops[op], mesh, plan.ops[op]);
  if (!item.call)
    piece.work.rowSums += work.rowSums;
  if (item.call)
    piece.work = work;
  else if (problem.ops[op].rule.linear != Linear::movement) // as exec.kernel counts
    piece.work.flops += work.flops;
  if (item.call && fused.forGpu && !problem.ops[op].results.empty())
    piece.workspace = localWorkspace(problem, all, mesh, op);
}

/// The bytes of what a piece has as operands that it does not read, as exec.kernel counts.
double StepPieces::unreadBytes(const FusedProblem::Item &item, const Piece &piece) const {
  if (!item.readsParts)
    return 0;
  auto elements = [&](int version) {
    const Problem::Tensor &tensor = problem.tensors[all.versions[version].tensor];
    return localBytes(tensor, mesh, all.versions[version].sharding) / (double)tensor.elementBytes;
  };
  auto ofOperand = [&](int op, int i) { return elements(all.operands[op][i]); };
  auto ofResult = [&](int tensor) { return elements(all.produced[tensor]); };
  llvm::SmallVector<int> written;
  for (int version : piece.writes)
    written.push_back(all.versions[version].tensor);
  const auto read = elementsRead(problem, piece.ops, written, ofOperand, ofResult);
  llvm::SmallDenseMap<int, double> bytes; // by version
  for (const FusedProblem::Read &entry : item.reads) {
    const int tensor = problem.ops[entry.op].operands[entry.operand];
    const int version = problem.local ? all.produced[entry.memory] : all.operands[entry.op][entry.operand];
    if (llvm::is_contained(piece.reads, version))
      bytes[version] += read.lookup(tensor) * (double)problem.tensors[tensor].elementBytes;
  }
  double unread = 0;
  for (auto [version, needed] : bytes)
    unread += std::max(0.0, bytesOf(version) - needed);
  return unread;
}

/// An item of one device's part.
void StepPieces::addPiece(const FusedProblem::Item &item) {
  Piece &piece = pieces.emplace_back();
  piece.ops = item.ops;
  piece.call = item.call;
  piece.batched = fused.forGpu && item.elements;
  piece.at = item.at;
  piece.home = item.home();
  for (int op : item.ops)
    addWork(piece, item, op);
  auto use = [&](int tensor, llvm::SmallVectorImpl<int> &versions) {
    const int version = all.produced[tensor];
    if (llvm::is_contained(versions, version))
      return;
    versions.push_back(version);
    // A call has constants in memory, too.
    piece.work.bytes += item.call ? (double)problem.tensors[tensor].bytes() : bytesOf(version);
  };
  for (const FusedProblem::Read &read : item.reads)
    use(read.memory, piece.reads);
  for (int tensor : item.writes)
    use(tensor, piece.writes);
  piece.work.bytes -= unreadBytes(item, piece);
  for (auto [written, memory] : item.overwrites)
    piece.overwrites.push_back({all.produced[written], all.produced[memory]});
}

/// Whether each element of the piece's results is computed alone.
bool StepPieces::isElementwise(const Piece &piece) const {
  auto elements = [&](int t) { return problem.tensors[t].elements(); };
  int64_t most = 1;
  for (int op : piece.ops)
    for (int t : problem.ops[op].results)
      most = std::max(most, elements(t));
  return most > 1 && llvm::all_of(piece.ops, [&](int op) {
    const Problem::Op &entry = problem.ops[op];
    return (entry.form == graph::Form::elementwise || entry.form == graph::Form::view) &&
           llvm::all_of(entry.operands, [&](int t) { return elements(t) == 1 || elements(t) == most; });
  });
}

/// Whether a version is a shard of its source, which needs no collective.
bool StepPieces::isCut(int version) const {
  return all.versions[version].source >= 0 && collectives.of(version).empty();
}

/// Whether the piece cuts a shard out of what it reads or computes.
bool StepPieces::cutsOut(const Piece &piece) const {
  return llvm::any_of(piece.ops, [&](int op) { return llvm::any_of(all.operands[op], [&](int v) { return isCut(v); }); });
}

/// The kernels that copy shards for a call. What another kernel makes is cut there.
void StepPieces::cutForCall(const Piece &call) {
  for (int v : call.reads) {
    const int source = all.versions[v].source, maker = groups.maker[all.versions[v].tensor];
    if (!isCut(v) || cutBefore[v] ||
        (all.versions[source].source < 0 && maker >= 0 && !graph::isCall(problem.ops[maker].form)))
      continue;
    cutBefore[v] = true;
    Piece &cut = pieces.emplace_back();
    cut.reads.push_back(source);
    cut.writes.push_back(v);
    cut.work.bytes = 2 * bytesOf(v);
    cut.home = call.home;
    cut.at = call.at;
  }
}

/// The piece of the item at hand that makes a tensor; -1: none does.
int StepPieces::pieceThatMakes(int tensor) const {
  const int maker = groups.maker[tensor];
  return maker < 0 ? -1 : pieceOf[maker];
}

/// Gives the operations of an item their pieces. A piece ends where a collective is between an operation that makes a value and
/// one that reads it; an operation runs in the first piece that needs it.
void StepPieces::numberPieces(const FusedProblem::Item &item, llvm::ArrayRef<int> ops) {
  bool ends = false; // one of the pieces
  for (int op : ops) {
    int piece = 0;
    for (auto [t, version] : llvm::zip(problem.ops[op].operands, all.operands[op]))
      if (const int from = pieceThatMakes(t); from >= 0) {
        piece = std::max(piece, from + sent[version]);
        ends |= sent[version];
      }
    pieceOf[op] = piece;
  }
  if (!ends)
    return;
  std::map<int, int> neededIn; // by operation: of the pieces that need it, the first
  for (int op : llvm::reverse(ops)) {
    const bool stored = llvm::any_of(problem.ops[op].results, [&](int t) { return llvm::is_contained(item.writes, t); });
    if (auto needed = neededIn.find(op); needed != neededIn.end() && !stored)
      pieceOf[op] = std::max(pieceOf[op], needed->second);
    for (auto [t, version] : llvm::zip(problem.ops[op].operands, all.operands[op]))
      if (const int from = pieceThatMakes(t); from >= 0) {
        const int piece = sent[version] ? from : pieceOf[op];
        auto [it, fresh] = neededIn.try_emplace(groups.maker[t], piece);
        it->second = std::min(it->second, piece);
      }
  }
}

/// One piece, unless there is a collective between an operation of the item that makes a value and one that reads it.
void StepPieces::addPieces(const FusedProblem::Item &item) {
  const llvm::SmallVector<int, 4> ops = neededOps(item);
  numberPieces(item, ops);
  std::vector<Piece> parts(1);
  auto part = [&](int piece) -> Piece & {
    if (piece >= (int)parts.size())
      parts.resize(piece + 1);
    return parts[piece];
  };
  for (int op : ops) {
    const int piece = pieceOf[op];
    part(piece).ops.push_back(op);
    addWork(part(piece), item, op);
    for (auto [t, version] : llvm::zip(problem.ops[op].operands, all.operands[op])) {
      if (!sent[version])
        continue;
      if (const int maker = pieceThatMakes(t); maker >= 0) {
        addUnique(part(maker).writes, all.produced[t]);
        written[all.produced[t]] = true;
        addUnique(part(piece).reads, version);
      } else if (written[all.produced[t]] && llvm::is_contained(item.ops, groups.maker[t])) {
        addUnique(part(piece).reads, version);
      }
    }
  }
  if (item.epilogue && parts.size() == 1)
    parts[0].apart = 0;
  for (const FusedProblem::Read &read : item.reads) {
    if (pieceOf[read.op] < 0)
      continue;
    int version = all.operands[read.op][read.operand];
    if (parts[0].apart && llvm::is_contained(item.apart, read.memory)) {
      if (all.versions[version].source < 0)
        *parts[0].apart += bytesOf(version);
      else // not what the call has
        parts[0].apart.reset();
    }
    addUnique(part(pieceOf[read.op]).reads, version);
    if (all.versions[version].source < 0) // else it has a memory of its own
      views[version].push_back(all.produced[read.memory]);
  }
  for (int t : item.writes)
    if (const int maker = pieceThatMakes(t); maker >= 0) {
      addUnique(part(maker).writes, all.produced[t]);
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
  for (int op : ops)
    pieceOf[op] = -1;
  for (auto [p, piece] : llvm::enumerate(parts)) {
    if (piece.ops.empty())
      continue;
    bool last = p + 1 == parts.size();
    piece.call = item.call;
    piece.home = *llvm::max_element(piece.ops);
    piece.at = last ? item.at : piece.home;
    piece.view = parts.size() > 1 && llvm::all_of(piece.ops, [&](int op) { return problem.ops[op].form == graph::Form::view; });
    piece.batched = (parts.size() == 1 ? fused.batched(item, groups)
                                       : fused.forGpu && !piece.view && groups.late[piece.home] && isElementwise(piece)) &&
                    !cutsOut(piece);
    for (int v : piece.reads)
      piece.work.bytes += bytesOf(v);
    for (int v : piece.writes)
      piece.work.bytes += bytesOf(v);
    piece.work.bytes -= unreadBytes(item, piece);
    if (piece.view)
      piece.launches = 0, piece.work = {};
    if (piece.call)
      cutForCall(piece);
    pieces.push_back(std::move(piece));
  }
}

/// Updates run where the program runs them (codegen/Kernels/OrderUpdates.cpp).
void StepPieces::moveUpdates() {
  if (problem.ordered || mesh.devices() > 1 || llvm::any_of(problem.ops, [](const Problem::Op &op) { return op.repeats > 1; }))
    return;
  std::vector<step::OrderedItem> items(pieces.size());
  std::vector<int> writer(all.versions.size(), -1); // pieces
  std::vector<int64_t> bytes(all.versions.size());
  for (auto [p, piece] : llvm::enumerate(pieces)) {
    items[p].call = piece.call;
    for (int v : piece.reads) {
      items[p].reads.push_back(v);
      if (auto viewed = views.find(v); viewed != views.end())
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
}

step::Batch::Kernel StepPieces::kernelOf(const Piece &piece) const {
  step::Batch::Kernel kernel;
  for (int version : piece.reads) {
    const auto &tensor = problem.tensors[all.versions[version].tensor];
    const auto viewed = views.find(version);
    kernel.reads.push_back(viewed == views.end() ? version : viewed->second.front());
    kernel.single.push_back(localBytes(tensor, mesh, all.versions[version].sharding) <= (double)tensor.elementBytes);
  }
  kernel.writes.assign(piece.writes.begin(), piece.writes.end());
  return kernel;
}

/// The version that has the memory of one: itself, or what it is a view of.
int StepPieces::sourceOf(int tensor, int version) const {
  for (int maker = groups.maker[tensor]; maker >= 0 && problem.ops[maker].form == graph::Form::view; maker = groups.maker[tensor]) {
    version = all.operands[maker][0];
    tensor = problem.ops[maker].operands[0];
  }
  return version;
}

/// Renewed states that cannot be computed in the place of the old one: they are copied there at the end, as
/// codegen/Kernels/AssignBuffers.cpp does it. A shard that is cut out of a value is written in place, by a kernel
/// that moves as many bytes.
void StepPieces::addCopies() {
  copied.resize(all.versions.size());
  std::vector<int> writer(all.versions.size(), -1), reader(all.versions.size(), -1); // pieces; the last one
  for (auto [p, piece] : llvm::enumerate(pieces)) {
    for (int v : piece.writes)
      writer[v] = p;
    for (int v : piece.reads) {
      reader[v] = p;
      if (auto viewed = views.find(v); viewed != views.end())
        for (int source : viewed->second)
          reader[source] = p;
    }
    for (int op : piece.ops)
      for (int v : collectives.onDemand[op])
        reader[all.versions[v].source] = p;
  }
  llvm::DenseSet<int> placed; // versions that lie where they are held
  for (auto [output, written] : llvm::zip(problem.outputs, all.outputs)) {
    const int version = output.held ? sourceOf(output.tensor, written) : written;
    if (output.seldom || problem.ops.empty() || (!output.held && (output.state < 0 || groups.maker[output.tensor] < 0)))
      continue;
    const int old = output.state < 0 ? -1 : all.produced[output.state], made = writer[version];
    if (made >= 0 && (old < 0 || mayLieAt(pieces[made], version, old, reader[old] < made, made < reader[old])) &&
        (!output.held || placed.insert(version).second))
      continue;
    copied[version] = made >= 0 || !collectives.of(version).empty();
    Piece &copy = pieces.emplace_back();
    copy.copy = true;
    copy.home = std::max(0, groups.maker[output.tensor]); // (a value that the task was given has none)
    if (groups.maker[output.tensor] >= 0)
      copy.ops.push_back(copy.home);
    copy.reads.push_back(version);
    copy.work.bytes = 2 * bytesOf(version);
    copy.at = end;
  }
}
