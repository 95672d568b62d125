#include "step/Fusion.h"

#include "step/Traffic.h"

using namespace divisi;
using namespace divisi::step;
using graph::Form;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::SmallVectorImpl;

/// Kernels over so few elements may run on one thread, as one row.
static constexpr int64_t smallElements = 4096;
/// With at least this number of rows the work divides well over threads.
static constexpr int64_t enoughRows = 64;
/// A value that costs this many operations per element is not recomputed for a second use nearby.
static constexpr int64_t expensiveFlops = 8;
/// Uses with more calls than this between them are not nearby.
static constexpr int64_t farCalls = 4;
/// Operands that are read for the last time here, and would be kept longer if a value were recomputed at its use: this
/// many, or two if the use is not nearby.
static constexpr int64_t mostKept = 4;
/// A GPU computes each row on one multiprocessor. Kernels do not become ones of fewer rows than this if a row is longer than this, or if
/// what gives the rows is this many times smaller than a stage: a launch and some bytes are saved, and most of the GPU is idle.
static constexpr int64_t enoughRowsForGpu = 256, longRowForGpu = 1 << 13, fewerValues = 64;
/// The values of a row that no other kernel reads should fit into a cache.
static constexpr int64_t mostRowElements = 1 << 16;
/// Operations of a stage, and stages of a kernel: larger kernels take long to compile, and gain nothing.
static constexpr int64_t mostOperations = 64, mostOperationsForGpu = 256;
static constexpr size_t mostStages = 64;
/// Places that a stage reads for an element. If there are more, operands that read several are stored: concatenations of a concatenation, say.
static constexpr size_t mostReads = 128;
/// The number of kernels, from the last one back, that a sibling may join; and the large values that all stages of a kernel of a GPU may
/// read then: a thread has some elements of each in registers.
static constexpr int mostSiblings = 8;
static constexpr size_t mostInputsOfSiblings = 32;
/// Kernels are formed again when values are no longer stored between them; few are left after the first round.
static constexpr int mostRounds = 4;

Fusion::Fusion(Block what, bool forGpu) : block(std::move(what)), forGpu(forGpu) {
  decide();
  if (!forGpu)
    return;
  for (int round = 0; round < mostRounds && Traffic(*this, block, recomputed).recomputeAcross(); ++round)
    decide();
  if (Traffic(*this, block, recomputed).recomputeWithin())
    decide();
}

void Fusion::decide() {
  when = block.whenNeeded();
  stages.clear();
  kernels.clear();
  kernelOf.clear();
  countEvaluations();
  countCalls();
  chooseStages();
  if (!forGpu)
    recomputeFarUses();
  formKernels();
}

void Fusion::countEvaluations() {
  evaluations.assign(block.size(), 0);
  std::vector<int> order = block.order();
  for (int op : llvm::reverse(order)) {
    double count = 0;
    for (int result : block.op(op).results) {
      count += block.outputsOf(result) * block.elements(op);
      for (int user : block.users(result)) {
        const Block::Op &reader = block.op(user);
        if (reader.isPointwise())
          count += std::max<double>(evaluations[user], block.elements(user));
        else
          count += reader.isLoop() ? reader.points() : block.elements(op);
      }
    }
    evaluations[op] = block.op(op).isPointwise() ? count : block.elements(op);
  }
}

bool Fusion::mustBeWhole(int op) const {
  return llvm::any_of(block.op(op).results, [&](int result) {
    return block.outputsOf(result) || llvm::any_of(block.users(result), [&](int user) {
             const Block::Op &reader = block.op(user);
             return !reader.isLoop() && reader.form != Form::scan;
           });
  });
}

void Fusion::countCalls() {
  position.assign(block.size(), 0);
  int64_t calls = 0;
  for (int op : block.order()) {
    position[op] = calls;
    calls += graph::isCall(block.op(op).form);
  }
}

bool Fusion::endsAt(int value, int op) const {
  return block.producer(value) >= 0 && !block.outputsOf(value) && llvm::all_of(block.users(value), [&](int user) {
           return user == op || block.isBefore(user, op);
         });
}

