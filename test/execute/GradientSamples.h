#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace divisi::test {

/// A function @forward in which one operation is of interest. Float arguments are drawn from [low, high]; integer ones
/// count 0, 1, 2, ... modulo `modulo`.
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

/// Puts a producer before each float argument of @forward, which then has its dimensions in reverse order: a scale and
/// a shift for each element, and a transpose. What backward parts recompute then has another layout.
void addProducers(mlir::func::FuncOp function);

/// Rewrites @forward to return the sum of its result under fixed weights, and the gradients of its float arguments.
void addGradients(mlir::func::FuncOp function);

} // namespace divisi::test
