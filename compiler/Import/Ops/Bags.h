#pragma once
#include "compiler/Import/NodeImporter.h"

namespace divisi::compiler {

/// The results of a Loop that PyTorch's exporters write for nn.EmbeddingBag; none for other loops.
std::optional<Results> importBags(NodeImporter &n);

} // namespace divisi::compiler