/// Whether `ending` values that are read for the last time would be kept for too long, or are too many to keep, if what
/// is computed from them is computed after `calls` further calls.
static bool keepsMore(int64_t ending, int64_t calls) {
  return ending > mostKept ? calls > 0 : ending >= 2 && calls > farCalls;
}

void Fusion::chooseStages() {
  auto keepsLeaves = [&](int number, const llvm::SmallDenseSet<int> &leaves) {
    int64_t calls = std::numeric_limits<int64_t>::max();
    for (int user : block.users(block.op(number).results[0]))
      calls = std::min(calls, position[user] - position[number]);
    return keepsMore(llvm::count_if(leaves, [&](int leaf) { return endsAt(leaf, number); }), calls);
  };
  struct Chain {
    int64_t flops = 0, operations = 1;
    size_t reads = 1;                // places of values: a concatenation reads each operand at a place of its own
    llvm::SmallDenseSet<int> leaves; // values of full size that recomputing would read
  };
  llvm::DenseMap<int, Chain> chains; // by operation
  auto chainOf = [&](int number) {
    const Block::Op &op = block.op(number);
    Chain chain;
    size_t all = 1, most = 1; // reads of the operands
    auto count = [&](size_t reads) { all += reads, most = std::max(most, reads); };
    chain.flops = op.flops;
    for (int operand : op.operands) {
      int producer = block.producer(operand);
      if (auto it = chains.find(producer); producer >= 0 && it != chains.end()) {
        chain.flops += it->second.flops;
        chain.operations += it->second.operations;
        count(it->second.reads);
        chain.leaves.insert(it->second.leaves.begin(), it->second.leaves.end());
      } else if (producer < 0 || !block.isConstant(producer)) {
        count(1);
        if (2 * block.value(operand).elements > block.elements(number))
          chain.leaves.insert(operand);
      }
    }
    const bool joins = op.operands.size() > 3; // other operations have at most three
    chain.reads = std::max<size_t>(chain.leaves.size(), joins ? all : most);
    return chain;
  };
  /// Stores a value that is computed from several, or what it is a view of.
  auto store = [&](int producer) {
    SmallVector<int> views;
    for (; producer >= 0 && chains.contains(producer) && block.op(producer).form == Form::view; producer = block.producer(block.op(producer).operands[0]))
      views.push_back(producer);
    auto it = chains.find(producer);
    if (it == chains.end() || it->second.reads <= 1)
      return;
    stages.insert(producer);
    chains.erase(it);
    for (int view : llvm::reverse(views))
      chains[view] = chainOf(view);
  };
  for (int number : block.order()) {
    const Block::Op &op = block.op(number);
    if (!op.isLoop() && !op.isSerial())
      continue;
    if (!op.isPointwise()) {
      stages.insert(number);
      continue;
    }
    Chain chain = chainOf(number);
    if (chain.reads > mostReads) {
      for (int operand : op.operands)
        store(block.producer(operand));
      chain = chainOf(number);
    }
    bool repeated = evaluations[number] > 1.5 * block.elements(number);
    bool dear = chain.flops >= expensiveFlops || chain.leaves.size() >= 2;
    bool view = op.form == Form::view;
    bool isLong = chain.operations > (forGpu ? mostOperationsForGpu : mostOperations);
    bool kept = (repeated && dear && !recomputed.contains(number)) || isLong;
    if (!view && (mustBeWhole(number) || kept || keepsLeaves(number, chain.leaves))) {
      stages.insert(number);
      continue;
    }
    if (view && mustBeWhole(number)) // its source must be in memory
      if (int source = block.producer(op.operands[0]); source >= 0)
        if (block.op(source).isPointwise() && block.op(source).form != Form::view) {
          stages.insert(source);
          chains.erase(source);
          chain.flops = 0;
          chain.reads = 1;
          chain.leaves = {op.operands[0]};
        }
    chains[number] = chain;
  }
}

