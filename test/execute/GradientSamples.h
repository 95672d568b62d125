#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace divisi::test {

/// A function @forward that tests one operation. Float arguments are drawn from [low, high]; integer ones count 0, 1,
/// 2, ... modulo `modulo`.
struct GradientSample {
  std::string op, text;
  double low = 0.3, high = 0.9;
  int64_t modulo = 3;
};

/// One or more for each differentiable operation, small and in double precision.
std::vector<GradientSample> gradientSamples();

/// One operation given as the text after "graph.": arguments a, b, c of the types.
std::string function(const std::vector<std::string> &arguments, const std::string &result,
                     const std::string &operation);

/// A sample of one operation by its name: arguments a, b, c of the types, and attributes.
GradientSample sample(const std::string &op, const std::vector<std::string> &arguments, const std::string &result,
                      const std::string &attributes);

/// A fixed irregular sequence in [0, 1).
double number(uint64_t i);

/// Puts producers before each float argument of @forward: a scale and a shift of each element, and a transpose, so that
/// the argument's dimensions are reversed. Values that the backward pass recomputes then have another layout.
void addProducers(mlir::func::FuncOp function);

/// Rewrites @forward to return the weighted sum of its result, and the gradients of its float arguments.
void addGradients(mlir::func::FuncOp function);

} // namespace divisi::test
