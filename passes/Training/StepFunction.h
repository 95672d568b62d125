#pragma once
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringSet.h"

namespace divisi::training {

/// Builds a function argument by argument and result by result, each with its attributes.
class StepFunction {
public:
  StepFunction(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef name);

  mlir::func::FuncOp getFunction() const { return function; }
  mlir::Block &getBody() { return function.getBody().front(); }
  /// A new argument with its attributes.
  mlir::Value addArgument(mlir::Type type, mlir::DictionaryAttr attributes, mlir::Location loc);
  /// State: {name, role, and what else is given}. The model's own is added first and keeps its names; what the
  /// training step adds gets a "~" at the end of its name for as long as an argument has that name.
  mlir::Value addState(mlir::Type type, llvm::StringRef name, llvm::StringRef role, mlir::Location loc,
                       llvm::ArrayRef<mlir::NamedAttribute> more = {});
  /// The name of an argument that is state.
  mlir::StringAttr nameOf(mlir::Value state) const;
  void addResult(mlir::Value value, llvm::StringRef attribute, mlir::Attribute attributeValue);
  /// A result that the runtime reads: {kind, and what else is given}.
  void addReport(mlir::Value value, llvm::StringRef kind, llvm::ArrayRef<mlir::NamedAttribute> more = {});
  /// Writes the signature and the return.
  void finish();

private:
  mlir::OpBuilder &builder;
  mlir::func::FuncOp function;
  llvm::StringSet<> taken; // names of arguments
  llvm::SmallVector<mlir::DictionaryAttr> arguments, results;
  llvm::SmallVector<mlir::Value> values;
};

/// Reports the results of @loss that check indices, with `kind` index.
void addChecks(StepFunction &step, mlir::func::FuncOp loss, const mlir::IRMapping &mapping);

/// The arguments of @loss as state, inputs and scalars of a step: `mapping` then maps them.
void addModelArguments(StepFunction &step, mlir::func::FuncOp loss, mlir::IRMapping &mapping);

} // namespace divisi::training
