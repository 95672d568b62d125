#pragma once
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/SamplePlaces.h"
#include "passes/Training/StepFunction.h"

#include "mlir/IR/IRMapping.h"

namespace divisi::training {

/// Makes the losses of files right for a last batch of an evaluation, which may lack rows: operations that combine samples
/// leave out the rows that are missing. Where the file divides a sum over samples by a multiple of the batch's size, as means
/// do, or by that less one, as unbiased deviations do, the quotient is scaled from `rows` to the whole batch. Other sums stay as they are, so that ratios of sums, norms and
/// numbers of samples are those of the rows. Losses that the compiler has added know the number of rows themselves.
class ValidRows {
public:
  ValidRows(StepFunction &step, mlir::OpBuilder &builder, mlir::func::FuncOp loss, mlir::IRMapping &mapping);

  /// Clones an operation of @loss by the mapping; `cloneOne` clones one as it is. An operation that is simple only along other
  /// dimensions than the samples' (a softmax over them) becomes simpler ones.
  void clone(mlir::Operation &op, llvm::function_ref<void(mlir::Operation &)> cloneOne);

private:
  /// A sum over samples, perhaps divided by a constant.
  struct Sum {
    int64_t terms = 0;     // for each sample, or tuple of them
    int dims = 0;          // of samples that are summed over
    double divisor = 1;
    int64_t others = 0;    // terms that the last operation has summed, if these are of one sample each
    mlir::Value raw;       // what the file computes, in @evaluate
    mlir::Value factor;    // by which the mapping has more; null: it has the same
  };
  bool clonePieces(mlir::Operation &op, llvm::function_ref<void(mlir::Operation &)> cloneOne);
  void before(mlir::Operation &op);
  void after(mlir::Operation &op);
  mlir::Value rows();
  mlir::Value isValid(graph::GraphBuilder &b, mlir::Value x, SamplePlace place);
  /// What a quotient must be multiplied by for its sum over the rows that there are, if the file has divided by a number of samples:
  /// of all that were summed or of pairs of different ones (`means`), or of all but one.
  mlir::Value factorOf(graph::GraphBuilder &b, const Sum &sum, bool means);
  bool isSum(mlir::Value value) const { return sums.contains(value) && !sums.lookup(value).factor; }
  /// None if the result is no sum over samples that is not divided by their number.
  std::optional<Sum> sumOf(mlir::Operation &op) const;

  StepFunction &step;
  mlir::OpBuilder &builder;
  mlir::IRMapping &mapping;
  std::optional<SamplePlaces> places; // of a loss in the file
  mlir::Value rowsArgument;
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> whole; // operands, and what they were mapped to
  llvm::DenseMap<mlir::Value, Sum> sums;
  std::vector<std::unique_ptr<mlir::Block>> pieces; // simpler operations of @loss, in no function
};

} // namespace divisi::training
