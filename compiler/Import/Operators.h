#pragma once
#include "compiler/Import/NodeImporter.h"

namespace divisi::compiler {

using Handler = Results (*)(NodeImporter &n);

/// The handler of one operator, from opset `since` to opset `until` of its domain. A name of another domain than the
/// main one has it in front: "com.microsoft.Gelu".
struct Operator {
  llvm::StringRef name;
  int64_t since, until;
  Handler handler;
};
inline constexpr int64_t newest = 1 << 20;

/// Operators that are one operation of one or two inputs.
template <typename OpT> Results unary(NodeImporter &n) { return {n.op<OpT>(n.in(0))}; }
template <typename OpT> Results binary(NodeImporter &n) { return {n.binary<OpT>(n.in(0), n.in(1))}; }

/// The operators of each family (Ops/*.cpp).
llvm::ArrayRef<Operator> mathOperators();
llvm::ArrayRef<Operator> extremumOperators();
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
llvm::ArrayRef<Operator> randomOperators();
llvm::ArrayRef<Operator> quantizationOperators();
llvm::ArrayRef<Operator> signalOperators();
llvm::ArrayRef<Operator> samplingOperators();
llvm::ArrayRef<Operator> optimizerOperators();
llvm::ArrayRef<Operator> fusedOperators();
llvm::ArrayRef<Operator> fusedAttentionOperators();
llvm::ArrayRef<Operator> recurrentOperators();
llvm::ArrayRef<Operator> controlFlowOperators();
llvm::ArrayRef<Operator> linearAttentionOperators();
llvm::ArrayRef<Operator> determinantOperators();
llvm::ArrayRef<Operator> wordOperators();

/// The operator of a node; null if it is not supported.
const Operator *findOperator(llvm::StringRef domain, llvm::StringRef name, int64_t opset);

} // namespace divisi::compiler