/// A value that is kept only because it has several uses, and could be recomputed from one other tensor, is recomputed
/// for distant uses (in the backward pass), to free its memory in between.
void Fusion::recomputeFarUses() {
  std::vector<int> order = block.order();
  for (int op : llvm::reverse(order)) {
    if (!stages.contains(op) || !block.op(op).isPointwise() || mustBeWhole(op) || when[op])
      continue;
    SmallVector<Edge> edges;
    SmallVector<int> outside;
    collectInputs(op, ownRows(op), edges, outside);
    llvm::SmallDenseSet<int> large;
    bool fromReduction = false;
    for (int value : outside)
      if (2 * block.value(value).elements > block.elements(op))
        large.insert(value);
    for (const Edge &edge : edges)
      if (2 * block.elements(edge.producer) > block.elements(op)) {
        large.insert(block.op(edge.producer).results[0]);
        fromReduction |= block.op(edge.producer).isPointwise(); // would keep a value that may itself be recomputed
      }
    if (large.size() > 1 || fromReduction)
      continue;
    SmallVector<int> far;
    int first = -1;
    for (int user : block.users(block.op(op).results[0]))
      if (position[user] - position[op] > farCalls) {
        far.push_back(user);
        if (first < 0 || block.isBefore(user, first))
          first = user;
      }
    if (first < 0)
      continue;
    int copy = block.cloneBefore(op, first);
    for (int user : far)
      for (auto [i, operand] : llvm::enumerate(block.op(user).operands))
        if (operand == block.op(op).results[0]) {
          block.setOperand(user, i, block.op(copy).results[0]);
          break; // `far` has a user as often as it reads the value
        }
    position.push_back(position[first]);
    stages.insert(copy);
    evaluations.push_back(evaluations[op]);
    when.push_back(0);
  }
}

void Fusion::collectInputs(int op, const RowSet &rows, SmallVectorImpl<Edge> &edges,
                           SmallVectorImpl<int> &outside) const {
  const Block::Op &reader = block.op(op);
  for (auto [i, operand] : llvm::enumerate(reader.operands)) {
    int producer = block.producer(operand);
    if (producer >= 0 && block.isConstant(producer))
      continue;
    if (producer < 0 || graph::isCall(block.op(producer).form)) {
      outside.push_back(operand);
      continue;
    }
    RowSet through = intersect(rows, reader.rows[i]);
    if (stages.contains(producer))
      edges.push_back({producer, through});
    else
      collectInputs(producer, through, edges, outside);
  }
}

RowSet Fusion::ownRows(int number) const {
  const Block::Op &op = block.op(number);
  if (op.isSerial())
    return {1};
  SmallVector<int64_t> leading;
  for (auto [extent, reduced] : llvm::zip(op.extents, op.reduced)) {
    if (reduced)
      break;
    leading.push_back(extent);
  }
  return rowsOfShape(leading);
}

void Fusion::closeProducers(ArrayRef<Edge> edges, int except) {
  for (const Edge &edge : edges)
    if (auto it = kernelOf.find(edge.producer); it != kernelOf.end() && it->second != except)
      kernels[it->second].open = false;
}

bool Fusion::mayTake(const Kernel &kernel, int op) const {
  return kernel.open && !kernel.serial && kernel.when == when[op] && kernel.stages.size() < mostStages;
}

/// Whether a reduction of a kernel, or a new one, would reduce the outermost dimension within each of n rows, but not
/// all of them.
bool Fusion::reducesColumns(const Kernel &kernel, int op, int64_t n) const {
  auto isOfColumns = [&](int stage) {
    const Block::Op &reduction = block.op(stage);
    size_t d = 0;
    for (int64_t product = 1; d < reduction.extents.size() && (product < n || reduction.extents[d] == 1); ++d)
      product *= reduction.extents[d];
    return d < reduction.extents.size() && reduction.reduced[d] && block.elements(stage) > n;
  };
  return isOfColumns(op) || llvm::any_of(kernel.stages, isOfColumns);
}

