#pragma once
#include "dialects/Dist/ShardingRule.h"
#include "dialects/Graph/Form.h"
#include "dialects/Graph/Workspace.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace divisi::graph {

class GraphBuilder;

/// Whether the types agree in shape and element type. Encodings are checked by the sharding rule's verifier.
bool sameShapes(mlir::TypeRange inferred, mlir::TypeRange actual);
/// The product of the sizes of all factors, times the operation's FLOPs per point.
int64_t flopsFromRule(mlir::Operation *op);
/// The bytes of all operands and results.
int64_t bytesOfTypes(mlir::Operation *op);
/// The bytes of an operation's workspace on a GPU.
int64_t workspaceBytes(mlir::Operation *op);
/// The bytes of one element; a boolean takes one.
int64_t bytesOfElement(mlir::Type type);
/// The bytes of a tensor.
int64_t bytesOf(mlir::Type type);

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) { return tensorType(value).getShape(); }
/// Erases the operations that only others without a use need.
void eraseUnused(mlir::Block &block);
/// The value behind a chain of reshapes; a value that is no reshape is returned itself.
mlir::Value withoutReshape(mlir::Value value);
/// The number that a constant of floats has everywhere; null if it has several.
std::optional<double> splatOf(mlir::Value value);
/// Whether a module has statistics of its batch (batch norm): its numbers depend on how the batch is split.
bool hasBatchNorm(mlir::Operation *module);

/// Values that are computed on demand: bits of `when` in a result's report.
enum When : int64_t {
  whenGradNorms = 1, // L2 norms of gradients by parameter
  whenMetrics = 2,   // accuracy of a training step
};

/// Attributes of the step's functions (@loss, @train, @evaluate).
namespace names {
inline constexpr llvm::StringLiteral parameter = "graph.parameter";    // argument: a parameter's name
inline constexpr llvm::StringLiteral buffer = "graph.buffer";          // argument: running statistics and other buffers
inline constexpr llvm::StringLiteral optimizer = "graph.optimizer";    // module: the settings of the file's training_info, with lr
inline constexpr llvm::StringLiteral frozen = "graph.frozen";          // argument: a parameter that is not trained
inline constexpr llvm::StringLiteral unpadded = "graph.unpadded";      // argument: a padded state's shape in the model
inline constexpr llvm::StringLiteral modelShape = "graph.model_shape"; // argument: a parameter's shape in the model
inline constexpr llvm::StringLiteral neutral = "graph.neutral";        // graph.pad: added to make a size divide
inline constexpr llvm::StringLiteral tf32 = "tf32";   // contraction: its operands may be rounded to TF32
inline constexpr llvm::StringLiteral whole = "whole"; // of gelu: not decomposed yet
inline constexpr llvm::StringLiteral microbatches =
    "graph.microbatches"; // function: the number of microbatches; input: that of its first dimension
inline constexpr llvm::StringLiteral input = "graph.input";   // argument: an input's name
inline constexpr llvm::StringLiteral label = "graph.label";   // argument: an input that holds labels
inline constexpr llvm::StringLiteral scalar = "graph.scalar"; // argument: a run-time scalar's name
inline constexpr llvm::StringLiteral state = "graph.state";   // argument: state {name, role, ...}
inline constexpr llvm::StringLiteral renews = "graph.renews"; // result: the name of the state that it renews
inline constexpr llvm::StringLiteral output = "graph.output"; // result: an output's name
inline constexpr llvm::StringLiteral loss = "graph.loss";     // result: the scalar that is minimized
inline constexpr llvm::StringLiteral result = "graph.result"; // result: {kind, name, when}
} // namespace names

} // namespace divisi::graph

#include "dialects/Graph/GraphDialect.h.inc"
#include "dialects/Graph/GraphInterfaces.h.inc"

#include "dialects/Graph/GraphEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Graph/GraphAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/Graph/Attention.h.inc"
#define GET_OP_CLASSES
#include "dialects/Graph/Contraction.h.inc"
#define GET_OP_CLASSES
#include "dialects/Graph/Elementwise.h.inc"
#define GET_OP_CLASSES
#include "dialects/Graph/Indexing.h.inc"
#define GET_OP_CLASSES
#include "dialects/Graph/Loss.h.inc"
#define GET_OP_CLASSES
#include "dialects/Graph/Normalization.h.inc"
#define GET_OP_CLASSES
#include "dialects/Graph/Pooling.h.inc"
#define GET_OP_CLASSES
#include "dialects/Graph/Random.h.inc"
#define GET_OP_CLASSES
#include "dialects/Graph/Reduction.h.inc"
#define GET_OP_CLASSES
#include "dialects/Graph/Shape.h.inc"
