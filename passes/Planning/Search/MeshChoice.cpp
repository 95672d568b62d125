#include "passes/Planning/Search/MeshChoice.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

bool planning::mayDivide(const Problem::Op &op, int64_t size) {
  return llvm::any_of(op.rule.factors, [&](const auto &factor) { return !factor.whole && factor.size % size == 0; });
}

bool planning::hasIdleAxis(const Problem &problem, const Mesh &mesh) {
  return llvm::any_of(mesh.axes, [&](const auto &axis) {
    return llvm::none_of(problem.ops, [&](const Problem::Op &op) { return mayDivide(op, axis.size); });
  });
}

bool planning::hasNamesExchanged(const Mesh &mesh, llvm::ArrayRef<Mesh> meshes) {
  return mesh.axes[0].name == "model" && meshes.size() > 1;
}

std::vector<int64_t> planning::sizesOf(const Mesh &mesh) {
  std::vector<int64_t> sizes;
  for (const auto &axis : mesh.axes)
    sizes.push_back(axis.size);
  return sizes;
}
