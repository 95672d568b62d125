#pragma once
#include "compiler/Import/NodeImporter.h"

namespace divisi::compiler {

/// The convolution of x, [batch, channels, spatial..], with a filter, by the node's attributes, without a bias.
mlir::Value convolution(NodeImporter &n, mlir::Value x, mlir::Value filter);

/// Adds a vector with one entry for each channel, dimension 1.
mlir::Value addPerChannel(NodeImporter &n, mlir::Value y, mlir::Value bias);

} // namespace divisi::compiler
