#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace divisi::compiler {

/// What the user's flags say about a model.
struct ImportOptions {
  enum class Loss { inModel, crossEntropy, mse, bce, huber, l1, nll, kl, focal, triplet };

  std::map<std::string, int64_t> dims; // --dim NAME=N: sizes of symbolic dimensions
  int64_t accumulate = 1;              // --accumulate: multiplies the first dimension of inputs, if it is symbolic
  Loss loss = Loss::inModel;           // --loss
  std::string output;                  // --output: the loss, or the output from which a loss is computed
  std::string label;                   // --label: the new input of such a loss
  std::optional<int64_t> classAxis;    // --class-axis: of the output; 1 without it
  double labelSmoothing = 0;           // --label-smoothing
  double zLoss = 0;                    // --z-loss
  std::vector<std::string> freeze;     // --freeze: patterns (* and ?) of parameters that are not trained
  std::vector<std::string> train;      // --train: patterns of tensors that are trained
  bool batchNormTraining = true;       // --batch-norm=training|inference
  bool forwardOnly = false;            // all outputs and no loss: @forward; every initializer is a constant
  bool weightsOptional = false;        // external data may be missing
  bool optimizerIsGiven = false;       // by flags: that of the file's training_info is not followed
};

/// The initial value of a parameter or buffer: little-endian, a boolean takes one byte. Empty if its file is missing.
struct Weight {
  std::string name;
  mlir::RankedTensorType type;
  llvm::ArrayRef<char> bytes;
  std::shared_ptr<const void> owner; // owns the bytes
};

/// The role of an initializer.
enum class TensorRole {
  parameter,  // trained
  frozen,     // keeps its value; saved with the parameters
  constant,   // a part of the program; if it is large, kept like `frozen`
  statistics, // renewed by batch norm
  undecided,  // neither the file nor the flags say whether it is trained
};
struct TensorListing {
  std::string name, type; // "f32[5x3]"
  TensorRole role;
  std::string reason;
};
/// "parameter", "frozen", ...
llvm::StringRef nameOf(TensorRole role);

/// How a program's --init fills a tensor: with random numbers ("uniform": scale is half of the range; "normal": the standard
/// deviation) around the mean, or with one number ("constant": scale).
struct InitialValue {
  std::string kind;
  double scale = 0, mean = 0;
};

/// What a program reads of the training_info of a file and writes to that of the model that it saves.
struct TrainingBindings {
  /// Optimizer state, by its parameter and the name that training::Optimizer gives it. The weight has the name of the initializer.
  struct State {
    std::string of, moment;
    Weight value;
  };
  std::string info; // the TrainingInfoProto without these states and weights
  std::map<std::string, InitialValue> initials; // by weight
  std::vector<State> states;
  std::set<std::string> weights; // that are initializers of the algorithm
  std::string count;             // the initializer that counts updates; empty: none
  std::vector<int64_t> countShape;
  int64_t updates = 0; // its value
};

struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<Weight> weights;
  std::string skeleton; // the ONNX model without the weights and without the training_info that is followed
  std::optional<TrainingBindings> training;
  std::vector<std::string> warnings, notes;
};

/// Reads an ONNX file as a module of the graph dialect. An error in the file is reported as one diagnostic that names
/// the node, the file, or the flag that helps.
mlir::FailureOr<ImportedModel> importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
                                          const ImportOptions &options);

/// All initializers of an ONNX file, in the file's order, with their roles and the reasons. Works for unsupported
/// operators, too.
mlir::FailureOr<std::vector<TensorListing>> listParameters(mlir::MLIRContext &context, llvm::StringRef path,
                                                           const ImportOptions &options);

/// The names of --loss.
std::vector<std::string> lossNames();
/// The loss of one of these names.
ImportOptions::Loss parseLoss(llvm::StringRef name);

/// The supported operators, sorted.
std::vector<std::string> supportedOperators();

} // namespace divisi::compiler
