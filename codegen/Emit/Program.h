#pragma once
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

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

/// A constant's elements as they lie in memory: a boolean takes one byte.
std::vector<char> bytesOf(mlir::DenseElementsAttr data);

/// Lowers planned tasks (after assign-buffers) to the LLVM dialect: one function per distinct kernel, one per task, and
/// `divisi_program`. The module is changed in place.
mlir::LogicalResult lowerToLlvm(mlir::ModuleOp module, const ProgramData &data);

/// LLVM dialect to object files, optimized and compiled on up to `threads` threads: as many files as there are pieces.
/// How the module is cut depends on `threads` alone. Empty if something failed; `error` says what.
std::vector<std::unique_ptr<llvm::MemoryBuffer>> emitObjects(mlir::ModuleOp module, const CpuTarget &target,
                                                             unsigned threads, std::string &error);

} // namespace divisi::codegen
