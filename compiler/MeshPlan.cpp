#include "compiler/MeshPlan.h"

#include "passes/Planning/Passes.h"
#include "passes/Planning/Simulator/Schedule.h"
#include "passes/Planning/Strategy.h"

using namespace divisi;
using namespace divisi::compiler;

llvm::Expected<MeshPlan> compiler::parseMeshPlan(llvm::StringRef text) {
  auto [axes, rest] = text.split(' ');
  MeshPlan plan;
  bool good = axes.contains('='), counted = false, scheduled = false;
  while (good && !rest.empty()) {
    auto [word, more] = rest.split(' ');
    auto [key, value] = word.split('=');
    rest = more;
    if (key == "zero")
      good = !value.getAsInteger(10, plan.zero) && plan.zero >= 1 && plan.zero <= 3;
    else if (key == "microbatches")
      counted = good = !value.getAsInteger(10, plan.options.microbatches) && plan.options.microbatches >= 1 &&
                       plan.options.microbatches <= MicrobatchOptions::most;
    else if (key == "schedule")
      scheduled = good = planning::pipeline::parseScheduleKind(value).has_value();
    else
      good = false;
    if (key == "schedule")
      plan.options.schedule = value.str();
  }
  if (!good)
    return llvm::createStringError("expected a plan file, auto, or a mesh such as data=4,model=2, 'data=8 zero=1' or "
                                   "'stage=2,data=4 schedule=1f1b microbatches=8', got '" +
                                   text.str() + "'");
  auto mesh = planning::parseMesh(axes);
  if (!mesh)
    return mesh.takeError();
  plan.mesh = *mesh;
  if (auto stage = mesh->find(dist::stageAxis)) {
    plan.options.stages = mesh->axes[*stage].size;
    plan.options.chunks = plan.options.schedule == "interleaved" ? 2 : 1;
    plan.options.stages *= plan.options.chunks;
    plan.mesh.axes.erase(plan.mesh.axes.begin() + *stage);
    if (counted && plan.options.unsplit())
      return llvm::createStringError("'" + text.str() +
                                     "': schedule pipedream updates the weights with every batch: leave out "
                                     "microbatches");
    if (!counted)
      plan.options.microbatches = 0; // a usual number
  } else if (scheduled) {
    return llvm::createStringError("'" + text.str() + "': a schedule is for an axis stage");
  }
  return plan;
}
