#pragma once
#include "dialects/Dist/Dist.h"

#define GET_OP_CLASSES
#include "dialects/Dist/DistBuckets.h.inc"

namespace divisi::dist {

/// The kind of a collective, whether it is a bucket or not: all_gather, ...
inline llvm::StringRef collectiveName(mlir::Operation *op) {
  llvm::StringRef name = op->getName().stripDialect();
  return llvm::isa<AllGathersOp, ReduceScattersOp>(op) ? name.drop_back() : name;
}

namespace names {
/// dist.all_gather and its buckets: of state, a number for those that start together, one layer ahead of their use.
inline constexpr llvm::StringLiteral layer = "layer";
} // namespace names
} // namespace divisi::dist
