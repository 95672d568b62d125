#pragma once
#include "step/Block.h"

#include "llvm/ADT/DenseSet.h"

namespace divisi::step {

/// The one rule of fusion: which values of a block are computed once (stages) and which are recomputed at every use,
/// and which stages share a kernel. It copies cheap values to where they are used (see `recomputeFarUses`), and on GPUs
/// what is cheaper to recompute than to read (Traffic.h). Code generation forms its kernels so (codegen/Kernels), and
/// the planner prices them.
///
/// A value is a stage if a call, a serial operation's neighbour or an output needs it in memory, if it is a reduction,
/// or if recomputing it would cost more than keeping it. Stages join the kernel of their producers while a common
/// number of rows exists for which no row needs another (Rows.h).
class Fusion {
public:
  struct Kernel {
    llvm::SmallVector<int> stages; // in order
    RowSet rows;
    bool open = true; // may still take stages
    bool serial = false;
    int64_t when = 0;   // 0: in every step, else bits of those who look at it
    int64_t ending = 0; // inputs that nothing reads after it
  };

  Fusion(Block block, bool forGpu);

  /// The block with the copies.
  const Block &getBlock() const { return block; }
  llvm::ArrayRef<Kernel> getKernels() const { return kernels; }
  bool isStage(int op) const { return stages.contains(op); }
  int64_t getWhen(int op) const { return when[op]; }
  /// The number of a stage's kernel; -1 without one.
  int getKernelOf(int op) const { return kernelOf.lookup_or(op, -1); }
  /// Whether something reads a result in memory.
  bool mustBeWhole(int op) const;

  /// What an operation reads of a stage, and with which numbers of rows.
  struct Edge {
    int producer; // operation
    RowSet rows;
  };
  /// Stages and values from outside of kernels that computing the operation reads, through what is recomputed.
  void collectInputs(int op, const RowSet &rows, llvm::SmallVectorImpl<Edge> &edges,
                     llvm::SmallVectorImpl<int> &outside) const;
  RowSet ownRows(int op) const;

private:
  void decide();
  void countEvaluations();
  void countCalls();
  void chooseStages();
  void recomputeFarUses();
  /// Whether a value is read for the last time by an operation or before it.
  bool endsAt(int value, int op) const;
  /// Counts the inputs of a stage that its kernel reads for the last time.
  void countEnding(int op, llvm::ArrayRef<Edge> edges, llvm::ArrayRef<int> outside);
  void formKernels();
  /// Whether a kernel is open to an operation that is wanted as often.
  bool mayTake(const Kernel &kernel, int op) const;
  bool reducesColumns(const Kernel &kernel, int op, int64_t n) const;
  bool join(int op, llvm::ArrayRef<Edge> edges);
  bool joinSibling(int op, llvm::ArrayRef<Edge> edges, llvm::ArrayRef<int> outside);
  void closeProducers(llvm::ArrayRef<Edge> edges, int except = -1);

  Block block;
  bool forGpu;
  llvm::SmallVector<Kernel> kernels;
  llvm::DenseSet<int> stages;
  std::vector<double> evaluations; // by operation: how often an element is computed if nothing is kept
  std::vector<int64_t> position;   // by operation: calls before it
  std::vector<int64_t> when;       // by operation
  llvm::DenseMap<int, int> kernelOf;
  llvm::DenseSet<int> recomputed; // operations: stages only where they must be in memory
};

} // namespace divisi::step
