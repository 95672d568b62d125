#pragma once
#include "compiler/Import/Import.h"
#include "compiler/Manifest.h"

namespace divisi::compiler {

/// An error if a file exists and is not one that writeWeights has written: somebody may need it.
llvm::Error checkReplaceable(llvm::StringRef path);

/// Writes initial weights as safetensors, atomically, and returns the manifest's reference to them. Fails with an error
/// that names the file.
llvm::Expected<WeightsReference> writeWeights(llvm::StringRef path, llvm::ArrayRef<Weight> weights);

} // namespace divisi::compiler
