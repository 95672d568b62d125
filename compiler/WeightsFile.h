#pragma once
#include "compiler/Import/Import.h"
#include "compiler/Manifest.h"

namespace divisi::compiler {

/// Writes initial weights as safetensors, atomically, and returns the manifest's reference to them. Fails with an error
/// that names the file.
llvm::Expected<WeightsReference> writeWeights(llvm::StringRef path, llvm::ArrayRef<Weight> weights);

} // namespace divisi::compiler
