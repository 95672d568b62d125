#pragma once
#include "step/Block.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace divisi::step {

/// Which results a kernel may compute in the memory of which inputs.
class InPlace {
public:
  /// `ops`: those of the kernel, in program order; `isStage`: of these, whether a value is computed in a pass of its
  /// own; `rows`: of the kernel.
  InPlace(const Block &block, llvm::ArrayRef<int> ops, llvm::function_ref<bool(int)> isStage, int64_t rows);

  /// Whether a result may lie where an input lies: both are of one type, every operation of the kernel computes each
  /// element alone, and none reads the input, or what was computed from it, at another element than it writes.
  bool mayOverwrite(int result, int input);

private:
  bool isOfOnePass(const Block::Op &op, int64_t elements) const;
  bool readsOnlyWhereItWrites(int input) const;

  struct Member {
    const Block::Op *op;
    bool stage;
  };
  const Block &block;
  const int64_t rows;
  llvm::SmallVector<Member> members;     // without constants
  const Block::Op *pass = nullptr;       // the first stage
  bool onePass = true;                   // all are pointwise, and the stages are computed in one pass over the elements
  llvm::SmallDenseMap<int, bool> reads;  // by input: readsOnlyWhereItWrites, where it was asked
};

} // namespace divisi::step
