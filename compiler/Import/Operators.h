#pragma once
#include "compiler/Import/NodeImporter.h"

namespace divisi::compiler {

using Handler = Results (*)(NodeImporter &n);

/// The handler of one operator of the main domain, from opset `since` to opset `until`.
struct Operator {
  llvm::StringRef name;
  int64_t since, until;
  Handler handler;
};
inline constexpr int64_t newest = 1 << 20;

/// The operators of each family (Ops/*.cpp).
llvm::ArrayRef<Operator> mathOperators();
llvm::ArrayRef<Operator> activationOperators();
llvm::ArrayRef<Operator> logicOperators();
llvm::ArrayRef<Operator> shapeOperators();
llvm::ArrayRef<Operator> reductionOperators();
llvm::ArrayRef<Operator> contractionOperators();
llvm::ArrayRef<Operator> convolutionOperators();
llvm::ArrayRef<Operator> poolingOperators();
llvm::ArrayRef<Operator> normalizationOperators();
llvm::ArrayRef<Operator> indexingOperators();
llvm::ArrayRef<Operator> lossOperators();
llvm::ArrayRef<Operator> sequenceOperators();
llvm::ArrayRef<Operator> resizeOperators();
llvm::ArrayRef<Operator> constantOperators();
llvm::ArrayRef<Operator> rearrangeOperators();
llvm::ArrayRef<Operator> attentionOperators();

/// The operator of a node; null if it is not supported.
const Operator *findOperator(llvm::StringRef domain, llvm::StringRef name, int64_t opset);

} // namespace divisi::compiler
