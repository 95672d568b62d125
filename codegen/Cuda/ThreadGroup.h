#pragma once
#include "codegen/Lowering/ScalarBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::codegen {

/// Emits what the threads of a group, a warp, a part of one or a whole block, do together: memory, barriers and sums.
class ThreadGroup {
public:
  using Value = mlir::Value;
  static constexpr int64_t globalSpace = 1, sharedSpace = 3;

  /// `threads`: of a group.
  ThreadGroup(ScalarBuilder &s, mlir::func::FuncOp kernel, int64_t threads)
      : s(s), kernel(kernel), name(kernel.getName()), threads(threads) {}
  /// The number of this thread in its group.
  void setLane(Value number) { lane = number; }

  /// Declares memory of a block (shared) or of the GPU (global).
  Value allocate(mlir::Type element, int64_t count, int64_t space);
  /// Makes what the threads have written visible to all of them.
  void sync();
  /// A word of the warp in which each thread's bit tells whether the condition holds for it.
  Value ballot(Value condition);
  /// Combines the threads' partial accumulators of a reduction; every thread gets the result. Within warps it is done
  /// by shuffles, in an order that is always the same.
  llvm::SmallVector<Value> combine(mlir::Operation *stage, llvm::SmallVector<Value> mine);

private:
  Value word(int64_t value) { return s.integer(s.getBuilder().getI32Type(), value); }
  Value shuffle(Value value, int64_t distance);

  ScalarBuilder &s;
  mlir::func::FuncOp kernel;
  std::string name;
  int64_t threads;
  Value lane;
  unsigned allocated = 0;
};

} // namespace divisi::codegen
