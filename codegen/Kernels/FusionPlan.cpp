#include "codegen/Kernels/FusionPlan.h"

#include "codegen/Kernels/Traffic.h"
#include "dialects/Graph/Graph.h"
#include "dialects/Graph/WhenNeeded.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using graph::shapeOf;

/// Kernels over so few elements may run on one thread, as one row.
static constexpr int64_t smallElements = 4096;
/// With so many rows there is enough to split over threads.
static constexpr int64_t enoughRows = 64;
/// A value that costs this many operations per element is not recomputed for a second use nearby.
static constexpr int64_t expensiveFlops = 8;
/// Uses that so many library calls lie between are not nearby.
static constexpr int64_t farCalls = 4;
/// A row's values that nobody outside of the kernel needs should fit into a cache.
static constexpr int64_t mostRowElements = 1 << 16;
/// Operations of a stage, and stages of a kernel: larger kernels take long to compile, and gain nothing.
static constexpr int64_t mostOperations = 64, mostOperationsForGpu = 256;
static constexpr size_t mostStages = 64;
/// Kernels are formed again when values are no longer stored between them; few are left after the first round.
static constexpr int mostRounds = 4;

/// Of the first result; 0 without one.
static int64_t elements(Operation *op) {
  return op->getNumResults() ? cast<ShapedType>(op->getResult(0).getType()).getNumElements() : 0;
}
bool FusionPlan::isPointwise(Operation *op) {
  auto loop = dyn_cast<LoopInterface>(op);
  return loop && op->getNumResults() == 1 && !loop.getLoopDomain().hasReduction();
}
static int64_t flopsPerElement(Operation *op) {
  auto cost = dyn_cast<graph::CostInterface>(op);
  return cost && op->getNumOperands() ? cost.getFlopsPerPoint() : 0;
}

FusionPlan::FusionPlan(Block &block, bool forGpu) : block(block), forGpu(forGpu) {
  decide();
  if (!forGpu)
    return;
  for (int round = 0; round < mostRounds && Traffic(*this).recomputeAcross(); ++round)
    decide();
  if (Traffic(*this).recomputeWithin())
    decide();
}

void FusionPlan::decide() {
  when = graph::whenNeeded(cast<func::FuncOp>(block.getParentOp()));
  evaluations.clear();
  stages.clear();
  kernels.clear();
  kernelOf.clear();
  countEvaluations();
  chooseStages();
  if (!forGpu)
    recomputeFarUses();
  formKernels();
}

void FusionPlan::countEvaluations() {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    double count = 0;
    for (Operation *user : op.getUsers()) {
      auto loop = dyn_cast<LoopInterface>(user);
      if (loop && isPointwise(user))
        count += std::max<double>(evaluations.lookup(user), elements(user));
      else
        count += loop ? loop.getLoopDomain().points() : elements(&op);
    }
    evaluations[&op] = isPointwise(&op) ? count : elements(&op);
  }
}

bool FusionPlan::mustBeWhole(Operation *op) const {
  return llvm::any_of(op->getUsers(), [](Operation *user) {
    auto serial = dyn_cast<SerialInterface>(user);
    return !isa<LoopInterface>(user) && !(serial && serial.readsOnce());
  });
}

void FusionPlan::chooseStages() {
  struct Chain {
    int64_t flops = 0, operations = 1;
    llvm::SmallDenseSet<Value> leaves; // values of full size that recomputing would read
  };
  llvm::DenseMap<Operation *, Chain> chains;
  for (Operation &op : block.without_terminator()) {
    if (!isa<LoopInterface, SerialInterface>(op))
      continue;
    if (!isPointwise(&op)) {
      stages.insert(&op);
      continue;
    }
    Chain chain;
    chain.flops = flopsPerElement(&op);
    for (Value operand : op.getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && chains.count(producer)) {
        chain.flops += chains[producer].flops;
        chain.operations += chains[producer].operations;
        chain.leaves.insert(chains[producer].leaves.begin(), chains[producer].leaves.end());
      } else if (!isa_and_nonnull<graph::ConstantOp>(producer)) {
        if (2 * graph::tensorType(operand).getNumElements() > elements(&op))
          chain.leaves.insert(operand);
      }
    }
    bool repeated = evaluations[&op] > 1.5 * elements(&op);
    bool dear = chain.flops >= expensiveFlops || chain.leaves.size() >= 2;
    bool reshapeOnly = isa<graph::ReshapeOp>(op);
    bool isLong = chain.operations > (forGpu ? mostOperationsForGpu : mostOperations);
    bool kept = (repeated && dear && !recomputed.contains(&op)) || isLong;
    if (!reshapeOnly && (mustBeWhole(&op) || kept)) {
      stages.insert(&op);
      continue;
    }
    if (reshapeOnly && mustBeWhole(&op)) // a view: its source must be whole
      if (Operation *source = op.getOperand(0).getDefiningOp())
        if (isPointwise(source) && !isa<graph::ReshapeOp>(source)) {
          stages.insert(source);
          chains.erase(source);
          chain.flops = 0;
          chain.leaves = {op.getOperand(0)};
        }
    chains[&op] = chain;
  }
}

