// How plans compare.
#include "passes/Planning/Search/Planner.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

std::string planning::nameOf(const Mesh &mesh) {
  std::string text;
  for (const auto &axis : mesh.axes)
    text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

/// Of a step: measured, if it was.
static double secondsOf(const Candidate &candidate) {
  return candidate.measured > 0 ? candidate.measured : candidate.prediction.seconds;
}

bool planning::isTie(const Candidate &a, const Candidate &b) {
  auto [less, more] = std::minmax({secondsOf(a), secondsOf(b)});
  return a.fits && b.fits && (a.measured > 0) == (b.measured > 0) && more <= less * (1 + b.sameWithin());
}

size_t planning::preferred(llvm::ArrayRef<const Candidate *> plans) {
  auto isWorse = [](const Candidate *a, const Candidate *b) { return isBetter(*a, *b); };
  const size_t best = std::min_element(plans.begin(), plans.end(), isWorse) - plans.begin();
  size_t chosen = best;
  for (auto [i, plan] : llvm::enumerate(plans))
    if (isTie(*plan, *plans[best]) && std::pair(plan->mesh.devices(), plan->searched) <
                                          std::pair(plans[chosen]->mesh.devices(), plans[chosen]->searched))
      chosen = i;
  return chosen;
}

bool planning::isBetter(const Candidate &a, const Candidate &b) {
  if (a.fits != b.fits)
    return a.fits;
  if ((a.measured > 0) != (b.measured > 0))
    return a.measured > 0;
  auto rank = [](const Candidate &c) { return c.fits ? secondsOf(c) : c.prediction.memory.total(); };
  if (rank(a) != rank(b))
    return rank(a) < rank(b);
  if (a.mesh.devices() != b.mesh.devices())
    return a.mesh.devices() < b.mesh.devices();
  return !a.searched && b.searched;
}
