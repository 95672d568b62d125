#include "step/Traffic.h"

using namespace divisi;
using namespace divisi::step;
using graph::Form;
using llvm::ArrayRef;
using llvm::SmallVector;

/// Longer computations are not repeated, nor those of which readers would do more than this for each element: windows of
/// 3 x 3 that move by 2 overlap 2.25 times.
static constexpr size_t mostCopied = 128;
static constexpr double mostRepeated = 2.5;

Traffic::Traffic(const Fusion &fusion, Block &block, llvm::DenseSet<int> &recomputed)
    : fusion(fusion), block(block), recomputed(recomputed), reads(fusion.getKernels().size()),
      copies(fusion.getKernels().size()) {
  for (auto [k, kernel] : llvm::enumerate(fusion.getKernels()))
    for (int stage : kernel.stages) {
      SmallVector<Fusion::Edge> edges;
      SmallVector<int> outside;
      fusion.collectInputs(stage, fusion.ownRows(stage), edges, outside);
      reads[k].insert(outside.begin(), outside.end());
      llvm::SmallDenseSet<int, 8> seen;
      for (const Fusion::Edge &edge : edges)
        if (fusion.getKernelOf(edge.producer) != (int)k && seen.insert(edge.producer).second) {
          for (int result : block.op(edge.producer).results)
            reads[k].insert(result);
          readersOf[edge.producer].push_back({stage, (int)k});
        }
    }
}

/// Whether a stage must be in memory in any case: a call, an output or a view of it reads it.
bool Traffic::mustStay(int stage) const {
  return fusion.mustBeWhole(stage) || llvm::any_of(block.op(stage).results, [&](int result) {
           return llvm::any_of(block.users(result),
                               [&](int user) { return block.op(user).form == Form::view && mustStay(user); });
         });
}

/// Whether a kernel would read a value rather than compute it.
bool Traffic::isLeaf(int value, int kernel) const {
  int producer = block.producer(value);
  if (!isInlined(producer) || reads[kernel].contains(value) || fusion.getKernelOf(producer) == kernel)
    return true;
  return block.op(producer).form != Form::view && fusion.isStage(producer) && mustStay(producer);
}

/// What a kernel would read that computes the operation; false if that is too long.
bool Traffic::collectLeaves(int op, int kernel, Leaves &leaves, Inside &inside) const {
  if (!inside.insert(op).second)
    return true;
  if (inside.size() > mostCopied)
    return false;
  for (int operand : block.op(op).operands) {
    int producer = block.producer(operand);
    if (producer >= 0 && block.isConstant(producer))
      continue;
    if (isLeaf(operand, kernel))
      leaves.insert(operand);
    else if (!collectLeaves(producer, kernel, leaves, inside))
      return false;
  }
  return true;
}

/// Whether fewer bytes are moved, and hardly more are kept, if all readers compute the operation.
bool Traffic::pays(int op, ArrayRef<Reader> readers) const {
  const Block::Value &value = block.value(block.op(op).results[0]);
  int64_t saved = value.bytes; // it is not written
  Leaves kept;
  llvm::SmallDenseSet<int, 4> kernels;
  for (const Reader &reader : readers) {
    const Block::Op &stage = block.op(reader.stage);
    if (stage.isLoop() && double(stage.points()) > mostRepeated * double(value.elements))
      return false; // each element would be computed often
    if (!kernels.insert(reader.kernel).second)
      continue;
    Leaves leaves;
    Inside inside;
    if (!collectLeaves(op, reader.kernel, leaves, inside))
      return false;
    bool always = fusion.getKernels()[reader.kernel].when == 0;
    saved += always ? value.bytes : 0;
    for (int leaf : leaves) {
      int own = block.producer(leaf) >= 0 ? fusion.getKernelOf(block.producer(leaf)) : -1;
      if (reads[reader.kernel].contains(leaf) || own == reader.kernel)
        continue;
      kept.insert(leaf);
      saved -= always ? block.value(leaf).bytes : 0;
    }
  }
  int64_t keptBytes = 0;
  for (int leaf : kept)
    keptBytes += block.value(leaf).bytes;
  return saved > 0 && keptBytes <= value.bytes + value.bytes / 8; // statistics of rows beside a tensor of the same size
}

