#pragma once
#include "test/execute/Draw.h"

#include "mlir/IR/BuiltinTypes.h"

#include <map>
#include <string>
#include <vector>

namespace divisi::test {

using Bytes = std::vector<char>;
/// Whole tensors by name, in the model's shapes.
using Tensors = std::map<std::string, Bytes>;

/// Elements from [low, high); integers are rounded down.
Bytes randomBytes(Draw &draw, mlir::RankedTensorType type, double low, double high);
/// For an argument of any sample of an operation: floats below one, integers that are indices.
Bytes randomArgument(Draw &draw, mlir::RankedTensorType type);
/// A text that describes the difference of two tensors; empty if they agree. Floats may differ by the tolerance times
/// the largest one, and by values that are zero except for rounding.
std::string difference(const Bytes &expected, const Bytes &got, mlir::Type element, double tolerance);

} // namespace divisi::test
