#pragma once
#include "compiler/Pipeline.h"

namespace divisi::compiler {

/// A mesh and what may follow it: "stage=2,data=4 zero=1 schedule=1f1b microbatches=8".
struct MeshPlan {
  dist::Mesh mesh; // of a stage
  int zero = 0;
  MicrobatchOptions options;
};

/// Reads such a text. An error names it.
llvm::Expected<MeshPlan> parseMeshPlan(llvm::StringRef text);

} // namespace divisi::compiler
