#pragma once
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace divisi::codegen {

/// The number of iterations of a loop from 0 in steps of 1; nothing if it is another loop, or the number is not constant.
std::optional<int64_t> extentOf(mlir::scf::ForOp loop);

/// What is added to a loop's counter in an index that is a sum of it and constants.
std::optional<int64_t> addedTo(mlir::Value counter, mlir::Value index);

} // namespace divisi::codegen
