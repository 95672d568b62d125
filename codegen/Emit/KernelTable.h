#pragma once
#include "codegen/Cuda/Ptx.h"
#include "codegen/Emit/Places.h"
#include "codegen/Emit/Program.h"
#include "dialects/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringMap.h"

namespace divisi::codegen {

/// The kernels of a program, with code for each of its targets.
class KernelTable {
public:
  KernelTable(mlir::ModuleOp program, const Targets &targets);

  /// Adds all kernels of a task.
  void addAll(mlir::func::FuncOp task, Places &places);
  const std::vector<Launchable> &all() const { return launchables; }
  size_t numberOf(mlir::Operation *kernel) const { return which.lookup(kernel); }

  /// Lowers the kernels for CPUs to functions (buffers.., begin, end, sizes..) of the LLVM dialect in the program's
  /// module, which launchables may share.
  mlir::LogicalResult lowerForCpu();
  /// PTX for each of the targets' architectures. Fails with an error at the program.
  mlir::FailureOr<std::vector<std::string>> lowerForCuda();
  /// The kernels for GPUs in the LLVM dialect.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> takeCudaKernels();

private:
  /// Adds a kernel, or finds an equal one, and returns its number. `places` has the place of each input and then each
  /// output. A member of a batch gets code for CPUs only.
  size_t add(exec::KernelOp kernel, const llvm::SmallVector<int64_t> &places, bool isMember);
  void addBatch(llvm::ArrayRef<exec::KernelOp> kernels, llvm::ArrayRef<llvm::SmallVector<int64_t>> places);
  void emitForCuda(Launchable &launchable, llvm::ArrayRef<exec::KernelOp> kernels,
                   llvm::ArrayRef<llvm::SmallVector<int64_t>> places);

  mlir::ModuleOp program;
  Targets targets;
  mlir::OwningOpRef<mlir::ModuleOp> cpu, cuda;
  std::vector<Launchable> launchables;
  int64_t alone = 0, members = 0; // numbers of kernels that are launched alone, and in batches
  llvm::StringMap<size_t> known;
  llvm::DenseMap<mlir::Operation *, size_t> which;
};

} // namespace divisi::codegen
