#include "passes/Planning/Pipeline/PipeDreamReport.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace divisi;
using namespace divisi::planning;

llvm::json::Object planning::pipeDreamJson(const PipeDreamPlan &plan, const LayerProfile &profile, int64_t devices) {
  llvm::json::Array stages;
  for (const PipeDreamPlan::Stage &stage : plan.stages) {
    llvm::json::Array layers;
    for (int layer : stage.layers)
      layers.push_back(llvm::json::fixUTF8(profile.layers[layer].name));
    stages.push_back(llvm::json::Object{{"layers", std::move(layers)},
                                        {"replicas", stage.replicas},
                                        {"replicas_per_level", llvm::json::Array(stage.perLevel)},
                                        {"ms", stage.ms},
                                        {"transfer_ms", stage.transferMs}});
  }
  return llvm::json::Object{
      {"objective", "pipedream"},           {"devices", devices},         {"devices_used", plan.devices()},
      {"slowest_ms", plan.slowestMs},       {"speedup", plan.speedup},    {"cuts", plan.cuts},
      {"cuts_considered", plan.considered}, {"stages", std::move(stages)}};
}

void planning::printPipeDream(const PipeDreamPlan &plan, const LayerProfile &profile, int64_t devices,
                              llvm::raw_ostream &os) {
  os << llvm::formatv("{0} of {1} devices, slowest stage {2:f3} ms, {3:f2} times as fast as one device\n",
                      plan.devices(), devices, plan.slowestMs, plan.speedup);
  if (plan.considered < plan.cuts)
    os << llvm::formatv("{0} of {1} places to cut were looked at\n", plan.considered, plan.cuts);
  os << llvm::formatv("{0,5}  {1,8}  {2,10}  {3,11}  {4,6}  {5}\n", "stage", "replicas", "ms", "transfer ms", "layers",
                      "from .. to");
  for (auto [i, stage] : llvm::enumerate(plan.stages)) {
    std::string first = shownName(profile.layers[stage.layers.front()].name);
    std::string last = shownName(profile.layers[stage.layers.back()].name);
    os << llvm::formatv("{0,5}  {1,8}  {2,10:f3}  {3,11:f3}  {4,6}  {5}\n", i + 1, stage.replicas, stage.ms,
                        stage.transferMs, stage.layers.size(),
                        stage.layers.size() == 1 ? first : first + " .. " + last);
  }
}
