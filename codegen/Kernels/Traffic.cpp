#include "codegen/Kernels/Traffic.h"

#include "dialects/Graph/Graph.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

/// Longer computations are not repeated.
static constexpr size_t mostCopied = 128;

static int64_t bytesOf(Value value) { return graph::bytesOf(value.getType()); }
static bool isInlined(Operation *op) { return op && FusionPlan::isPointwise(op); }

Traffic::Traffic(FusionPlan &plan) : plan(plan), reads(plan.getKernels().size()), copies(plan.getKernels().size()) {
  for (auto [k, kernel] : llvm::enumerate(plan.getKernels()))
    for (Operation *stage : kernel.stages) {
      SmallVector<FusionPlan::Edge> edges;
      SmallVector<Value> outside;
      plan.collectInputs(stage, plan.ownRows(stage), edges, outside);
      reads[k].insert(outside.begin(), outside.end());
      llvm::SmallPtrSet<Operation *, 8> seen;
      for (const FusionPlan::Edge &edge : edges)
        if (plan.getKernelOf(edge.producer) != (int)k && seen.insert(edge.producer).second) {
          reads[k].insert(edge.producer->result_begin(), edge.producer->result_end());
          readersOf[edge.producer].push_back({stage, (int)k});
        }
    }
}

/// Whether a stage must be in memory whoever reads it: a library call, the result or a view of it needs it.
bool Traffic::mustStay(Operation *stage) const {
  return plan.mustBeWhole(stage) || llvm::any_of(stage->getUsers(), [&](Operation *user) {
           return isa<graph::ReshapeOp>(user) && mustStay(user);
         });
}

/// Whether a kernel would read a value rather than compute it.
bool Traffic::isLeaf(Value value, int kernel) const {
  Operation *producer = value.getDefiningOp();
  if (!isInlined(producer) || reads[kernel].contains(value) || plan.getKernelOf(producer) == kernel)
    return true;
  return !isa<graph::ReshapeOp>(producer) && plan.isStage(producer) && mustStay(producer);
}

/// What a kernel would read that computes the operation; false if that is too long.
bool Traffic::collectLeaves(Operation *op, int kernel, Leaves &leaves, llvm::SmallPtrSetImpl<Operation *> &inside) {
  if (!inside.insert(op).second)
    return true;
  if (inside.size() > mostCopied)
    return false;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (isa_and_nonnull<graph::ConstantOp>(producer))
      continue;
    if (isLeaf(operand, kernel))
      leaves.insert(operand);
    else if (!collectLeaves(producer, kernel, leaves, inside))
      return false;
  }
  return true;
}

/// Whether fewer bytes are moved, and hardly more are kept, if all readers compute the operation.
bool Traffic::pays(Operation *op, ArrayRef<Reader> readers) {
  int64_t bytes = bytesOf(op->getResult(0)), saved = bytes; // it is not written
  Leaves kept;
  llvm::SmallDenseSet<int, 4> kernels;
  for (const Reader &reader : readers) {
    auto loop = dyn_cast<LoopInterface>(reader.stage);
    if (loop && loop.getLoopDomain().points() > 2 * graph::tensorType(op->getResult(0)).getNumElements())
      return false; // each element would be computed often
    if (!kernels.insert(reader.kernel).second)
      continue;
    Leaves leaves;
    llvm::SmallPtrSet<Operation *, 16> inside;
    if (!collectLeaves(op, reader.kernel, leaves, inside))
      return false;
    bool always = plan.getKernels()[reader.kernel].when == 0;
    saved += always ? bytes : 0;
    for (Value leaf : leaves) {
      auto own = leaf.getDefiningOp() ? plan.getKernelOf(leaf.getDefiningOp()) : -1;
      if (reads[reader.kernel].contains(leaf) || own == reader.kernel)
        continue;
      kept.insert(leaf);
      saved -= always ? bytesOf(leaf) : 0;
    }
  }
  int64_t keptBytes = 0;
  for (Value leaf : kept)
    keptBytes += bytesOf(leaf);
  return saved > 0 && keptBytes <= bytes + bytes / 8; // statistics of rows beside a tensor of the same size
}

/// Whether an operation that is computed where it is used needs an old one.
bool Traffic::readsThrough(Operation *op, Operation *old) const {
  if (!isInlined(op) || plan.isStage(op))
    return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return producer == old || (producer && readsThrough(producer, old));
  });
}

/// The operation for a reader, with all that is not read.
Value Traffic::copy(Operation *op, const Reader &reader) {
  Operation *&known = copies[reader.kernel][op];
  if (known && known->isBeforeInBlock(reader.stage))
    return known->getResult(0);
  IRMapping mapping;
  for (Value operand : op->getOperands())
    if (!isa_and_nonnull<graph::ConstantOp>(operand.getDefiningOp()) && !isLeaf(operand, reader.kernel))
      mapping.map(operand, copy(operand.getDefiningOp(), reader));
  OpBuilder builder(reader.stage);
  Operation *made = builder.clone(*op, mapping);
  plan.setRecomputed(made, true);
  copies[reader.kernel][op] = made;
  return made->getResult(0);
}

void Traffic::replaceIn(Operation *op, Operation *old, const Reader &reader) {
  for (OpOperand &use : op->getOpOperands()) {
    Operation *producer = use.get().getDefiningOp();
    if (producer == old) {
      use.set(copy(old, reader));
    } else if (producer && readsThrough(producer, old)) { // other kernels compute it, too
      OpBuilder builder(reader.stage);
      Operation *own = builder.clone(*producer);
      replaceIn(own, old, reader);
      own->moveBefore(reader.stage); // behind what it reads now
      use.set(own->getResult(0));
    }
  }
}

bool Traffic::recomputeAcross() {
  SmallVector<Operation *> values;
  for (Operation &op : plan.getBlock())
    if (plan.isStage(&op) && isInlined(&op) && readersOf.count(&op) && !plan.getWhen(&op) && !mustStay(&op))
      values.push_back(&op);
  bool changed = false;
  for (Operation *op : values) {
    if (!pays(op, readersOf[op]))
      continue;
    changed = true;
    for (const Reader &reader : readersOf[op]) {
      Leaves leaves;
      llvm::SmallPtrSet<Operation *, 16> inside;
      reads[reader.kernel].erase(op->getResult(0));
      collectLeaves(op, reader.kernel, leaves, inside);
      replaceIn(reader.stage, op, reader);
      reads[reader.kernel].insert(leaves.begin(), leaves.end());
    }
  }
  if (changed)
    eraseUnused();
  return changed;
}

void Traffic::eraseUnused() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(plan.getBlock())))
    if (op.use_empty() && isInlined(&op)) {
      plan.setRecomputed(&op, false);
      op.erase();
    }
}

bool Traffic::recomputeWithin() {
  bool changed = false;
  for (const FusionPlan::Kernel &kernel : plan.getKernels()) {
    SmallVector<Operation *> kept;
    int64_t bytes = 0, rows = kernel.rows.back();
    for (Operation *stage : kernel.stages) {
      if (!isInlined(stage) || mustStay(stage) || readersOf.count(stage) ||
          graph::tensorType(stage->getResult(0)).getNumElements() == rows)
        continue;
      kept.push_back(stage);
      bytes += bytesOf(stage->getResult(0)) / rows;
    }
    if (bytes <= sharedBytes)
      continue;
    for (Operation *stage : kept)
      plan.setRecomputed(stage, true);
    changed |= !kept.empty();
  }
  return changed;
}
