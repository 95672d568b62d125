#include "passes/Planning/Search/PinnedPlaces.h"

#include "passes/Planning/Expansion.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

static constexpr size_t mostInputs = 4; // that strategies try split over each axis

bool planning::splitsNothing(const Plan &plan) {
  auto isWhole = [](const auto &dims) { return llvm::all_of(dims, [](const auto &axes) { return axes.empty(); }); };
  return llvm::all_of(plan.tensors,
                      [&](const Sharding &tensor) { return isWhole(tensor.dims) && tensor.pending.empty(); }) &&
         llvm::all_of(plan.ops, isWhole);
}

std::map<int, Sharding> planning::placesOf(const Problem &problem, const Mesh &mesh, const Plan &plan) {
  std::map<int, Sharding> result;
  for (auto [op, factors] : llvm::zip(problem.ops, plan.ops))
    if (!op.forward && !op.seldom)
      for (auto [i, t] : llvm::enumerate(op.results))
        result[t] = resultSharding(op, mesh, factors, i);
  for (auto [t, tensor] : llvm::enumerate(problem.tensors))
    if (tensor.named())
      result[t] = plan.tensors[t];
  return result;
}

std::map<int, Sharding> planning::statesOf(const Problem &problem, const Plan &plan, const std::vector<Pin> &pins) {
  std::map<int, Sharding> result;
  for (auto [t, tensor] : llvm::enumerate(problem.tensors)) {
    bool pinned = llvm::any_of(pins, [&, &name = tensor.name](const Pin &pin) { return pin.name == name; });
    if (tensor.named() && (tensor.role != Problem::Role::input || pinned))
      result[t] = plan.tensors[t];
  }
  return result;
}

std::map<int, Sharding> planning::withWholeMatrices(const Problem &problem, std::map<int, Sharding> places) {
  for (auto [t, tensor] : llvm::enumerate(problem.tensors))
    if (tensor.role == Problem::Role::parameter && tensor.shape.size() > 1)
      places.try_emplace(t, Sharding(tensor.shape.size()));
  return places;
}

std::vector<std::vector<Pin>> planning::withSplitInputs(const Problem &problem, const Mesh &mesh,
                                                        const std::vector<Pin> &pins) {
  std::map<std::string, size_t> inputs; // their ranks
  for (const Problem::Tensor &tensor : problem.tensors)
    if (tensor.role == Problem::Role::input && !tensor.shape.empty() &&
        llvm::none_of(pins, [&](const Pin &pin) { return pin.name == tensor.name; }))
      inputs.emplace(tensor.name, tensor.shape.size());
  std::vector<std::vector<Pin>> result;
  if (mesh.axes.size() < 2 || inputs.size() > mostInputs)
    return result;
  for (const auto &[name, rank] : inputs)
    for (const auto &axis : mesh.axes) {
      Pin pin;
      pin.name = name;
      pin.dims.resize(rank);
      pin.dims[0].push_back(axis.name);
      result.push_back(pins);
      result.back().push_back(std::move(pin));
    }
  return result;
}

llvm::Expected<std::map<int, Sharding>> planning::placesOf(const Problem &problem, const Mesh &mesh,
                                                           const std::vector<Pin> &pins) {
  std::map<int, Sharding> result;
  if (pins.empty())
    return result;
  StrategyOptions options;
  options.pins = pins;
  options.pinsAlone = true;
  auto found = planByStrategy(problem, mesh, options);
  if (!found)
    return found.takeError();
  if (!found->plan)
    return llvm::createStringError("the sizes of what is pinned do not divide over the mesh");
  for (auto [t, tensor] : llvm::enumerate(problem.tensors))
    for (const Pin &pin : pins)
      if (tensor.name == pin.name)
        result[t] = found->plan->tensors[t];
  return result;
}
