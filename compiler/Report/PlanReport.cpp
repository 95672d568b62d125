#include "compiler/Report/PlanReport.h"

#include "compiler/Report/Numbers.h"
#include "passes/Planning/Explain/BreakEven.h"
#include "passes/Planning/Explain/LayerCosts.h"
#include "passes/Planning/Search/GroupStrategies.h"

#include <set>

using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;
namespace json = llvm::json;

namespace {

/// The number of plans that are compared for the break-evens, and of parameters whose other shardings are tried.
constexpr size_t mostRivals = 6, mostParameters = 12;

const char *phaseOf(Prediction::Phase phase) {
  return phase == Prediction::forward ? "forward" : phase == Prediction::backward ? "backward" : "update";
}

json::Array listOf(const std::vector<std::string> &texts) { return json::Array(texts); }

std::string inMilliseconds(double seconds) { return digits(seconds * 1e3) + " ms"; }

/// The reason why a plan is not the best.
std::string whyNot(const Candidate &candidate, const Candidate &best, const Cluster &cluster) {
  if (!candidate.fits) {
    double has = cluster.used(candidate.mesh.devices()).device.memory;
    return "needs " + scaled(candidate.prediction.memory.total(), "B") + ", a device has " + scaled(has, "B");
  }
  constexpr double least = 1e-4; // share of a step: less is not worth a word
  const double noise = least * best.prediction.seconds;
  std::pair<double, const char *> differences[] = {
      {candidate.prediction.compute - best.prediction.compute, "computation"},
      {candidate.prediction.waited - best.prediction.waited, "exposed communication"}};
  if (differences[0].first < differences[1].first)
    std::swap(differences[0], differences[1]);
  std::string text;
  for (auto [seconds, what] : differences)
    if (std::abs(seconds) > noise)
      text += (text.empty() ? "" : ", ") + inMilliseconds(std::abs(seconds)) + (seconds > 0 ? " more " : " less ") + what;
  if (candidate.prediction.seconds > best.prediction.seconds + noise && !isTie(candidate, best) && !text.empty())
    return text;
  std::string more = candidate.mesh.devices() > best.mesh.devices() ? " on more devices" : "";
  return "about the same time" + more + (text.empty() ? "" : ": " + text);
}

/// Text that is valid in JSON: names come from files.
std::string utf8(const std::string &name) { return json::isUTF8(name) ? name : json::fixUTF8(name); }

json::Object describeMemory(const Prediction::Memory &memory, const Problem &problem) {
  return json::Object{{"parameters", memory.parameters},
                      {"optimizer_state", memory.moments},
                      {"others", memory.others},
                      {"inputs", memory.inputs},
                      {"transient", memory.transient},
                      {"total", memory.total()},
                      {"worst_phase", phaseOf(memory.phase)},
                      {"worst_node", memory.operation >= 0 ? utf8(problem.ops[memory.operation].name) : ""}};
}

json::Array describeLayers(const Problem &problem, const Candidate &candidate) {
  json::Array layers;
  for (const LayerCost &layer : layerCosts(problem, candidate)) {
    json::Array weights, collectives;
    for (int t : layer.weights)
      weights.push_back(utf8(problem.tensors[t].name));
    for (int c : layer.collectives) {
      const auto &collective = candidate.prediction.collectives[c];
      json::Array axes;
      for (int axis : collective.step.axes)
        axes.push_back(candidate.mesh.axes[axis].name);
      collectives.push_back(json::Object{{"kind", collectiveName(collective.step.kind)},
                                         {"axes", std::move(axes)},
                                         {"bytes", collective.bytes},
                                         {"ms", collective.seconds * collective.times * 1e3},
                                         {"exposed_ms", collective.waited * collective.times * 1e3},
                                         {"reason", utf8(reasonOf(problem, candidate, collective))}});
    }
    layers.push_back(json::Object{{"name", utf8(layer.name)},
                                  {"forward_ms", layer.forward * 1e3},
                                  {"backward_ms", layer.backward * 1e3},
                                  {"exposed_ms", layer.shown * 1e3},
                                  {"overlapped_ms", std::max(0.0, layer.hidden) * 1e3},
                                  {"parameter_bytes", layer.parameters},
                                  {"weights", std::move(weights)},
                                  {"collectives", std::move(collectives)}});
  }
  return layers;
}

/// A name without the numbers between its words: repeated layers are described once.
std::string sortOf(llvm::StringRef name) {
  auto separates = [](char c) { return c == '.' || c == '/' || c == '_'; };
  std::string sort;
  for (size_t i = 0; i < name.size();) {
    size_t end = std::min(name.find_first_not_of("0123456789", i), name.size());
    if (end > i && (i == 0 || separates(name[i - 1])) && (end == name.size() || separates(name[end]))) {
      i = end;
      continue;
    }
    sort += name[i++];
  }
  return sort;
}

/// The parameters and their shardings; for the largest of each sort, the time of the best plan with another sharding.
json::Array describeParameters(const ModuleCandidate &candidate) {
  const Problem &problem = candidate.planner->problem;
  std::vector<int> parameters;
  for (auto [t, tensor] : llvm::enumerate(problem.tensors))
    if (tensor.role == Problem::Role::parameter &&
        llvm::none_of(parameters, [&, &name = tensor.name](int other) { return problem.tensors[other].name == name; }))
      parameters.push_back(t);
  std::vector<int> bySize = parameters;
  std::stable_sort(bySize.begin(), bySize.end(),
                   [&](int a, int b) { return problem.tensors[a].bytes() > problem.tensors[b].bytes(); });
  std::set<std::string> sorts;
  std::set<int> tried;
  for (int t : bySize)
    if (tried.size() < mostParameters && candidate.mesh.devices() > 1 &&
        sorts.insert(sortOf(problem.tensors[t].name)).second)
      tried.insert(t);
  json::Array result;
  for (int t : parameters) {
    const Problem::Tensor &tensor = problem.tensors[t];
    json::Array alternatives;
    if (tried.count(t)) {
      std::vector<dist::Sharding> others = shardingsOf(tensor, candidate.mesh);
      llvm::erase(others, candidate.plan.tensors[t]);
      auto plans = candidate.planner->searchNear(candidate, t, others);
      for (const auto &[sharding, other] : llvm::zip(others, plans))
        alternatives.push_back(json::Object{{"sharding", describe(sharding, candidate.mesh)},
                                            {"step_ms", other.prediction.seconds * 1e3},
                                            {"fits", other.fits},
                                            {"why_not", whyNot(other, candidate, candidate.planner->cluster)}});
    }
    json::Array shape;
    for (int64_t size : tensor.shape)
      shape.push_back(size);
    result.push_back(json::Object{{"name", utf8(tensor.name)},
                                  {"shape", std::move(shape)},
                                  {"sharding", describe(candidate.plan.tensors[t], candidate.mesh)},
                                  {"local_bytes", localBytes(tensor, candidate.mesh, candidate.plan.tensors[t])},
                                  {"alternatives", std::move(alternatives)}});
  }
  return result;
}
} // namespace

