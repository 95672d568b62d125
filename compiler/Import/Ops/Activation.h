#pragma once
#include "compiler/Import/NodeImporter.h"

namespace divisi::compiler {

/// An activation function with its parameters, as LSTM, GRU and RNN name it.
struct Activation {
  mlir::Value (*apply)(NodeImporter &n, mlir::Value x, double alpha, double beta);
  double alpha, beta;

  mlir::Value operator()(NodeImporter &n, mlir::Value x) const { return apply(n, x, alpha, beta); }
};

/// The functions in the node's attribute `activations`, or `missing`. The numbers of `activation_alpha` and
/// `activation_beta` go, in their order, to the functions that have such a parameter.
llvm::SmallVector<Activation> namedActivations(NodeImporter &n, llvm::ArrayRef<std::string> missing);

} // namespace divisi::compiler
