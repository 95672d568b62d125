#pragma once
#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Problem.h"

namespace divisi::planning {

/// Whether an axis of the mesh divides no factor: a mesh without it is as good.
bool hasIdleAxis(const Problem &problem, const dist::Mesh &mesh);

/// Whether "model" is outside, where there are other meshes: strategies, which tell axes by name, have them in that order,
/// too.
bool hasNamesExchanged(const dist::Mesh &mesh, llvm::ArrayRef<dist::Mesh> meshes);

/// The sizes of the axes, outermost first.
std::vector<int64_t> sizesOf(const dist::Mesh &mesh);

/// The meshes on which searches find different plans. Names and order of axes are of no account to a search, unless pins
/// name them: of meshes that are alike otherwise, the first with "data" outside is searched.
std::vector<const dist::Mesh *> differentMeshes(const Cluster &cluster, llvm::ArrayRef<dist::Mesh> meshes, bool named);

} // namespace divisi::planning
