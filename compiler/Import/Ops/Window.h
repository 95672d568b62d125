#pragma once
#include "compiler/Import/NodeImporter.h"

namespace divisi::compiler {

/// The sliding windows of a convolution or pooling, over spatial dimensions.
struct Window {
  using Shape = CheckedBuilder::Shape;
  Shape kernel, strides, dilations, low, high, output;

  /// Reads a node's attributes (kernel_shape, strides, dilations, pads, auto_pad, ceil_mode) for an input with these
  /// spatial dimensions. `kernel` may be known from the filter.
  Window(NodeImporter &n, llvm::ArrayRef<int64_t> input, std::optional<Shape> kernel);

  int64_t extent(size_t d) const { return dilations[d] * (kernel[d] - 1) + 1; }
};

/// A spatial attribute with its default for each dimension; values must be between `least` and 2^31.
CheckedBuilder::Shape spatialAttr(NodeImporter &n, llvm::StringRef name, size_t count, int64_t missing, int64_t least);

/// The tensor's dimensions after batch and channels; there must be at least one.
llvm::ArrayRef<int64_t> spatialShape(mlir::Value x);

} // namespace divisi::compiler
