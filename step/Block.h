#pragma once
#include "dialects/Graph/Form.h"
#include "step/Rows.h"

#include <vector>

namespace divisi::step {

/// Straight-line code without IR: values and operations. An operation keeps its number; the program order is separate,
/// so that copies can be inserted between operations.
class Block {
public:
  struct Value {
    int64_t elements = 0, bytes = 0;
    int op = -1; // the operation that produces it; -1: an argument
  };
  struct Op {
    graph::Form form = graph::Form::elementwise;
    llvm::SmallVector<int, 3> operands, results; // values
    llvm::SmallVector<int64_t, 4> extents;       // of the iteration space of an elementwise operation or a reduction
    llvm::SmallVector<bool, 4> reduced;          // by extent
    llvm::SmallVector<RowSet, 2> rows;           // by operand: rowsThrough
    int64_t flops = 0;                           // per element
    bool always = false;                         // needed in every step, even without readers
    int origin = -1;                             // the operation that it is a copy of, or its own number

    /// Whether each element of its single result is computed independently.
    bool isPointwise() const;
    /// Whether it is one loop nest: elementwise, a view or a reduction.
    bool isLoop() const;
    bool isSerial() const { return form == graph::Form::serial || form == graph::Form::scan; }
    int64_t points() const;
  };

  int addValue(int64_t elements, int64_t bytes);
  /// Appends an operation. No other operation may produce its results.
  int addOp(Op op);
  /// Makes a value an output of the block. `when` is 0 if it is needed in every step, else the bits of its consumers.
  void addOutput(int value, int64_t when);

  /// Inserts a copy of an operation before another one; the copy has new results. Returns its number.
  int cloneBefore(int op, int before);
  void moveBefore(int op, int before);
  void setOperand(int op, unsigned operand, int value);
  /// Removes an operation. Its results must not have readers.
  void erase(int op);

  const Value &value(int number) const { return values[number]; }
  const Op &op(int number) const { return ops[number]; }
  int size() const { return ops.size(); } // with erased operations
  int valueCount() const { return values.size(); }
  /// The operation that produces a value; -1: an argument.
  int producer(int value) const { return values[value].op; }
  /// The operations that read a value, once for each operand.
  llvm::ArrayRef<int> users(int value) const { return readers[value]; }
  /// The number of outputs that a value is.
  int outputsOf(int value) const { return outputs[value]; }
  llvm::ArrayRef<std::pair<int, int64_t>> allOutputs() const { return outputList; }
  bool isBefore(int a, int b) const { return links[a].place < links[b].place; }
  /// All operations that are not erased, in program order.
  std::vector<int> order() const;
  bool isConstant(int op) const { return ops[op].form == graph::Form::constant; }
  /// The number of elements of the first result; 0 without results.
  int64_t elements(int op) const { return ops[op].results.empty() ? 0 : values[ops[op].results[0]].elements; }
  /// By operation: 0 if it is needed in every step, else the bits of the outputs that depend on it.
  std::vector<int64_t> whenNeeded() const;

private:
  /// Puts an operation, or takes it out, of the list in program order; `before` of -1: at its end.
  void link(int op, int before);
  void unlink(int op);

  std::vector<Value> values;
  std::vector<Op> ops;
  struct Link {
    int previous = -1, next = -1;
    double place = -1; // increasing in order; negative: erased
  };
  std::vector<Link> links; // by operation
  int first = -1, last = -1;
  std::vector<llvm::SmallVector<int, 4>> readers;
  std::vector<int> outputs; // by value: the number of outputs that it is
  std::vector<std::pair<int, int64_t>> outputList;
};

} // namespace divisi::step
