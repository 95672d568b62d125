#pragma once
#include "dialects/Dist/ShardingRule.h"
#include "dialects/Graph/Form.h"

namespace divisi::step {

/// What a kernel or a call does on one device, as far as its time follows from it.
struct Work {
  graph::Form form = graph::Form::elementwise; // product and attention: one operation; else a kernel, or another call
  double flops = 0, bytes = 0;                 // that it computes; that it reads and writes
  double batch = 1, m = 1, n = 1, k = 1; // of a matmul, [batch, m, k] by [batch, k, n]; a convolution counts as one
  double keys = 0, depth = 0;            // of attention
  double scores = 0;                     // of attention's gradient: those that are not masked
  double rowSums = 0;                    // sums, maxima and the like over rows of the innermost dimension: their results
  bool causal = false;                   // of attention: a query sees the keys up to its own index
  bool images = false;                   // of windows of images: of a product, a convolution
  bool filters = false;                  // of a convolution: the gradient of its filters, which sums over images
  /// The attributes of an operation that say so.
  static constexpr llvm::StringLiteral causalAttribute = "causal", imagesAttribute = "pads_low";

  /// The shape of one operation with this rule; `sizes` are those of its factors on the device, `elements` those of its
  /// first result there.
  void shapeBy(const dist::ShardingRule &rule, llvm::ArrayRef<double> sizes, double elements);
};

} // namespace divisi::step