/// A value that is kept only because it has several uses, and could be recomputed from one other tensor, is computed
/// again for uses that lie far away (in the backward part): the memory in between is worth more.
void FusionPlan::recomputeFarUses() {
  llvm::DenseMap<Operation *, int64_t> position; // library calls before
  int64_t calls = 0;
  for (Operation &op : block) {
    position[&op] = calls;
    calls += isa<LibraryInterface>(op);
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block.without_terminator()))) {
    if (!stages.contains(&op) || !isPointwise(&op) || mustBeWhole(&op) || when.lookup(&op))
      continue;
    SmallVector<Edge> edges;
    SmallVector<Value> outside;
    collectInputs(&op, ownRows(&op), edges, outside);
    llvm::SmallDenseSet<Value> large;
    bool fromReduction = false;
    for (Value value : outside)
      if (2 * graph::tensorType(value).getNumElements() > elements(&op))
        large.insert(value);
    for (const Edge &edge : edges)
      if (2 * elements(edge.producer) > elements(&op)) {
        large.insert(edge.producer->getResult(0));
        fromReduction |= isPointwise(edge.producer); // would keep a value that may itself be recomputed
      }
    if (large.size() > 1 || fromReduction)
      continue;
    SmallVector<OpOperand *> far;
    int64_t last = position[&op];
    Operation *first = nullptr;
    for (OpOperand &use : op.getUses())
      if (position[use.getOwner()] - last > farCalls) {
        far.push_back(&use);
        if (!first || use.getOwner()->isBeforeInBlock(first))
          first = use.getOwner();
      }
    if (far.empty() || !first)
      continue;
    OpBuilder builder(first);
    Operation *copy = builder.clone(op);
    for (OpOperand *use : far)
      use->set(copy->getResult(0));
    position[copy] = position[first];
    stages.insert(copy);
    evaluations[copy] = evaluations[&op];
  }
}

void FusionPlan::collectInputs(Operation *op, RowSet rows, SmallVectorImpl<Edge> &edges,
                               SmallVectorImpl<Value> &outside) const {
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    Operation *producer = operand.getDefiningOp();
    if (!producer || (!isa<LoopInterface, SerialInterface>(producer) && !isa<graph::ConstantOp>(producer))) {
      outside.push_back(operand);
      continue;
    }
    if (isa<graph::ConstantOp>(producer))
      continue;
    RowSet through = intersect(rows, rowsThrough(op, i));
    if (stages.contains(producer))
      edges.push_back({producer, through});
    else
      collectInputs(producer, through, edges, outside);
  }
}

RowSet FusionPlan::ownRows(Operation *op) const {
  if (isa<SerialInterface>(op))
    return {1};
  LoopDomain domain = cast<LoopInterface>(op).getLoopDomain();
  SmallVector<int64_t> leading;
  for (auto [extent, reduced] : llvm::zip(domain.extents, domain.reduced)) {
    if (reduced)
      break;
    leading.push_back(extent);
  }
  return rowsOfShape(leading);
}

void FusionPlan::closeProducers(ArrayRef<Edge> edges, int except) {
  for (const Edge &edge : edges)
    if (auto it = kernelOf.find(edge.producer); it != kernelOf.end() && it->second != except)
      kernels[it->second].open = false;
}

