#pragma once
#include "dialects/Dist/Dist.h"

namespace divisi::dist {

/// The shardings of a message's two sides, where they differ: `dims` of dist.transfer, dist.send and dist.receive.
struct MessageDims {
  Sharding from, to;

  /// Null if it is no list of two lists of different axes for each dimension. The axis "stage" is none of them.
  static std::optional<MessageDims> parse(mlir::ArrayAttr attr, const Mesh &mesh);
  mlir::ArrayAttr toAttr(const Mesh &mesh, mlir::MLIRContext *context) const;

  /// The shape of the whole tensor of which a type is one side's shard.
  static llvm::SmallVector<int64_t> global(mlir::RankedTensorType local, const Sharding &side, const Mesh &mesh);
};

} // namespace divisi::dist
