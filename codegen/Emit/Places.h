#pragma once
#include "dialects/Exec/Exec.h"

#include "llvm/ADT/DenseMap.h"

#include <string>

namespace divisi::codegen {

/// Where the values of tasks lie: an offset in the arena (with exec::slotBit: in the slot), or in the program's
/// constants.
class Places {
public:
  /// -1 - the offset for what lies in the constants.
  int64_t of(mlir::Value value);
  /// Of each input of a kernel, a call or a copy, and then of each output.
  llvm::SmallVector<int64_t> ofAll(mlir::Operation *op);
  /// The constants that were asked for, each aligned as buffers are.
  const std::string &constants() const { return bytes; }

private:
  std::string bytes;
  llvm::DenseMap<mlir::Attribute, int64_t> offsets;
};

/// A constant's elements as they lie in memory: a boolean takes one byte.
std::vector<char> bytesOf(mlir::DenseElementsAttr data);

} // namespace divisi::codegen