bool FusionPlan::mayTake(const Kernel &kernel, Operation *op) const {
  return kernel.open && !kernel.serial && kernel.when == getWhen(op) && kernel.stages.size() < mostStages;
}

/// Joins the kernel of a producer if enough rows remain.
bool FusionPlan::join(Operation *op, ArrayRef<Edge> edges) {
  RowSet own = ownRows(op);
  for (const Edge &candidate : edges) {
    auto it = kernelOf.find(candidate.producer);
    if (it == kernelOf.end())
      continue;
    Kernel &kernel = kernels[it->second];
    if (!mayTake(kernel, op))
      continue;
    RowSet rows = intersect(own, kernel.rows);
    for (const Edge &edge : edges)
      if (kernelOf.lookup_or(edge.producer, -1) == it->second)
        rows = intersect(rows, edge.rows);
    int64_t largest = cast<LoopInterface>(op).getLoopDomain().points();
    for (Operation *stage : kernel.stages)
      largest = std::max(largest, cast<LoopInterface>(stage).getLoopDomain().points());
    bool small = largest <= smallElements;
    bool enough = rows.back() >= std::min(enoughRows, kernel.rows.back());
    if (!small && (rows.back() == 1 || !enough || largest / rows.back() > mostRowElements))
      continue;
    kernel.rows = rows;
    kernel.stages.push_back(op);
    kernelOf[op] = it->second;
    return true;
  }
  return false;
}

/// Joins a kernel that runs over the same iteration space and reads a common input, without depending on it. On CPUs
/// only to reduce it.
bool FusionPlan::joinSibling(Operation *op, ArrayRef<Edge> edges, ArrayRef<Value> outside) {
  if (isPointwise(op) && !forGpu)
    return false;
  LoopDomain domain = cast<LoopInterface>(op).getLoopDomain();
  for (int i = kernels.size() - 1; i >= 0 && i >= (int)kernels.size() - 8; --i) {
    Kernel &kernel = kernels[i];
    if (!mayTake(kernel, op))
      continue;
    if (llvm::any_of(edges, [&](const Edge &edge) { return kernelOf.lookup_or(edge.producer, -1) == i; }))
      continue;
    bool shares = false, same = true;
    for (Operation *stage : kernel.stages) {
      LoopDomain other = cast<LoopInterface>(stage).getLoopDomain();
      same &= other.extents == domain.extents && other.reduced == domain.reduced;
      SmallVector<Edge> theirs;
      SmallVector<Value> inputs;
      collectInputs(stage, ownRows(stage), theirs, inputs);
      for (const Edge &edge : theirs)
        for (const Edge &mine : edges)
          shares |= edge.producer == mine.producer;
      for (Value value : inputs)
        shares |= llvm::is_contained(outside, value) && graph::tensorType(value).getNumElements() > 1;
    }
    if (!same || !shares)
      continue;
    kernel.rows = intersect(kernel.rows, ownRows(op));
    kernel.stages.push_back(op);
    kernelOf[op] = i;
    return true;
  }
  return false;
}

void FusionPlan::formKernels() {
  for (Operation &op : block) {
    if (isa<graph::ConstantOp>(op))
      continue;
    bool stage = stages.contains(&op);
    if (isa<LoopInterface>(op) && !stage) // recomputed at its uses; a view needs its source now
      if (!isa<graph::ReshapeOp>(op) || !mustBeWhole(&op))
        continue;
    SmallVector<Edge> edges;
    SmallVector<Value> outside;
    if (isa<LoopInterface, SerialInterface>(op)) {
      collectInputs(&op, stage ? ownRows(&op) : RowSet{1}, edges, outside);
    } else {
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp())
          edges.push_back({producer, {1}});
    }
    bool loop = stage && isa<LoopInterface>(op);
    if (loop && join(&op, edges)) {
      closeProducers(edges, kernelOf[&op]);
      continue;
    }
    closeProducers(edges);
    if (loop && joinSibling(&op, edges, outside))
      continue;
    if (!stage)
      continue;
    kernelOf[&op] = kernels.size();
    kernels.push_back({{&op}, ownRows(&op), true, isa<SerialInterface>(op), getWhen(&op)});
  }
}
