#pragma once
#include "compiler/Import/Tensors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>

namespace divisi::compiler {

/// The arguments and results of the imported function. Arguments are added in any order and sorted at the end:
/// parameters, buffers, inputs, run-time scalars.
class Signature {
public:
  enum class Role { parameter, buffer, input, scalar };
  struct Argument {
    Role role;
    std::string name;
    mlir::BlockArgument value;
    TensorData data{};                // a weight's initial value
    std::optional<std::pair<int64_t, int64_t>> range{}; // indices must be in [first, second)
    std::optional<int64_t> padding{};                   // the value of a label in padded rows
    bool isLabel = false, isFrozen = false;
  };

  explicit Signature(mlir::func::FuncOp function) : function(function), block(function.getBody().front()) {}

  mlir::Value add(Role role, const std::string &name, mlir::RankedTensorType type, mlir::Location loc);
  mlir::Value addWeight(const std::string &name, const TensorData &data, mlir::Location loc);
  /// The argument that is this value; null if it is none.
  Argument *find(mlir::Value value);
  Argument *findInput(llvm::StringRef name);
  bool has(Role role, llvm::StringRef name) const;
  std::deque<Argument> &all() { return arguments; }

  /// Adds a result with one named attribute.
  void addResult(mlir::Value value, llvm::StringRef attribute, mlir::Attribute text);
  bool isResult(mlir::Operation *op) const {
    return llvm::any_of(results, [&](mlir::Value v) { return v.getDefiningOp() == op; });
  }
  void replaceResult(mlir::Value from, mlir::Value to) { std::replace(results.begin(), results.end(), from, to); }
  /// Adds the return operation, sets the function's type, and drops unused weights.
  void finish(mlir::Location loc);

private:
  void setAttributes(unsigned index, const Argument &argument);

  mlir::func::FuncOp function;
  mlir::Block &block;
  std::deque<Argument> arguments;
  llvm::SmallVector<mlir::Value> results;
  llvm::SmallVector<mlir::Attribute> resultAttributes;
};

} // namespace divisi::compiler
