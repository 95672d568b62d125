#pragma once
#include "dialects/Exec/Exec.h"

#include "llvm/ADT/DenseMap.h"

#include <string>

namespace divisi::codegen {

/// The places of the values of tasks: an offset in the arena (with exec::slotBit: in the buffer slot), or in the
/// program's constants.
class Places {
public:
  /// The place of a value; -1 - offset for a value in the constants.
  int64_t of(mlir::Value value);
  /// The places of each input and then each output of a kernel, call or copy.
  llvm::SmallVector<int64_t> ofAll(mlir::Operation *op);
  /// The constants whose places were requested, each aligned like a buffer.
  const std::string &constants() const { return bytes; }

private:
  std::string bytes;
  llvm::DenseMap<mlir::Attribute, int64_t> offsets;
};

/// A constant's elements as they are in memory: a boolean takes one byte.
std::vector<char> bytesOf(mlir::DenseElementsAttr data);

} // namespace divisi::codegen
