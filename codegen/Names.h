#pragma once
#include "mlir/IR/Location.h"

namespace divisi::codegen {

/// Adds the nodes' names in a location; each occurs once.
void addNames(mlir::Location loc, llvm::SmallVectorImpl<llvm::StringRef> &names);

} // namespace divisi::codegen
