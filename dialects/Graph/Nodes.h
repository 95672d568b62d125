#pragma once
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Location.h"

#include "llvm/ADT/DenseMap.h"

namespace divisi::graph {

/// The identity of an operation: the attribute `graph.node` = "PATH:LOCAL". PATH is the name of the ONNX node or
/// parameter for which the operation was made; LOCAL distinguishes the operations of one path and contains no colon:
///   "/fc1/Gemm:0"          the first operation of the node
///   "/fc1/Gemm:0.grad.1"   the second operation of its gradient
///   "/softmax:2.0"         an operation that the third one of the node was decomposed into
///   "fc1.weight:update.3"  the fourth operation of the update of a parameter
/// An identity is unique in its function; @train and @evaluate share those of the forward pass. It does not take part
/// in the comparison of operations: see HiddenNodes.
///
/// New operations get identities from their locations. Every operation is created at a location: patterns use that of
/// the operation that they rewrite, and the location of an operation with an identity holds the identity.
namespace names {
inline constexpr llvm::StringLiteral node = "graph.node";
} // namespace names

/// The identity; empty if the operation has none.
llvm::StringRef nodeOf(mlir::Operation *op);
/// The path of an operation's identity, or of its location if it has no identity yet.
std::string pathOf(mlir::Operation *op);
std::string pathOf(mlir::Location loc);

/// For errors about communication, which is made at its operand's location: the first operation that reads a result, or
/// the operation itself if nothing but the function's end does.
mlir::Operation *readerOf(mlir::Operation *op);

/// The location for operations that are derived from those at `loc` with this role: "grad", "update" or "recomputed".
mlir::Location withRole(mlir::Location loc, llvm::StringRef role);

/// Gives an identity to every operation of the function that has none, or that has the identity of an operation before
/// it. A new operation takes the identity of the operation at whose location it was made if that one no longer exists,
/// and else an identity below it with a number, in program order. An operation at an unnamed location gets none, except
/// that a constant is named after its first user.
void nameNodes(mlir::Operation *function);
/// The same for all functions of a module.
void nameNodes(mlir::ModuleOp module);
/// Sets locations after parsing, from the identities of operations and the names of arguments.
void adoptNodes(mlir::ModuleOp module);

/// Removes the identities from an operation and the operations inside of it during its own lifetime, so that equal
/// operations compare equal. Operations may be erased meanwhile.
class HiddenNodes {
public:
  explicit HiddenNodes(mlir::Operation *root);
  ~HiddenNodes();
  HiddenNodes(const HiddenNodes &) = delete;
  HiddenNodes &operator=(const HiddenNodes &) = delete;

private:
  mlir::Operation *root;
  llvm::DenseMap<mlir::Operation *, mlir::DictionaryAttr> attributes; // the original ones
};

} // namespace divisi::graph
