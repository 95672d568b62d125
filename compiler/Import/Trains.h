#pragma once
#include "compiler/Import/ExportNotes.h"
#include "compiler/Import/Import.h"
#include "compiler/Import/Tensors.h"
#include "compiler/Import/TrainingInfo.h"

namespace divisi::compiler {

/// Decides for each initializer of a file whether it is trained: by the flags, by the file's training_info, by what the exporter
/// wrote about it, or else by names and numbers. Also finds the parameters that an exporter has left out of the file.
class Trains {
public:
  struct Verdict {
    TensorRole role = TensorRole::constant;
    std::string reason{};
    bool isGuess = false; // not from the file
  };

  /// Throws ImportError for tensors that cannot be read and for flags that do not fit the file.
  Trains(const onnx::GraphProto &graph, llvm::StringRef producer, const ImportOptions &options, TensorReader &reader,
         const TrainingInfo *training);

  const Verdict &of(const std::string &name) const { return verdicts.at(name); }
  /// All initializers in the file's order, then the parameters that the file lacks.
  std::vector<TensorListing> listing() const;
  /// Warnings about all guesses. Fails if a tensor is undecided.
  std::vector<std::string> conclude() const;

private:
  struct Initializer {
    std::string name;
    TensorData data;
    bool isFloat() const { return mlir::isa<mlir::FloatType>(data.type.getElementType()); }
  };
  struct Use {
    const onnx::NodeProto *node;
    int input;
  };

  void findUses(const onnx::GraphProto &graph);
  void findDerived();
  void findLost(const onnx::GraphProto &graph);
  void readFlags();
  bool decideByUse(const Initializer &tensor, Verdict &verdict) const;
  Verdict decide(const Initializer &tensor) const;
  Verdict decideByNotes(const Initializer &tensor) const;
  bool foldsBatchNorm(const std::string &name) const;
  Verdict decideFolded() const;
  Verdict decideComputed(const Initializer &tensor) const;
  Verdict decideByName(const Initializer &tensor) const;
  Verdict decideMadeUp(const Initializer &tensor) const;
  bool isRearranged(const Initializer &tensor, const std::string &parameter) const;
  bool isBesideStatistics(const std::string &name) const;
  bool isWeightOfItsUsers(const std::string &name) const;
  std::vector<std::string> parametersOf(const CallNotes &call) const;
  void findLostOf(const onnx::NodeProto &node, const CallNotes &call);
  const std::vector<Use> &usesOf(const std::string &name) const;

  const ImportOptions &options;
  const TrainingInfo *const training; // null if the file has none that is followed
  const ExportNotes notes;
  const bool fromPyTorch;
  bool hasCalls = false; // whether nodes have notes about their calls
  std::vector<Initializer> initializers;
  std::map<std::string, std::vector<Use>> uses;
  std::map<std::string, std::vector<std::string>> behind;  // by initializer: the parameters from which it was computed
  std::map<std::string, std::vector<std::string>> derived; // by parameter: the initializers computed from it
  std::map<std::string, std::string> lost;                 // by parameter that the file lacks: the reason
  std::map<std::string, Verdict> byFlag;
  std::map<std::string, Verdict> verdicts; // of every initializer
};

/// How to export a file with all parameters that the module trains.
inline constexpr const char *exportAdvice =
    "export the module in train() with torch.onnx.export(model, args, \"model.onnx\", dynamo=True, optimize=False), or "
    "with dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False";

} // namespace divisi::compiler
