#pragma once
#include "codegen/Kernels/RowSets.h"
#include "codegen/Lowering/ScalarBuilder.h"

namespace divisi::codegen {

/// Decides, for a straight-line block of simple graph operations, which values are computed once (stages) and which are
/// recomputed at every use, and which stages share a kernel. It clones cheap values where they are used (see
/// `recomputeFarUses`), and on GPUs what is cheaper to recompute than to read (Traffic.h).
///
/// A value is a stage if a library call, a serial operation's neighbour or the function's result needs it whole, if it
/// is a reduction, or if recomputing it would cost more than keeping it. Stages join the kernel of their producers
/// while a common number of rows exists for which no row needs another (RowSets.h).
class FusionPlan {
public:
  struct Kernel {
    llvm::SmallVector<mlir::Operation *> stages; // in block order
    RowSet rows;
    bool open = true; // may still take stages
    bool serial = false;
    int64_t when = 0; // 0: always, else DivisiWhen bits
  };

  FusionPlan(mlir::Block &block, bool forGpu);

  llvm::ArrayRef<Kernel> getKernels() const { return kernels; }
  bool isStage(mlir::Operation *op) const { return stages.contains(op); }
  /// 0 if the operation is always needed, else the bits of those who look at it.
  int64_t getWhen(mlir::Operation *op) const { return when.lookup(op); }

  /// One result, and each of its elements is computed alone.
  static bool isPointwise(mlir::Operation *op);

  /// What an operation reads of a stage, and with which numbers of rows.
  struct Edge {
    mlir::Operation *producer;
    RowSet rows;
  };
  /// Stages and outside values that computing the operation reads, through what is recomputed.
  void collectInputs(mlir::Operation *op, RowSet rows, llvm::SmallVectorImpl<Edge> &edges,
                     llvm::SmallVectorImpl<mlir::Value> &outside) const;
  RowSet ownRows(mlir::Operation *op) const;
  bool mustBeWhole(mlir::Operation *op) const;
  mlir::Block &getBlock() const { return block; }
  /// The number of a stage's kernel; -1 without one.
  int getKernelOf(mlir::Operation *op) const { return kernelOf.lookup_or(op, -1); }
  /// Whether an operation becomes a stage only where it must be whole: from the next decision on.
  void setRecomputed(mlir::Operation *op, bool isRecomputed) {
    isRecomputed ? (void)recomputed.insert(op) : (void)recomputed.erase(op);
  }

private:

  void decide();
  void countEvaluations();
  void chooseStages();
  void recomputeFarUses();
  void formKernels();
  /// Whether a kernel is open to an operation that is wanted as often.
  bool mayTake(const Kernel &kernel, mlir::Operation *op) const;
  bool join(mlir::Operation *op, llvm::ArrayRef<Edge> edges);
  bool joinSibling(mlir::Operation *op, llvm::ArrayRef<Edge> edges, llvm::ArrayRef<mlir::Value> outside);
  void closeProducers(llvm::ArrayRef<Edge> edges, int except = -1);

  mlir::Block &block;
  bool forGpu;
  llvm::SmallVector<Kernel> kernels;
  llvm::DenseSet<mlir::Operation *> stages;
  llvm::DenseMap<mlir::Operation *, double> evaluations; // how often each element is computed if nothing is kept
  llvm::DenseMap<mlir::Operation *, int64_t> when; // computed on demand: what only reports that nobody may want need
  llvm::DenseMap<mlir::Operation *, int> kernelOf;
  llvm::DenseSet<mlir::Operation *> recomputed; // stages only where they must be whole
};

} // namespace divisi::codegen
