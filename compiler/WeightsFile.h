#pragma once
#include "compiler/Import/Import.h"
#include "compiler/Manifest.h"

namespace divisi::compiler {

/// Writes initial weights as safetensors, whole or not at all, and says how the manifest refers to them. Fails with a
/// message that names the file.
llvm::Expected<WeightsReference> writeWeights(llvm::StringRef path, llvm::ArrayRef<Weight> weights);

} // namespace divisi::compiler
