#include "passes/Planning/FuseProblem.h"

#include "dialects/Graph/ElementsRead.h"
#include "passes/Planning/ProblemBlock.h"
#include "step/Fusion.h"
#include "step/InPlace.h"

#include <numeric>
#include <set>

using namespace divisi;
using namespace divisi::planning;
using graph::Form;

namespace {

class Fuser {
public:
  Fuser(const Problem &problem, bool evaluation, FusedProblem &result)
      : problem(problem), evaluation(evaluation), described(problem, evaluation), result(result) {}

  void run(bool forGpu, const Groups &groups) {
    step::Fusion fusion(std::move(described.block), forGpu);
    const step::Block &block = fusion.getBlock();
    described.tensorOf.resize(block.valueCount(), -1); // of copies' results, too
    for (int op : block.order())
      for (auto [copy, original] : llvm::zip(block.op(op).results, block.op(block.op(op).origin).results))
        described.tensorOf[copy] = described.tensorOf[original];
    result.stored.assign(problem.tensors.size(), false);
    result.readsOf.resize(problem.ops.size());
    collect(fusion);
    if (forGpu && !problem.local) // whose calls have their epilogues
      findEpilogues();
    findKept(groups);
    findLaunches(groups);
  }

private:
  void collect(const step::Fusion &fusion) {
    const step::Block &block = fusion.getBlock();
    std::vector<int> order = block.order(), at(block.size(), -1);
    int next = problem.ops.size() - 1; // the operation of the problem at or behind each one
    for (int op : llvm::reverse(order)) {
      if (op < (int)described.numberOf.size())
        next = described.numberOf[op];
      at[op] = next;
    }
    for (int op : order) // copies may have moved (step/Traffic.cpp)
      next = at[op] = std::max(next, at[op]);
    needed.resize(described.tensorOf.size());
    for (const step::Fusion::Kernel &kernel : fusion.getKernels())
      if (!kernel.when) {
        std::set<int> members;
        for (int stage : kernel.stages)
          addMembers(fusion, kernel, stage, members);
        addItem(block, kernel.stages, members, false, at[kernel.stages.back()]);
        result.items.back().elements = isOfElements(block, kernel, members);
        findOverwrites(fusion, kernel, members);
      }
    for (int op : order)
      if (graph::isCall(block.op(op).form) && !fusion.getWhen(op))
        addItem(block, {op}, {op}, true, at[op]);
    std::vector<int> place(block.size());
    for (auto [i, op] : llvm::enumerate(order))
      place[op] = i;
    std::vector<int> numbers(result.items.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    llvm::sort(numbers, [&](int a, int b) { return place[stagesOf[a].back()] < place[stagesOf[b].back()]; });
    for (int output : described.outputs)
      need(block, output);
    std::vector<FusedProblem::Item> wanted; // a kernel without a reader does not run
    for (int number : llvm::reverse(numbers)) {
      FusedProblem::Item &item = result.items[number];
      for (int stage : stagesOf[number])
        for (int value : block.op(stage).results)
          if (needed[value])
            item.writes.push_back(described.tensorOf[value]);
      if (!item.call && item.writes.empty())
        continue;
      for (int value : inputsOf[number])
        need(block, value);
      wanted.push_back(std::move(item));
    }
    result.items.assign(std::move_iterator(wanted.rbegin()), std::move_iterator(wanted.rend()));
    for (FusedProblem::Item &item : result.items) {
      if (item.readsParts)
        findShares(item);
      for (int tensor : item.writes)
        result.stored[tensor] = true;
      for (const FusedProblem::Read &read : item.reads)
        result.readsOf[read.op].push_back({read.operand, read.share});
    }
  }

  void findShares(FusedProblem::Item &item) const {
    auto elements = [&](int t) { return (double)problem.tensors[t].elements(); };
    auto ofOperand = [&](int op, int i) { return elements(problem.ops[op].operands[i]); };
    const auto read = elementsRead(problem, item.ops, item.writes, ofOperand, elements);
    for (FusedProblem::Read &entry : item.reads)
      if (const int tensor = problem.ops[entry.op].operands[entry.operand]; elements(tensor) > 0)
        entry.share = read.lookup(tensor) / elements(tensor);
  }

  /// Finds the kernels that only sum the rows of operands of matmuls in 16 bits or TF32.
  void findEpilogues() {
    std::vector<llvm::SmallVector<int, 2>> readers(problem.tensors.size()); // operations
    std::vector<int> maker(problem.tensors.size(), -1);
    for (auto [i, op] : llvm::enumerate(problem.ops))
      if (op.forward == evaluation) {
        for (int t : op.operands)
          readers[t].push_back(i);
        for (int t : op.results)
          maker[t] = i;
      }
    std::set<int> sums; // tensors
    for (auto [i, op] : llvm::enumerate(problem.ops))
      if (op.forward == evaluation && suitsEpilogues(op))
        for (int side : {0, 1})
          if (int sum = sumOfRows(op, side, readers, maker); sum >= 0 && readers[sum].front() > (int)i) {
            sums.insert(sum);
            break;
          }
    for (FusedProblem::Item &item : result.items) {
      if (item.call || item.writes.empty())
        continue;
      item.epilogue = llvm::all_of(item.writes, [&](int t) { return sums.count(t); });
      if (item.epilogue)
        for (const FusedProblem::Read &read : item.reads)
          item.apart.push_back(read.memory);
      else
        fuseActivation(item, maker);
      for (const FusedProblem::Read &read : item.reads)
        if (llvm::is_contained(item.apart, read.memory))
          result.readsOf[read.op].erase(llvm::find(result.readsOf[read.op], std::pair(read.operand, read.share)));
    }
  }

  /// A gelu or its gradient, with a bias perhaps, of the result of a matmul.
  void fuseActivation(FusedProblem::Item &item, llvm::ArrayRef<int> maker) const {
    const bool gradient = llvm::any_of(item.ops, [&](int op) { return problem.ops[op].kind == "graph.gelu_grad"; });
    int activations = 0;
    for (int op : item.ops) {
      const std::string &kind = problem.ops[op].kind;
      activations += kind == "graph.gelu" || kind == "graph.gelu_grad";
      if (kind != "graph.gelu" && kind != "graph.gelu_grad" && kind != "graph.add" && kind != "graph.cast" &&
          kind != "graph.broadcast" && problem.ops[op].form != Form::view)
        return;
    }
    if (activations != 1 || item.writes.size() != 1 || problem.tensors[item.writes[0]].elementBytes != 2)
      return;
    // The gradient's operation reads the activation's argument, then the gradient that it continues.
    for (const FusedProblem::Read &read : item.reads)
      if (maker[read.memory] >= 0 && suitsEpilogues(problem.ops[maker[read.memory]]))
        item.apart.push_back(read.memory);
    item.epilogue = item.apart.size() == (gradient ? 2 : 1);
    if (!item.epilogue)
      item.apart.clear();
    else if (gradient) // it still reads the argument, and writes in the place of what the matmul would have written
      item.apart = {maker[item.apart[0]] > maker[item.apart[1]] ? item.apart[0] : item.apart[1], item.writes[0]};
  }

  bool suitsEpilogues(const Problem::Op &op) const {
    constexpr int64_t step = 8; // cuBLASLt's fast algorithms
    auto suits = [&](int t) {
      const auto &shape = problem.tensors[t].shape;
      return shape.size() == 2 && shape.back() % step == 0;
    };
    return op.kind == "graph.matmul" && op.precision != graph::fp32 && llvm::all_of(op.operands, suits) &&
           llvm::all_of(op.results, suits);
  }

  /// The sum over the rows of an operand that a matmul sums over, or of what the operand is rounded from; -1 if there is
  /// none.
  int sumOfRows(const Problem::Op &product, int side, llvm::ArrayRef<llvm::SmallVector<int, 2>> readers,
                llvm::ArrayRef<int> maker) const {
    for (const auto &list : product.rule.results[0])
      if (llvm::equal(list, product.rule.operands[side][0]))
        return -1; // the rows are the result's
    int value = product.operands[side];
    const int64_t columns = problem.tensors[value].shape.back();
    while (true) {
      for (int reader : readers[value]) {
        const Problem::Op &op = problem.ops[reader];
        if (op.kind == "graph.reduce_sum" && problem.tensors[op.results[0]].shape.size() == 1 &&
            problem.tensors[op.results[0]].shape[0] == columns && !readers[op.results[0]].empty())
          return op.results[0];
      }
      const Problem::Op *before = maker[value] < 0 ? nullptr : &problem.ops[maker[value]];
      if (!before || (before->form != Form::view && before->kind != "graph.cast") ||
          problem.tensors[before->operands[0]].shape.empty() ||
          problem.tensors[before->operands[0]].shape.back() != columns)
        return -1;
      value = before->operands[0];
    }
  }

  /// Finds the tensors that are produced in the forward pass and read by items of the backward pass.
  void findKept(const Groups &groups) {
    result.kept.assign(problem.tensors.size(), false);
    for (const FusedProblem::Item &item : result.items)
      for (const FusedProblem::Read &read : item.reads)
        if (int made = groups.maker[read.memory]; item.at > groups.loss && made >= 0 && made <= groups.loss)
          result.kept[read.memory] = true;
  }

  void findLaunches(const Groups &groups) {
    result.launches.assign(problem.ops.size(), 0);
    bool before = false;
    for (const FusedProblem::Item &item : result.items) {
      const bool batched = result.batched(item, groups);
      result.launches[item.home()] += !(batched && before) && !item.epilogue;
      before = batched;
    }
  }

  /// Collects an operation of a kernel and the operations that are recomputed for it.
  void addMembers(const step::Fusion &fusion, const step::Fusion::Kernel &kernel, int op,
                  std::set<int> &members) const {
    if (!members.insert(op).second)
      return;
    const step::Block &block = fusion.getBlock();
    for (int operand : block.op(op).operands) {
      int producer = block.producer(operand);
      if (producer >= 0 &&
          (llvm::is_contained(kernel.stages, producer) || (!fusion.isStage(producer) && block.op(producer).isLoop())))
        addMembers(fusion, kernel, producer, members);
    }
  }

  void addItem(const step::Block &block, llvm::ArrayRef<int> stages, const std::set<int> &members, bool call, int at) {
    FusedProblem::Item item;
    llvm::SmallVector<int> &inputs = inputsOf.emplace_back();
    item.call = call;
    item.at = at;
    std::vector<int> sorted(members.begin(), members.end());
    llvm::sort(sorted, [&](int a, int b) { return block.isBefore(a, b); });
    std::set<int> seen; // tensors
    for (int op : sorted) {
      int number = described.numberOf[block.op(op).origin];
      item.readsParts |= !call && problem.ops[number].readsPart;
      item.ops.push_back(number); // (a copy and its original may be in one kernel)
      for (auto [i, operand] : llvm::enumerate(block.op(op).operands)) {
        int producer = block.producer(operand);
        const bool writtenOut = !call && producer >= 0 && block.isConstant(producer) && problem.tensors[described.tensorOf[operand]].splat;
        if (members.count(producer) || writtenOut || !seen.insert(described.tensorOf[operand]).second)
          continue;
        item.reads.push_back({number, (int)i, described.tensorOf[sourceOf(block, operand)]});
        inputs.push_back(operand);
      }
    }
    result.items.push_back(std::move(item));
    stagesOf.push_back(llvm::to_vector(stages));
  }

  /// Whether each row of a kernel is one element, which it computes alone (codegen/Kernels/FormKernels.cpp).
  static bool isOfElements(const step::Block &block, const step::Fusion::Kernel &kernel, const std::set<int> &members) {
    const int64_t points = kernel.rows.back();
    if (kernel.serial || points == 1 || !llvm::all_of(kernel.stages, [&](int op) {
          return block.op(op).isPointwise() && block.elements(op) == points;
        }))
      return false;
    const bool flat = llvm::all_of(members, [&](int op) {
      const step::Block::Op &entry = block.op(op);
      if (block.elements(op) == 1 || block.isConstant(op))
        return true;
      for (auto [operand, through] : llvm::zip(entry.operands, entry.rows))
        if (block.value(operand).elements != 1 && through.back() != points)
          return false;
      return !entry.operands.empty();
    });
    return step::chooseRows(kernel.rows, points, flat) == points;
  }

  /// Of the last item.
  void findOverwrites(const step::Fusion &fusion, const step::Fusion::Kernel &kernel, const std::set<int> &members) {
    const step::Block &block = fusion.getBlock();
    const std::set<int> stages(kernel.stages.begin(), kernel.stages.end());
    auto isStage = [&](int op) { return stages.count(op) > 0; };
    std::vector<int> ops(members.begin(), members.end());
    llvm::sort(ops, [&](int a, int b) { return block.isBefore(a, b); });
    std::set<int> inputs;
    for (int op : ops)
      for (int operand : block.op(op).operands)
        if (int producer = block.producer(operand);
            producer < 0 || (!members.count(producer) && !block.isConstant(producer)))
          inputs.insert(operand);
    step::InPlace inPlace(block, ops, isStage, kernel.rows.back());
    for (int stage : kernel.stages)
      for (int value : block.op(stage).results)
        for (int input : inputs)
          if (inPlace.mayOverwrite(value, input))
            result.items.back().overwrites.push_back({described.tensorOf[value], described.tensorOf[sourceOf(block, input)]});
  }

  /// The value in memory: the source of a view, or the value itself.
  static int sourceOf(const step::Block &block, int value) {
    int producer = block.producer(value);
    return producer >= 0 && block.op(producer).form == Form::view ? sourceOf(block, block.op(producer).operands[0])
                                                                  : value;
  }

  /// Marks a value, or the source of a view, as stored in memory.
  void need(const step::Block &block, int value) {
    if (value >= 0)
      needed[sourceOf(block, value)] = true;
  }

  const Problem &problem;
  const bool evaluation;
  ProblemBlock described;
  FusedProblem &result;
  std::vector<bool> needed;                     // by value: in memory
  std::vector<llvm::SmallVector<int>> stagesOf, inputsOf; // by item, as they were found: operations, values
};
} // namespace

llvm::DenseMap<int, double> planning::elementsRead(const Problem &problem, llvm::ArrayRef<int> ops, llvm::ArrayRef<int> writes,
                                                  llvm::function_ref<double(int, int)> ofOperand,
                                                  llvm::function_ref<double(int)> ofResult) {
  llvm::SmallVector<graph::Reader> readers;
  llvm::SmallDenseSet<int> seen;
  for (int number : ops) {
    if (!seen.insert(number).second) // a copy of it, and what is read for both counts once
      continue;
    const Problem::Op &op = problem.ops[number];
    graph::Reader &reader = readers.emplace_back();
    reader.form = op.form;
    reader.readsPart = op.readsPart;
    reader.results = op.results;
    reader.elements = op.results.empty() ? 0 : ofResult(op.results[0]);
    for (auto [i, t] : llvm::enumerate(op.operands))
      reader.operands.push_back({t, ofOperand(number, i)});
  }
  llvm::SmallVector<std::pair<int, double>> stored;
  for (int t : writes)
    stored.push_back({t, ofResult(t)});
  return graph::elementsRead(readers, stored);
}

FusedProblem::FusedProblem(const Problem &problem, bool evaluation, bool forGpu, const Groups &groups)
    : forGpu(forGpu) {
  Fuser(problem, evaluation, *this).run(forGpu, groups);
}
