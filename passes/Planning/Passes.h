#pragma once
#include "dialects/Dist/Dist.h"
#include "dialects/Graph/Graph.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include "llvm/Support/Error.h"

namespace divisi::planning {
#define GEN_PASS_DECL
#include "passes/Planning/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Planning/Passes.h.inc"

/// Parses a mesh: "data=2,model=4". An error says what is wrong with the text.
llvm::Expected<dist::Mesh> parseMesh(llvm::StringRef text);
/// Whether the numbers of axes and devices are below limits that keep planning fast.
inline bool isReasonable(const dist::Mesh &mesh) { return mesh.axes.size() <= 6 && mesh.devices() <= 4096; }

} // namespace divisi::planning
