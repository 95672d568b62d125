#pragma once
#include "dialects/Graph/Form.h"
#include "step/Rows.h"

#include <vector>

namespace divisi::step {

/// Straight-line code without IR: values, and the operations between them. Operations are numbered, and stay in an order
/// of their own, so that copies can stand between them.
class Block {
public:
  struct Value {
    int64_t elements = 0, bytes = 0;
    int op = -1; // that makes it; -1: an argument
  };
  struct Op {
    graph::Form form = graph::Form::elementwise;
    llvm::SmallVector<int, 3> operands, results; // values
    llvm::SmallVector<int64_t, 4> extents;       // of the iteration space of an elementwise operation or a reduction
    llvm::SmallVector<bool, 4> reduced;          // by extent
    llvm::SmallVector<RowSet, 2> rows;           // by operand: rowsThrough
    int64_t flops = 0;                           // of an element
    bool always = false;                         // wanted in every step, whoever reads it
    int origin = -1;                             // what it is a copy of; else its own number

    /// An element of its one result is computed alone.
    bool isPointwise() const;
    /// Elementwise, a view or a reduction: one nest of loops.
    bool isLoop() const;
    bool isSerial() const { return form == graph::Form::serial || form == graph::Form::scan; }
    int64_t points() const;
  };

  int addValue(int64_t elements, int64_t bytes);
  /// Appends an operation; its results must not be made by another.
  int addOp(Op op);
  /// What leaves the block, and in which steps: 0 always, else bits of those who look at it.
  void addOutput(int value, int64_t when);

  /// A copy of an operation before another, with results of its own.
  int cloneBefore(int op, int before);
  void moveBefore(int op, int before);
  void setOperand(int op, unsigned operand, int value);
  /// Nobody may read its results.
  void erase(int op);

  const Value &value(int number) const { return values[number]; }
  const Op &op(int number) const { return ops[number]; }
  int size() const { return ops.size(); } // of all operations ever, the erased ones too
  /// The operation that makes a value; -1: none.
  int producer(int value) const { return values[value].op; }
  /// The operations that read a value, as often as they do.
  llvm::ArrayRef<int> users(int value) const { return readers[value]; }
  /// How often a value is an output.
  int outputsOf(int value) const { return outputs[value]; }
  llvm::ArrayRef<std::pair<int, int64_t>> allOutputs() const { return outputList; }
  bool isBefore(int a, int b) const { return place[a] < place[b]; }
  /// All operations that are left, in order.
  std::vector<int> order() const;
  bool isConstant(int op) const { return ops[op].form == graph::Form::constant; }
  /// Of the first result; 0 without one.
  int64_t elements(int op) const { return ops[op].results.empty() ? 0 : values[ops[op].results[0]].elements; }
  /// By operation: 0 if it is wanted in every step, else the bits of those who look at what it leads to.
  std::vector<int64_t> whenNeeded() const;

private:
  /// A place between the operation before `op` and it.
  double placeBefore(int op);

  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<double> place; // by operation: increasing in order; negative: erased
  std::vector<llvm::SmallVector<int, 4>> readers;
  std::vector<int> outputs; // by value: how often it is one
  std::vector<std::pair<int, int64_t>> outputList;
};

} // namespace divisi::step
