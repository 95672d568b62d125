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

/// One function of a module compiled into this process, through the very pipeline that makes programs: for tests of
/// operators. Whoever links this links the runtime, whose services the code calls.
class JitFunction {
public:
  /// An argument or a result: its name (`graph.input`, `graph.output`), type and bytes.
  struct Tensor {
    std::string name;
    mlir::Type type;
    std::vector<char> bytes;
  };

  /// Compiles @forward of a graph-level module, which is changed. Diagnostics go to the module's context. `look` sees
  /// the module at the level exec.
  static llvm::Expected<std::unique_ptr<JitFunction>>
  compile(mlir::ModuleOp module, llvm::function_ref<void(mlir::ModuleOp)> look = nullptr, bool forGpu = false);
  ~JitFunction();

  /// To be filled before `run`.
  std::vector<Tensor> inputs;
  /// What `run` computes.
  std::vector<Tensor> outputs;
  void run(DivisiContext *context);

private:
  JitFunction() = default;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  const DivisiProgram *program = nullptr;
  std::vector<int64_t> inputOffsets, outputOffsets;
  std::vector<std::vector<char>> constants; // of outputs that are constants; empty for the others
};

/// A whole program compiled into this process, without optimizing: for tests that run it on several arenas, one for
/// each rank.
class JitProgram {
public:
  /// Where an argument or a result lies in the arena.
  struct Place {
    mlir::RankedTensorType type;
    mlir::DictionaryAttr attributes;
    int64_t offset;             // -1: a constant
    std::vector<char> constant; // its bytes
  };

  /// Compiles the tasks of a module at the level train or dist, which is changed.
  static llvm::Expected<std::unique_ptr<JitProgram>> compile(mlir::ModuleOp module);
  ~JitProgram();

  const DivisiProgram &get() const { return *program; }
  /// @train or @evaluate; null if there is none.
  DivisiTask task(llvm::StringRef name) const;
  /// States, inputs and scalars by name. A state is renewed where it lies.
  std::map<std::string, Place> arguments;
  /// What the tasks report: by task, kind and name ("train grad_norm fc.weight").
  std::map<std::string, Place> results;

private:
  JitProgram() = default;
  std::vector<std::string> names; // of the tasks
  std::unique_ptr<llvm::orc::LLJIT> jit;
  const DivisiProgram *program = nullptr;
};

} // namespace divisi::compiler