std::string compiler::describe(const dist::Sharding &sharding, const dist::Mesh &mesh) {
  std::string text;
  for (const auto &axes : sharding.dims) {
    text += text.empty() ? "" : ", ";
    if (axes.empty())
      text += "_";
    for (auto [i, axis] : llvm::enumerate(axes))
      text += (i ? "+" : "") + mesh.axes[axis].name;
  }
  return "[" + text + "]";
}

json::Object PlanReport::plans() const {
  json::Array list;
  for (auto [i, candidate] : llvm::enumerate(candidates)) {
    const Prediction &p = candidate.prediction;
    json::Object entry{{"rank", (int64_t)i + 1},
                       {"name", candidate.name},
                       {"mesh", nameOf(candidate.mesh)},
                       {"devices", candidate.mesh.devices()},
                       {"microbatches", candidate.split ? candidate.split->microbatches : 1},
                       {"parallelism", listOf(candidate.forms())},
                       {"fits", candidate.fits},
                       {"step_ms", p.seconds * 1e3},
                       {"compute_ms", p.compute * 1e3},
                       {"communication_ms", p.communication * 1e3},
                       {"exposed_ms", p.waited * 1e3},
                       {"overlapped_ms", std::max(0.0, p.communication - p.waited) * 1e3},
                       {"collectives", llvm::count_if(p.collectives, [](const auto &c) { return c.leads; })},
                       {"bytes_sent", p.bytesSent},
                       {"bytes_moved", p.traffic},
                       {"memory", describeMemory(p.memory, candidate.planner->problem)}};
    if (candidate.measured > 0)
      entry["measured_ms"] = candidate.measured * 1e3;
    if (candidate.arenaBytes > 0)
      entry["arena_bytes"] = candidate.arenaBytes;
    entry["same_within"] = candidate.sameWithin();
    if (candidate.bound > 0)
      entry["search"] = json::Object{
          {"mesh", candidate.boundMesh},
          {"cost_ms", candidate.searchCost * 1e3},
          {"bound_ms", candidate.bound * 1e3},
          {"gap", candidate.searchCost > candidate.bound ? 1 - candidate.bound / candidate.searchCost : 0.0}};
    if (i > 0) {
      entry["why_not"] = whyNot(candidate, candidates[0], cluster);
      entry["tie"] = isTie(candidate, candidates[0]);
    }
    list.push_back(std::move(entry));
  }
  return json::Object{{"model", utf8(model)},
                      {"cluster", json::Object{{"name", cluster.name},
                                               {"device", cluster.device.name},
                                               {"devices", cluster.devices()},
                                               {"memory", cluster.device.memory},
                                               {"calibration", cluster.calibration}}},
                      {"plans", std::move(list)},
                      {"suggestions", listOf(suggestions)}};
}

json::Object PlanReport::explanation() const {
  json::Object report = plans();
  const ModuleCandidate &best = candidates[0];
  report["layers"] = describeLayers(best.planner->problem, best);
  report["parameters"] = describeParameters(best);
  std::vector<PricedPlan> rivals;
  for (const ModuleCandidate &candidate : llvm::ArrayRef(candidates).take_front(mostRivals))
    rivals.push_back({candidate.planner.get(), &candidate});
  std::vector<Flip> all;
  for (const BreakEven &flip : breakEvens(rivals, cluster))
    all.push_back({flip.figure, flip.unit, flip.now, flip.then, candidates[flip.winner].name});
  all.insert(all.end(), flips.begin(), flips.end());
  json::Array list;
  for (const Flip &flip : all)
    list.push_back(json::Object{{"figure", flip.figure},
                                {"unit", flip.unit},
                                {"now", flip.now},
                                {"then", flip.then},
                                {"exact", flip.exact},
                                {"plan", flip.plan}});
  report["flips"] = std::move(list);
  json::Array again;
  for (const NamedRemat &part : best.preparation.remats)
    again.push_back(json::Object{{"first", part.first}, {"last", part.last}});
  report["remat"] = std::move(again);
  return report;
}
