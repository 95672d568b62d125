#pragma once
#include "compiler/Import/CheckedBuilder.h"
#include "compiler/Import/Import.h"
#include "compiler/Import/Signature.h"
#include "compiler/Import/Trains.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <set>

namespace divisi::compiler {

/// The value of a name in an ONNX graph: a tensor, or a sequence of tensors, which exists during import only.
struct Item {
  mlir::Value tensor;
  std::shared_ptr<llvm::SmallVector<mlir::Value>> sequence;

  Item() = default;
  Item(mlir::Value tensor) : tensor(tensor) {}
  static Item ofSequence(llvm::SmallVector<mlir::Value> values) {
    Item item;
    item.sequence = std::make_shared<llvm::SmallVector<mlir::Value>>(std::move(values));
    return item;
  }
};
/// The results of an operator's handler: one item for each output that it computes.
using Results = llvm::SmallVector<Item>;

struct Operator;

/// The names of a graph, a branch, or a function that is inlined.
struct Scope {
  const Scope *outer = nullptr; // the enclosing scope, whose names are visible, too
  llvm::StringMap<Item> items{};
  std::map<std::string, onnx::AttributeProto> attributes{}; // of the function's call
  std::map<std::string, int64_t> opsets{};                  // by domain
  std::string prefix{};                                     // prefix of the names of nodes
  int depth = 0;

  const Item *find(llvm::StringRef name) const;
};

/// Imports one model. Holds the state that the importers of its nodes share.
class ModelImporter {
public:
  ModelImporter(mlir::MLIRContext &context, llvm::StringRef path, const ImportOptions &options, std::string &lastError);
  /// Throws ImportError.
  ImportedModel run();
  /// The roles of all initializers, with reasons. Throws ImportError.
  std::vector<TensorListing> list();

  // For the importers of nodes.
  /// Counts slices that are written one by one. Throws ImportError if a model has more than `mostUnrolled` of them and nodes in loops.
  void countSlices(int64_t more);
  ImportOptions options;
  mlir::MLIRContext &context;
  mlir::OpBuilder builder;
  std::string &lastError; // MLIR's last diagnostic
  TensorReader reader;
  std::vector<std::string> warnings, notes;
  int64_t dropouts = 0; // numbers the random streams
  /// Nodes in the iterations of loops, and slices of tensors.
  int64_t unrolled = 0;
  static constexpr int64_t mostUnrolled = 1 << 16;
  int64_t unrolledOperations = 0; // what these nodes became
  /// The value before QuantizeLinear for its result, zero where it is out of range: it has the result's gradient.
  llvm::DenseMap<mlir::Value, mlir::Value> quantized;
  std::vector<std::string> inferenceBatchNorms, inactiveDropouts; // nodes, as messages name them

  Signature &signature() { return *arguments; }
  /// Whether torch.export notes that the module was in train().
  bool isInTraining();
  /// Whether PyTorch wrote the file, which then has the semantics of PyTorch's exporters.
  bool isFromPyTorch() const { return model->producer_name() == "pytorch"; }
  /// The value of a tensor that depends on constants only, if it is not too large.
  std::optional<mlir::DenseElementsAttr> evaluate(mlir::Value value);
  /// The same, if it takes at most `budget` scalar operations, which are taken from it.
  std::optional<mlir::DenseElementsAttr> evaluate(mlir::Value value, int64_t &budget);
  /// The results of a graph of a node, which may use the names of `scope`. Its nodes' names begin with `prefix`.
  Results importSubgraph(const onnx::GraphProto &graph, llvm::ArrayRef<Item> inputs, const Scope &scope,
                         const std::string &prefix);
  /// The value of a weight that is not trained, for operators that need it during import.
  std::optional<mlir::DenseElementsAttr> initialValue(mlir::Value value);
  /// The new value of running statistics after this step; null if there is none yet.
  mlir::Value &renewed(mlir::Value buffer);
  /// Adds a result of the step with the greatest distance of the values from the middle of [low, high). The runtime
  /// checks it and names the node.
  void addCheck(mlir::Value values, int64_t low, int64_t high, const std::string &node, CheckedBuilder &b);
  /// Warns; each text only once.
  void warn(std::string text);

private:
  bool canEvaluate(mlir::Value value);
  void readOpsets();
  void importInitializers(Scope &scope);
  void importInitializer(onnx::TensorProto &tensor, Scope &scope);
  void importInputs(Scope &scope);
  mlir::RankedTensorType inputType(const onnx::ValueInfoProto &input);
  void findBatch();
  void checkDims();
  void importConstants(const onnx::GraphProto &graph, Scope &scope);
  void importNodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes, Scope &scope);
  void importNode(const onnx::NodeProto &node, int index, Scope &scope);
  Results importCall(const onnx::NodeProto &node, const onnx::FunctionProto &function, const std::string &name,
                     Scope &scope);
  Results dispatch(const onnx::NodeProto &node, const std::string &name, mlir::Location loc, Scope &scope);
  onnx::NodeProto resolveAttributes(const onnx::NodeProto &node, const Scope &scope);
  const onnx::FunctionProto *findFunction(const onnx::NodeProto &node) const;
  const Operator *operatorOf(const onnx::NodeProto &node, int64_t opset) const;
  void readTraining();
  void noteTraining();
  void reportUnsupported(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes);

  void addCheckResults();

  // Outputs (Outputs.cpp).
  void addForwardOutputs(const Scope &scope);
  void addOutputs(const Scope &scope);
  int chooseOutput(const std::vector<std::pair<std::string, mlir::Value>> &outputs, bool isLoss);

  // Losses of --loss (Losses.cpp).
  int64_t classAxisOf(const std::string &name, llvm::ArrayRef<int64_t> shape);
  mlir::Value buildLoss(llvm::StringRef outputName, mlir::Value output, mlir::Location loc);

  // What exporters lose (Hazards.cpp).
  void refuseFoldedBatchNorm();
  void warnOfHazards();
  std::set<std::string> staleBuffers();

  // Weights (Weights.cpp).
  void foldConstants();
  void eraseUnused();
  std::vector<Weight> takeWeights();
  std::string takeSkeleton(ImportedModel &imported);
  TrainingBindings takeTraining(const std::vector<Weight> &weights);
  void inlineExternal(onnx::TensorProto &tensor);

  std::shared_ptr<onnx::ModelProto> model;
  std::string path;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<Signature> arguments;
  std::optional<TrainingInfo> training; // that is followed
  std::optional<Trains> trains; // of a model with a loss
  std::map<std::string, int64_t> opsets;
  std::map<std::string, const onnx::FunctionProto *> functions;
  std::set<std::string> usedDims, knownDims, batchDims;
  std::vector<std::pair<mlir::Value, mlir::Value>> renewals; // buffer, new value
  llvm::DenseMap<mlir::Value, mlir::DenseElementsAttr> evaluated;
  llvm::DenseSet<mlir::Value> unknown; // they could not be evaluated
  llvm::DenseSet<mlir::Value> varying; // they depend on more than constants
  int64_t importedNodes = 0;
  std::optional<bool> inTraining; // isInTraining(), once it is known
  struct Check {
    mlir::Value values;
    int64_t low, high;
    std::string node;
    mlir::Value largest;
    int64_t others; // number of earlier nodes with the same name
  };
  std::vector<Check> checks;
};

} // namespace divisi::compiler
