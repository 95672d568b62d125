#pragma once
#include "codegen/Emit/ShareCode.h"

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

/// The processor for which code is generated.
struct CpuTarget {
  std::string cpu = "native"; // native, x86-64-v3, x86-64-v4, or any name that LLVM knows
};

/// Whether LLVM generates code for a processor of this name, or it is "native".
bool isKnownCpu(llvm::StringRef cpu);

/// What a program carries besides its code.
struct ProgramData {
  std::string manifest; // JSON, see runtime/README.md
  std::string skeleton; // ONNX model without weights, and the fields of its training_info (abi.h)
  std::string next;     // symbol of the executable's program for another number of ranks; empty after the last
};

/// The kinds of devices for which a program has kernels.
struct Targets {
  bool cpu = true;
  std::vector<int> cuda; // compute capabilities
};

/// Lowers planned tasks (after assign-buffers) to the LLVM dialect: one function for each distinct kernel (for GPUs,
/// PTX of all kernels), one for each task, and `divisi_program`. The module is changed in place.
mlir::LogicalResult lowerToLlvm(mlir::ModuleOp module, const ProgramData &data, const Targets &targets = {});

/// A kernel that several operations may launch, or a batch of kernels that are one launch: see DivisiKernel in the ABI.
struct Launchable {
  std::string name;
  SharedCode code;                    // on a CPU
  llvm::SmallVector<unsigned> values; // inputs and outputs whose places are passed
  int64_t extent = 0, grain = 1;      // on a CPU
  int64_t blocks = 0, threads = 0;    // on a GPU; 0 blocks: it is only launched in batches
  int64_t launches = 0, bytes = 0;    // in a step, without what is computed on demand; of inputs and outputs
  llvm::SmallVector<size_t> members;  // on a CPU: the kernels of a batch, in the order of `values`

  /// The function that a CPU launches: see DivisiLoop in the ABI.
  std::string loop() const { return (members.empty() && code.sizes.empty() ? code.function : name) + "_loop"; }
};

/// Kernels for GPUs: a module of the LLVM and NVVM dialects, which emitPtx compiles, and how each is launched.
struct CudaKernels {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<Launchable> launchables;
};

/// Lowers the kernels of planned tasks, for GPUs only.
mlir::FailureOr<CudaKernels> lowerToCuda(mlir::ModuleOp module);

/// A comment of PTX for each kernel: how often and with how many blocks it is launched, its bytes, and its first node.
void describeKernels(const CudaKernels &kernels, llvm::raw_ostream &out);

/// Optimizes and compiles the LLVM dialect to object files, on at most `threads` threads: one file for each part of the
/// module. How the module is split depends on `threads` only. `suffix` is added to the names of all that they define,
/// so that the objects of several programs can be linked together.
llvm::Expected<std::vector<std::unique_ptr<llvm::MemoryBuffer>>>
emitObjects(mlir::ModuleOp module, const CpuTarget &target, unsigned threads, llvm::StringRef suffix = "");

} // namespace divisi::codegen
