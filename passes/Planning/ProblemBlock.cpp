#include "passes/Planning/ProblemBlock.h"

#include <set>

using namespace divisi;
using namespace divisi::planning;
using graph::Form;

namespace {

/// The `when` bits of outputs that only some steps need.
constexpr int64_t someSteps = 1;

class Describer {
public:
  Describer(const Problem &problem, bool evaluation, ProblemBlock &result)
      : problem(problem), result(result), valueOf(problem.tensors.size(), -1) {
    for (auto [number, op] : llvm::enumerate(problem.ops))
      if (op.forward == evaluation)
        add(number, op);
    for (const Problem::Output &output : problem.outputs) {
      const int value = valueOf[output.tensor];
      result.outputs.push_back(value);
      if (value >= 0)
        result.block.addOutput(value, output.seldom ? someSteps : 0);
    }
  }

private:
  const llvm::SmallVector<int64_t, 4> &shapeOf(int tensor) const { return problem.tensors[tensor].shape; }

  int valueFor(int tensor) {
    int &value = valueOf[tensor];
    if (value < 0) {
      const int64_t elements = llvm::product_of(shapeOf(tensor));
      result.tensorOf.push_back(tensor);
      value = result.block.addValue(elements, elements * problem.tensors[tensor].elementBytes);
    }
    return value;
  }

  void add(int number, const Problem::Op &op) {
    step::Block::Op entry;
    entry.form = op.form;
    entry.flops = op.operands.empty() ? 0 : op.pointFlops;
    entry.always = op.message;
    for (int t : op.operands)
      entry.operands.push_back(valueFor(t));
    for (int t : op.results)
      entry.results.push_back(valueFor(t));
    if (!op.results.empty()) {
      iterate(op, entry);
      if (!graph::isCall(op.form) && op.form != Form::constant)
        for (auto [i, t] : llvm::enumerate(op.operands))
          entry.rows.push_back(step::rowsThrough(op.rule, i, shapeOf(t), shapeOf(op.results[0])));
    }
    result.numberOf.push_back(number);
    result.block.addOp(std::move(entry));
  }

  /// The iteration space: the dimensions of the result, and of a reduction also those that it reduces.
  void iterate(const Problem::Op &op, step::Block::Op &entry) const {
    const auto &shape = shapeOf(op.results[0]);
    const int64_t points = op.flops / std::max<int64_t>(1, op.pointFlops);
    const bool windowed = llvm::any_of(op.rule.factors, [](const auto &factor) { return factor.windowed; }) ||
                          (!op.operands.empty() && points != llvm::product_of(shapeOf(op.operands[0])));
    if (op.form != Form::reduction || windowed || op.operands.empty()) {
      entry.extents.assign(shape.begin(), shape.end());
      entry.reduced.assign(shape.size(), false);
      if (op.form == Form::reduction) { // the innermost loop runs over contiguous elements (codegen/Lowering/Pooling.cpp)
        const int64_t window = std::max<int64_t>(1, points / std::max<int64_t>(1, llvm::product_of(shape)));
        const size_t at = shape.empty() ? 0 : shape.size() - 1;
        entry.extents.insert(entry.extents.begin() + at, window);
        entry.reduced.insert(entry.reduced.begin() + at, true);
      }
      return;
    }
    std::set<int> free; // factors of the result
    for (const auto &factors : op.rule.results[0])
      free.insert(factors.begin(), factors.end());
    for (auto [factors, size] : llvm::zip(op.rule.operands[0], shapeOf(op.operands[0]))) {
      entry.extents.push_back(size);
      entry.reduced.push_back(!factors.empty() && !free.count(factors[0]));
    }
  }

  const Problem &problem;
  ProblemBlock &result;
  std::vector<int> valueOf; // by tensor
};
} // namespace

ProblemBlock::ProblemBlock(const Problem &problem, bool evaluation) { Describer(problem, evaluation, *this); }
