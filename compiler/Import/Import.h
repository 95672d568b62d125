#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace divisi::compiler {

/// What the user says about a model beyond the file.
struct ImportOptions {
  enum class Loss { inModel, crossEntropy, mse, bce };

  std::map<std::string, int64_t> dims; // --dim NAME=N: sizes of symbolic dimensions
  int64_t accumulate = 1;          // --accumulate: multiplies the sizes of dimensions that are the first of an input
  Loss loss = Loss::inModel;       // --loss
  std::string output;              // --output: the loss, or the output that a loss is put on
  std::string label;               // --label: the new input that such a loss compares with
  std::vector<std::string> freeze; // --freeze: patterns (* and ?) of parameters that do not train
  std::vector<std::string> train;  // --train: patterns of tensors that do
  bool batchNormTraining = true;   // --batch-norm=training|inference
  bool forwardOnly = false;        // all outputs and no loss: @forward, every initializer a constant
  bool weightsOptional = false;    // external data may be missing
};

/// The initial value of a parameter or buffer: little-endian, a boolean takes a byte. Empty if its file is missing.
struct Weight {
  std::string name;
  mlir::RankedTensorType type;
  llvm::ArrayRef<char> bytes;
  std::shared_ptr<const void> owner; // keeps the bytes
};

/// What becomes of a floating-point initializer, or of any other one.
enum class TensorRole {
  parameter,  // trains
  frozen,     // keeps its value; saved with the parameters
  constant,   // a part of the program, or kept as `frozen` if it is large
  statistics, // batch norm renews it
  undecided,  // the file does not say whether it trains, and the flags do not
};
struct TensorListing {
  std::string name, type; // "f32[5x3]"
  TensorRole role;
  std::string reason;
};
/// "parameter", "frozen", ...
llvm::StringRef nameOf(TensorRole role);

struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<Weight> weights;
  std::string skeleton; // the ONNX model without the weights
  std::vector<std::string> warnings;
};

/// Reads an ONNX file as a module of the graph dialect. What is wrong with it is reported as one diagnostic that names
/// the node, the file, or the flag that helps.
mlir::FailureOr<ImportedModel> importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
                                          const ImportOptions &options);

/// What trains in an ONNX file, and why: all its initializers, in the file's order. Needs no operator to be supported.
mlir::FailureOr<std::vector<TensorListing>> listParameters(mlir::MLIRContext &context, llvm::StringRef path,
                                                           const ImportOptions &options);

/// The operators that can be imported, sorted.
std::vector<std::string> supportedOperators();

} // namespace divisi::compiler
