#include "passes/Planning/Pipeline/PipeDreamReport.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace divisi;
using namespace divisi::planning;

static double overDataParallel(const PipeDreamPlan &plan) {
  return plan.slowestMs > 0 ? plan.dataParallelMs / plan.slowestMs : 1;
}

/// The layers with which each stage begins, if it is what depends on them, and is not in a later stage: those that read
/// no layer of this or a later stage. Together with the last of these layers, so that they are several.
static std::vector<std::vector<int>> beginningsOf(const PipeDreamPlan &plan, const LayerProfile &profile) {
  std::vector<int> stageOf(profile.layers.size());
  for (auto [number, stage] : llvm::enumerate(plan.stages))
    for (int layer : stage.layers)
      stageOf[layer] = number;
  std::vector<std::vector<int>> first(plan.stages.size());
  for (auto [number, layer] : llvm::enumerate(profile.layers)) {
    int stage = 0; // the first of those that it begins
    for (int input : layer.inputs)
      stage = std::max(stage, stageOf[input] + 1);
    for (; stage <= stageOf[number]; ++stage)
      first[stage].push_back((int)number);
  }
  int last = 0; // of this and later stages
  for (size_t stage = first.size(); stage-- > 0;) {
    last = std::max(last, plan.stages[stage].layers.back());
    if (first[stage].size() == 1 && first[stage][0] != last)
      first[stage].push_back(last);
  }
  return first;
}

llvm::json::Object planning::pipeDreamJson(const PipeDreamPlan &plan, const LayerProfile &profile, int64_t devices) {
  llvm::json::Array stages;
  auto namesOf = [&](const std::vector<int> &numbers) {
    llvm::json::Array names;
    for (int layer : numbers)
      names.push_back(llvm::json::fixUTF8(profile.layers[layer].name));
    return names;
  };
  for (auto [stage, first] : llvm::zip(plan.stages, beginningsOf(plan, profile))) {
    stages.push_back(llvm::json::Object{{"layers", namesOf(stage.layers)},
                                        {"begins_at", namesOf(first)},
                                        {"positions", llvm::json::Array(stage.layers)},
                                        {"replicas", stage.replicas},
                                        {"replicas_per_level", llvm::json::Array(stage.perLevel)},
                                        {"ms", stage.ms},
                                        {"transfer_ms", stage.transferMs}});
  }
  return llvm::json::Object{{"objective", "pipedream"},
                            {"cost", plan.cost == PipeCost::paper ? "paper" : "code"},
                            {"devices", devices},
                            {"devices_used", plan.devices()},
                            {"slowest_ms", plan.slowestMs},
                            {"bound_ms", plan.boundMs},
                            {"speedup", plan.speedup},
                            {"data_parallel_ms", plan.dataParallelMs},
                            {"speedup_over_data_parallel", overDataParallel(plan)},
                            {"sent_bytes", plan.sentBytes},
                            {"data_parallel_bytes", plan.dataParallelBytes},
                            {"cuts", plan.cuts},
                            {"stages", std::move(stages)}};
}

void planning::printPipeDream(const PipeDreamPlan &plan, const LayerProfile &profile, int64_t devices,
                              llvm::raw_ostream &os) {
  os << llvm::formatv("{0} of {1} devices, slowest stage {2:f3} ms, {3:f2} times as fast as one device\n",
                      plan.devices(), devices, plan.slowestMs, plan.speedup);
  os << llvm::formatv("data parallelism (BSP): {0:f3} ms; the stages are {1:f2} times as fast", plan.dataParallelMs,
                      overDataParallel(plan));
  if (plan.dataParallelBytes > 0)
    os << llvm::formatv(", and send {0:f2} MB per minibatch instead of {1:f2} MB", plan.sentBytes / 1e6,
                        plan.dataParallelBytes / 1e6);
  if (plan.sentBytes < plan.dataParallelBytes)
    os << llvm::formatv(" ({0:f1} % less)", (1 - plan.sentBytes / plan.dataParallelBytes) * 100);
  os << "\n";
  if (plan.slowestMs > plan.boundMs * roundingSlack)
    os << llvm::formatv("not all places to cut were searched: no plan is faster than {0:f3} ms (gap {1:f2} %)\n",
                        plan.boundMs, (plan.slowestMs / plan.boundMs - 1) * 100);
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
