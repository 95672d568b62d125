#pragma once
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm {
class MemoryBuffer;
class TargetMachine;
} // namespace llvm

namespace divisi::codegen {

/// For which processor code is made.
struct CpuTarget {
  std::string cpu = "native"; // native, x86-64-v3, x86-64-v4, or any name that LLVM knows
};

/// Whether LLVM has code for a processor of this name (or it is "native").
bool isKnownCpu(llvm::StringRef cpu);

/// What a program carries besides its code.
struct ProgramData {
  std::string manifest; // JSON, see runtime/README.md
  std::string skeleton; // ONNX model without weights
};

/// For which kinds of devices a program has kernels.
struct Targets {
  bool cpu = true;
  std::vector<int> cuda; // compute capabilities
};

/// Lowers planned tasks (after assign-buffers) to the LLVM dialect: one function per distinct kernel (for GPUs: PTX of
/// all of them), one per task, and `divisi_program`. The module is changed in place.
mlir::LogicalResult lowerToLlvm(mlir::ModuleOp module, const ProgramData &data, const Targets &targets = {});

/// A kernel that several operations may launch, or kernels that are launched at once: see DivisiKernel in the ABI.
struct Launchable {
  std::string name;
  llvm::SmallVector<unsigned> values; // whose places it takes, of all inputs and outputs
  int64_t extent = 0, grain = 1;      // on a CPU
  int64_t blocks = 0, threads = 0;    // on a GPU; no blocks: it is launched with others only
  llvm::SmallVector<size_t> members;  // on a CPU: the kernels that are launched at once, in the order of `values`
};

/// Kernels for GPUs: a module of the LLVM and NVVM dialects, which emitPtx takes, and how each is launched.
struct CudaKernels {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<Launchable> launchables;
};

/// The kernels of planned tasks for GPUs alone.
mlir::FailureOr<CudaKernels> lowerToCuda(mlir::ModuleOp module);

/// LLVM dialect to object files, optimized and compiled on up to `threads` threads: as many files as there are pieces.
/// How the module is cut depends on `threads` alone.
llvm::Expected<std::vector<std::unique_ptr<llvm::MemoryBuffer>>>
emitObjects(mlir::ModuleOp module, const CpuTarget &target, unsigned threads);

} // namespace divisi::codegen
