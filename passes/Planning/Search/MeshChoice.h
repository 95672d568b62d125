#pragma once
#include "passes/Planning/Problem.h"

namespace divisi::planning {

/// Whether an axis of this size divides a factor that may be sharded.
bool mayDivide(const Problem::Op &op, int64_t size);

/// Whether an axis of the mesh divides no factor: a mesh without it is as good.
bool hasIdleAxis(const Problem &problem, const dist::Mesh &mesh);

/// Whether "model" is outside, in a list that enumerateMeshes made: it also has the mesh of these sizes with "data" outside.
/// Strategies, which tell axes by name, have them in both orders.
bool hasNamesExchanged(const dist::Mesh &mesh, llvm::ArrayRef<dist::Mesh> meshes);

/// The sizes of the axes, outermost first: all that a search sees of a mesh. Their order matters, because a dimension that
/// several axes shard has the outer ones first.
std::vector<int64_t> sizesOf(const dist::Mesh &mesh);

} // namespace divisi::planning
