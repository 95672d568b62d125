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
  /// Adds state: {name, role, and `more`}. The model's own state is added first and keeps its names. A name of the
  /// training step's state gets "~" appended until no argument has it.
  mlir::Value addState(mlir::Type type, llvm::StringRef name, llvm::StringRef role, mlir::Location loc,
                       llvm::ArrayRef<mlir::NamedAttribute> more = {});
  /// The name of an argument of state.
  mlir::StringAttr nameOf(mlir::Value state) const;
  void addResult(mlir::Value value, llvm::StringRef attribute, mlir::Attribute attributeValue);
  /// Adds a result that the runtime reports: {kind, and `more`}.
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

/// Adds the results of @loss that check indices as reports of the kind index.
void addChecks(StepFunction &step, mlir::func::FuncOp loss, const mlir::IRMapping &mapping);

/// Adds the arguments of @loss as state, inputs and scalars of a step, and maps them in `mapping`.
void addModelArguments(StepFunction &step, mlir::func::FuncOp loss, mlir::IRMapping &mapping);

} // namespace divisi::training
