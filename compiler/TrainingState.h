#pragma once
#include "compiler/Import/Import.h"

#include "llvm/Support/JSON.h"

namespace divisi::compiler {

/// The optimizer state and weights of a program that the file's training_info has, too: where they go when a model is saved.
class TrainingState {
public:
  TrainingState() = default;
  /// Finds them among the state of the module's functions (level exec).
  TrainingState(mlir::ModuleOp module, const TrainingBindings &bindings, llvm::ArrayRef<Weight> weights);

  /// Initial values of optimizer state, under the names of the program.
  const std::vector<Weight> &weights() const { return values; }
  /// Adds to the manifest's entry of a state the name and the shape that it has in the training_info, and how --init fills it.
  void describe(llvm::json::Object &state) const;
  /// The manifest's entry training_info: the length of its text behind the skeleton, and the updates before the first step.
  std::optional<llvm::json::Object> describe() const;

private:
  std::vector<Weight> values;
  std::map<std::string, llvm::json::Object> entries; // by the name of the state
  std::optional<std::pair<int64_t, int64_t>> bytesAndUpdates;
};

} // namespace divisi::compiler
