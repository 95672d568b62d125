#pragma once
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace divisi::compiler {

/// The levels of the module on its way to a program, in order. Each can be dumped and read back.
enum class Level {
  graph,   // tensors and named operations of the model, its loss
  train,   // the training step and the evaluation over the same state
  planned, // for several devices: the same, with a sharding for every type
  dist,    // for several devices: local shapes and collectives
  exec,    // tasks over buffers at fixed offsets
  llvm,    // LLVM dialect
};

struct LevelInfo {
  Level level;
  llvm::StringLiteral name, description;
};
llvm::ArrayRef<LevelInfo> allLevels();
std::optional<Level> levelByName(llvm::StringRef name);
/// The level of a module that was read back, as its functions and operations show.
Level levelOf(mlir::ModuleOp module);

} // namespace divisi::compiler