/// Joins the kernel of a producer if enough rows remain. A GPU computes sums of columns in kernels of their own.
bool Fusion::join(int op, ArrayRef<Edge> edges) {
  RowSet own = ownRows(op);
  for (const Edge &candidate : edges) {
    auto it = kernelOf.find(candidate.producer);
    if (it == kernelOf.end())
      continue;
    Kernel &kernel = kernels[it->second];
    if (!mayTake(kernel, op) || keepsMore(kernel.ending, position[op] - position[kernel.stages.back()]))
      continue;
    RowSet rows = intersect(own, kernel.rows);
    for (const Edge &edge : edges)
      if (getKernelOf(edge.producer) == it->second)
        rows = intersect(rows, edge.rows);
    int64_t before = 0;
    for (int stage : kernel.stages)
      before = std::max(before, block.op(stage).points());
    const int64_t largest = std::max(before, block.op(op).points());
    bool small = largest <= smallElements;
    const bool fewer = rows.back() < std::min(std::max(own.back(), kernel.rows.back()), enoughRowsForGpu);
    if (forGpu && !small && fewer && (largest >= fewerValues * before || largest / rows.back() > longRowForGpu))
      continue;
    if (forGpu && !small && rows.back() < kernel.rows.back() && reducesColumns(kernel, op, rows.back()))
      continue;
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
bool Fusion::joinSibling(int number, ArrayRef<Edge> edges, ArrayRef<int> outside) {
  const Block::Op &op = block.op(number);
  if (op.isPointwise() && !forGpu)
    return false;
  for (int i = kernels.size() - 1; i >= 0 && i >= (int)kernels.size() - mostSiblings; --i) {
    Kernel &kernel = kernels[i];
    if (!mayTake(kernel, number))
      continue;
    if (llvm::any_of(edges, [&](const Edge &edge) { return getKernelOf(edge.producer) == i; }))
      continue;
    bool shares = false, same = true;
    llvm::SmallDenseSet<int> large;
    auto count = [&](ArrayRef<Edge> from, ArrayRef<int> values) {
      if (!forGpu)
        return;
      auto add = [&](int value) {
        if (2 * block.value(value).elements > op.points())
          large.insert(value);
      };
      llvm::for_each(values, add);
      for (const Edge &edge : from)
        add(block.op(edge.producer).results[0]);
    };
    count(edges, outside);
    for (int stage : kernel.stages) {
      const Block::Op &other = block.op(stage);
      same &= other.extents == op.extents && other.reduced == op.reduced;
      SmallVector<Edge> theirs;
      SmallVector<int> inputs;
      collectInputs(stage, ownRows(stage), theirs, inputs);
      count(theirs, inputs);
      for (const Edge &edge : theirs)
        for (const Edge &mine : edges)
          shares |= edge.producer == mine.producer;
      for (int value : inputs)
        shares |= llvm::is_contained(outside, value) && block.value(value).elements > 1;
    }
    if (!same || !shares || large.size() > mostInputsOfSiblings)
      continue;
    kernel.rows = intersect(kernel.rows, ownRows(number));
    kernel.stages.push_back(number);
    kernelOf[number] = i;
    return true;
  }
  return false;
}

void Fusion::countEnding(int number, ArrayRef<Edge> edges, ArrayRef<int> outside) {
  Kernel &kernel = kernels[kernelOf[number]];
  kernel.ending += llvm::count_if(outside, [&](int value) { return endsAt(value, number); });
  for (const Edge &edge : edges)
    if (getKernelOf(edge.producer) != kernelOf[number])
      kernel.ending += endsAt(block.op(edge.producer).results[0], number);
}

void Fusion::formKernels() {
  for (int number : block.order()) {
    const Block::Op &op = block.op(number);
    if (block.isConstant(number))
      continue;
    bool stage = stages.contains(number);
    if (op.isLoop() && !stage) // recomputed at its uses; a view needs its source now
      if (op.form != Form::view || !mustBeWhole(number))
        continue;
    SmallVector<Edge> edges;
    SmallVector<int> outside;
    if (op.isLoop() || op.isSerial()) {
      collectInputs(number, stage ? ownRows(number) : RowSet{1}, edges, outside);
    } else {
      for (int operand : op.operands)
        if (int producer = block.producer(operand); producer >= 0)
          edges.push_back({producer, {1}});
    }
    bool loop = stage && op.isLoop();
    if (loop && join(number, edges)) {
      closeProducers(edges, kernelOf[number]);
      countEnding(number, edges, outside);
      continue;
    }
    closeProducers(edges);
    if (loop && joinSibling(number, edges, outside))
      continue;
    if (!stage)
      continue;
    kernelOf[number] = kernels.size();
    kernels.push_back({{number}, ownRows(number), true, op.isSerial(), when[number]});
    countEnding(number, edges, outside);
  }
}
