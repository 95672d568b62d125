#pragma once
#include "codegen/Cuda/Mapping.h"
#include "codegen/Cuda/ThreadGroup.h"
#include "dialects/Graph/Graph.h"

namespace divisi::codegen {

/// Emits scatter_add for a block that owns some rows of the table. Its threads look for the indices that name these
/// rows, some each at a time, and note in shared memory what they find, and for whom. Then each group of threads adds
/// the updates of the rows that are its own, in the order of the indices: every element has one thread and one order.
class ScatterRows {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;
  /// The element of an operand with a number.
  using Element = llvm::function_ref<Value(unsigned operand, Value linear)>;

  ScatterRows(ScalarBuilder &s, ThreadGroup &threads, graph::ScatterAddOp scatter, const GpuMapping &mapping,
              Value result);
  void emit(Value block, Value group, Value lane, Element element);

private:
  /// The row that a thread adds to, relative to the block's first one (-1: none), and its columns there so far.
  struct Sums {
    Value row;
    Values columns;
  };
  void begin(Value block, Value group, Value lane);
  void copyRows(Value group);
  void look(Value base);
  Values rowsOf(Value first, bool whole);
  Value ownersOf(llvm::ArrayRef<Value> rows, Value any);
  Value groupOf(Value row) { return s.op<mlir::arith::AndIOp>(row, word(mapping.perBlock - 1)); }
  Values add(Value base, mlir::ValueRange carried);
  Values addFound(Value base, Value slot, mlir::ValueRange carried);
  Sums addOne(Value row, Value mine, llvm::ArrayRef<Value> update, const Sums &sums);
  void store(const Sums &sums);
  /// The number of an element of the result.
  Value placeOf(Value row, int64_t column);
  Values either(Value condition, mlir::TypeRange types, llvm::function_ref<Values()> then,
                llvm::function_ref<Values()> otherwise);
  mlir::Type wordType() { return s.getBuilder().getI32Type(); }
  Value word(int64_t value) { return s.integer(s.getBuilder().getI32Type(), value); }
  Value isWord(mlir::arith::CmpIPredicate predicate, Value a, Value b) {
    return s.op<mlir::arith::CmpIOp>(predicate, a, b);
  }

  ScalarBuilder &s;
  ThreadGroup &threads;
  const GpuMapping &mapping;
  Value result;
  int64_t rows, columns, indices;
  Element *element = nullptr;
  Value thread, own;         // own: the number of the thread's group, -1 if it has no columns
  Value table, first, count; // the table's number, the block's first row, and the number of its rows
  Value column;
  /// Warps whose threads add to the same rows, or one warp that adds to several groups' rows.
  int64_t teams, groupsOfTeam;
  Value team; // the thread's
  Value found,
      owners; // in shared memory: rows of the indices that were looked at; by team, the threads that found some
};

} // namespace divisi::codegen
