#pragma once
#include "divisi/abi.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"

#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace llvm::orc {
class LLJIT;
}

namespace divisi::compiler {

/// One function of a module, compiled into this process by the same pipeline as programs, for tests of operators. A
/// user of this class must link the runtime, whose services the code calls.
class JitFunction {
public:
  /// An argument or a result: its name (`graph.input`, `graph.output`), type and bytes.
  struct Tensor {
    std::string name;
    mlir::Type type;
    std::vector<char> bytes;
  };

  /// Compiles @forward of a graph-level module, which is changed. Diagnostics go to the module's context. `look` is
  /// called with the module at the level exec.
  static llvm::Expected<std::unique_ptr<JitFunction>>
  compile(mlir::ModuleOp module, llvm::function_ref<void(mlir::ModuleOp)> look = nullptr, bool forGpu = false);
  ~JitFunction();

  /// To be filled in before `run`.
  std::vector<Tensor> inputs;
  /// Computed by `run`.
  std::vector<Tensor> outputs;
  void run(DivisiContext *context);

private:
  JitFunction() = default;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  const DivisiProgram *program = nullptr;
  std::vector<int64_t> inputOffsets, outputOffsets;
  std::vector<std::vector<char>> constants; // of outputs that are constants; empty for the others
};

/// A whole program, compiled into this process without optimization, for tests that run it on several arenas, one for
/// each rank.
class JitProgram {
public:
  /// The place of an argument or a result in the arena.
  struct Place {
    mlir::RankedTensorType type;
    mlir::DictionaryAttr attributes;
    int64_t offset;             // -1: a constant
    std::vector<char> constant; // the constant's bytes
  };

  /// Compiles the tasks of a module at the level train or dist; the module is changed.
  static llvm::Expected<std::unique_ptr<JitProgram>> compile(mlir::ModuleOp module);
  ~JitProgram();

  const DivisiProgram &get() const { return *program; }
  /// @train or @evaluate; null if there is none.
  DivisiTask task(llvm::StringRef name) const;
  /// State, inputs and scalars by name. State is renewed in its place.
  std::map<std::string, Place> arguments;
  /// The reports of all tasks: by task, kind and name ("train grad_norm fc.weight").
  std::map<std::string, Place> results;

private:
  JitProgram() = default;
  std::vector<std::string> names; // of the tasks
  std::unique_ptr<llvm::orc::LLJIT> jit;
  const DivisiProgram *program = nullptr;
};

} // namespace divisi::compiler
