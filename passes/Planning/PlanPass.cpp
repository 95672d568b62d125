#include "passes/Planning/ApplyPlan.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Strategy.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::planning;

std::optional<dist::Mesh> planning::parseMesh(StringRef text, std::string &error) {
  dist::Mesh mesh;
  SmallVector<StringRef> entries;
  text.split(entries, ',');
  for (StringRef entry : entries) {
    auto [name, size] = entry.split('=');
    int64_t number;
    if (name.trim().empty() || size.trim().getAsInteger(10, number) || number < 1 || number > 4096) {
      error = "expected AXIS=SIZE,..., such as data=2,model=4, got '" + text.str() + "'";
      return std::nullopt;
    }
    if (mesh.find(name.trim())) {
      error = "the axis '" + name.trim().str() + "' is named twice";
      return std::nullopt;
    }
    mesh.axes.push_back({name.trim().str(), number});
  }
  if (mesh.axes.size() > 6 || mesh.devices() > 4096) {
    error = "a mesh has at most 6 axes and 4096 devices, got '" + text.str() + "'";
    return std::nullopt;
  }
  return mesh;
}

namespace divisi::planning {
#define GEN_PASS_DEF_PLANPASS
#include "passes/Planning/Passes.h.inc"

namespace {
struct PlanPass : impl::PlanPassBase<PlanPass> {
  using PlanPassBase::PlanPassBase;

  void runOnOperation() final {
    std::string error;
    auto grid = parseMesh(mesh, error);
    if (!grid)
      return fail("mesh: " + error);
    StrategyOptions options;
    options.zero = zero;
    for (StringRef text : llvm::split(StringRef(pins), ';')) {
      if (text.empty())
        continue;
      auto pin = parsePin(text);
      if (!pin)
        return fail("pin: expected NAME=AXES,AXES,... such as fc1.weight=_,model, got '" + text.str() + "'");
      options.pins.push_back(*pin);
    }
    auto problem = ModuleProblem::build(getOperation());
    if (failed(problem))
      return signalPassFailure();
    auto plan = planByStrategy(problem->problem, *grid, options, error);
    if (!plan)
      return fail(error);
    applyPlan(getOperation(), *problem, *plan, *grid);
  }

private:
  void fail(const std::string &message) {
    emitError(UnknownLoc::get(&getContext()), message);
    signalPassFailure();
  }
};
} // namespace
} // namespace divisi::planning