/// Whether an operation that is computed where it is used needs an old one.
bool Traffic::readsThrough(int op, int old) const {
  SmallVector<int> todo = {op};
  llvm::DenseSet<int> seen = {op};
  while (!todo.empty()) {
    int at = todo.pop_back_val();
    if (!isInlined(at) || fusion.isStage(at))
      continue;
    for (int operand : block.op(at).operands) {
      int producer = block.producer(operand);
      if (producer == old)
        return true;
      if (producer >= 0 && seen.insert(producer).second)
        todo.push_back(producer);
    }
  }
  return false;
}

/// The operation's result for a reader, with all that is not read.
int Traffic::copy(int op, const Reader &reader) {
  if (auto known = copies[reader.kernel].find(op);
      known != copies[reader.kernel].end() && block.isBefore(known->second, reader.stage))
    return block.op(known->second).results[0];
  SmallVector<int> operands = llvm::to_vector(block.op(op).operands);
  for (int &operand : operands) {
    int producer = block.producer(operand);
    if (!(producer >= 0 && block.isConstant(producer)) && !isLeaf(operand, reader.kernel))
      operand = copy(producer, reader);
  }
  int made = block.cloneBefore(op, reader.stage);
  for (auto [i, operand] : llvm::enumerate(operands))
    if (block.op(made).operands[i] != operand)
      block.setOperand(made, i, operand);
  recomputed.insert(made);
  copies[reader.kernel][op] = made;
  return block.op(made).results[0];
}

/// Makes an operation compute an old one for a reader. What lies between them is copied, each operation once.
void Traffic::replaceIn(int op, int old, const Reader &reader, Copies &between) {
  for (size_t i = 0; i < block.op(op).operands.size(); ++i) {
    int producer = block.producer(block.op(op).operands[i]);
    if (producer < 0)
      continue;
    if (producer == old) {
      block.setOperand(op, i, copy(old, reader));
    } else if (readsThrough(producer, old)) { // other kernels compute it, too
      auto known = between.find(producer);
      if (known == between.end()) {
        int own = block.cloneBefore(producer, reader.stage);
        replaceIn(own, old, reader, between);
        block.moveBefore(own, reader.stage); // behind what it reads now
        known = between.try_emplace(producer, own).first;
      }
      block.setOperand(op, i, block.op(known->second).results[0]);
    }
  }
}

bool Traffic::recomputeAcross() {
  SmallVector<int> values;
  for (int op : block.order())
    if (fusion.isStage(op) && isInlined(op) && readersOf.count(op) && !fusion.getWhen(op) && !mustStay(op))
      values.push_back(op);
  bool changed = false;
  for (int op : values) {
    if (!pays(op, readersOf[op]))
      continue;
    changed = true;
    for (const Reader &reader : readersOf[op]) {
      Leaves leaves;
      Inside inside;
      reads[reader.kernel].erase(block.op(op).results[0]);
      collectLeaves(op, reader.kernel, leaves, inside);
      Copies between;
      replaceIn(reader.stage, op, reader, between);
      reads[reader.kernel].insert(leaves.begin(), leaves.end());
    }
  }
  if (changed)
    eraseUnused();
  return changed;
}

void Traffic::eraseUnused() {
  std::vector<int> order = block.order();
  for (int op : llvm::reverse(order)) {
    if (!isInlined(op))
      continue;
    int result = block.op(op).results[0];
    if (block.users(result).empty() && !block.outputsOf(result)) {
      recomputed.erase(op);
      block.erase(op);
    }
  }
}

bool Traffic::recomputeWithin() {
  bool changed = false;
  for (const Fusion::Kernel &kernel : fusion.getKernels()) {
    SmallVector<int> kept;
    int64_t bytes = 0, rows = kernel.rows.back();
    for (int stage : kernel.stages) {
      const Block::Op &op = block.op(stage);
      if (!isInlined(stage) || mustStay(stage) || readersOf.count(stage) || block.value(op.results[0]).elements == rows)
        continue;
      kept.push_back(stage);
      bytes += block.value(op.results[0]).bytes / rows;
    }
    if (bytes <= sharedBytes)
      continue;
    for (int stage : kept)
      recomputed.insert(stage);
    changed |= !kept.empty();
  }
  return changed;
}
