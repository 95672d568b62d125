#include "passes/Planning/Search/Planner.h"

#include "passes/Planning/Search/SearchSpace.h"

#include "llvm/Support/Parallel.h"

#include <cmath>
#include <functional>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

namespace {

/// The shares of the gradients' communication that searches take to be hidden, on every mesh and on the best ones
/// again: the prediction decides among the plans.
constexpr double firstShare[] = {0.5}, moreShares[] = {0, 0.8}, allShares[] = {0.5, 0, 0.8};
constexpr size_t refined = 2;    // meshes
constexpr size_t mostInputs = 4; // that strategies try split over each axis
/// Plans from other beginnings are taken only if they are faster by these shares: below them, what the search found is
/// as good, and easier to understand. Of strategies, which somebody could write by hand, and of searches.
constexpr double clearlyByHand = 0.002, clearlyBySearch = 0.01;
/// How often a search is repeated with less memory, where the prediction needs more than the search believed.
constexpr int mostAttempts = 5;

Mesh meshOf(const char *axis, int64_t devices) {
  Mesh mesh;
  mesh.axes.push_back({axis, devices});
  return mesh;
}

Plan unsplit(const Problem &problem) {
  Plan plan;
  for (const auto &tensor : problem.tensors)
    plan.tensors.emplace_back(tensor.shape.size());
  for (const auto &op : problem.ops)
    plan.ops.emplace_back(op.rule.factors.size());
  return plan;
}

/// How the training step leaves its values and the named tensors, as pins for a search of the rest.
std::map<int, Sharding> placesOf(const Problem &problem, const Mesh &mesh, const Plan &plan) {
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

/// The states as a plan lays them, and the inputs that a user has pinned, as pins for a search.
std::map<int, Sharding> statesOf(const Problem &problem, const Plan &plan, const std::vector<Pin> &pins) {
  std::map<int, Sharding> result;
  for (auto [t, tensor] : llvm::enumerate(problem.tensors)) {
    bool pinned = llvm::any_of(pins, [&, &name = tensor.name](const Pin &pin) { return pin.name == name; });
    if (tensor.named() && (tensor.role != Problem::Role::input || pinned))
      result[t] = plan.tensors[t];
  }
  return result;
}

/// Matrices of parameters whole, but for what is pinned already.
std::map<int, Sharding> withWholeMatrices(const Problem &problem, std::map<int, Sharding> places) {
  for (auto [t, tensor] : llvm::enumerate(problem.tensors))
    if (tensor.role == Problem::Role::parameter && tensor.shape.size() > 1)
      places.try_emplace(t, Sharding(tensor.shape.size()));
  return places;
}

/// Pins with one more: an input whose first dimension is over one of several axes.
std::vector<std::vector<Pin>> withSplitInputs(const Problem &problem, const Mesh &mesh, const std::vector<Pin> &pins) {
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

/// The shardings that pins ask for; an error if one cannot hold.
std::optional<std::map<int, Sharding>> placesOf(const Problem &problem, const Mesh &mesh, const std::vector<Pin> &pins,
                                                std::string &error) {
  std::map<int, Sharding> result;
  if (pins.empty())
    return result;
  StrategyOptions options;
  options.pins = pins;
  Mesh silent = mesh; // without the axes that strategies split over
  std::optional<PadRequest> pad;
  for (auto &axis : silent.axes)
    axis.name = "pinned." + axis.name;
  for (Pin &pin : options.pins)
    for (auto &axes : pin.dims)
      for (std::string &axis : axes)
        axis = "pinned." + axis;
  auto plan = planByStrategy(problem, silent, options, error, pad);
  if (!plan) {
    if (size_t prefix = error.find("pinned."); prefix != std::string::npos)
      error.erase(prefix, 7);
    return std::nullopt;
  }
  for (auto [t, tensor] : llvm::enumerate(problem.tensors))
    for (const Pin &pin : pins)
      if (tensor.name == pin.name)
        result[t] = plan->tensors[t];
  return result;
}

/// Whether a search finds the same as on another of the meshes, where the names of the axes are exchanged.
bool hasNamesExchanged(const Mesh &mesh, const PlannerOptions &options) {
  return mesh.axes[0].name == "model" && options.meshes.size() > 1;
}

using Task = std::function<std::vector<Candidate>()>;

std::vector<Candidate> inParallel(const std::vector<Task> &tasks) {
  std::vector<std::vector<Candidate>> answers(tasks.size());
  llvm::parallelFor(0, tasks.size(), [&](size_t i) { answers[i] = tasks[i](); });
  std::vector<Candidate> result;
  for (std::vector<Candidate> &found : answers)
    std::move(found.begin(), found.end(), std::back_inserter(result));
  return result;
}

bool isClearlyBetter(const Candidate &other, const Candidate &best) {
  double share = std::isfinite(other.searchCost) ? clearlyBySearch : clearlyByHand;
  return isBetter(other, best) && (!best.fits || other.prediction.seconds < best.prediction.seconds * (1 - share));
}

/// Of several searches of one mesh, the best stays.
void keepBestSearches(std::vector<Candidate> &candidates) {
  std::map<std::string, size_t> best;
  for (auto [i, candidate] : llvm::enumerate(candidates))
    if (auto [it, fresh] = best.try_emplace(candidate.name, i); !fresh && isBetter(candidate, candidates[it->second]))
      it->second = i;
  std::vector<Candidate> kept;
  for (auto [i, candidate] : llvm::enumerate(candidates))
    if (best.at(candidate.name) == i)
      kept.push_back(std::move(candidate));
  candidates = std::move(kept);
}
} // namespace

std::string planning::nameOf(const Mesh &mesh) {
  std::string text;
  for (const auto &axis : mesh.axes)
    text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

bool planning::isBetter(const Candidate &a, const Candidate &b) {
  if (a.fits != b.fits)
    return a.fits;
  if ((a.measured > 0) != (b.measured > 0))
    return a.measured > 0;
  auto rank = [](const Candidate &c) {
    return !c.fits ? c.prediction.memory.total() : c.measured > 0 ? c.measured : c.prediction.seconds;
  };
  if (rank(a) != rank(b))
    return rank(a) < rank(b);
  if (a.mesh.devices() != b.mesh.devices())
    return a.mesh.devices() < b.mesh.devices();
  return !a.searched && b.searched;
}

Planner::Planner(Problem what, Cluster where)
    : problem(std::move(what)), cluster(std::move(where)), step(problem, /*evaluation=*/false),
      rest(problem, /*evaluation=*/true) {}

Candidate Planner::price(const Cluster &on, const Mesh &mesh, Plan plan, std::string name) const {
  Expansion expansion = expand(problem, mesh, plan);
  return price(on, mesh, std::move(plan), std::move(name), expansion);
}

Candidate Planner::price(const Cluster &on, const Mesh &mesh, Plan plan, std::string name,
                         const Expansion &expansion) const {
  Candidate result{std::move(name), mesh, std::move(plan), {}};
  result.prediction = predict(problem, step, CostModel(on, mesh), result.plan, expansion);
  result.fits = result.prediction.memory.total() <= on.device.memory;
  return result;
}

Candidate Planner::search(const Mesh &mesh, const std::map<int, Sharding> &places, llvm::ArrayRef<double> shares,
                          bool certify) const {
  CostModel costs(cluster, mesh);
  SearchSpace space(problem, step, costs, places);
  SolveOptions effort;
  effort.certify = certify;
  std::optional<Candidate> best;
  double unforeseen = 0; // memory that predictions need beyond what the search counts
  for (double hidden : shares) {
    space.hide(hidden);
    for (int attempt = 0; attempt < mostAttempts; ++attempt) {
      space.pairwise.capacity = cluster.device.memory - unforeseen;
      Solution solution = solve(space.pairwise, effort);
      Plan plan = unsplit(problem);
      space.decide(solution.choice, plan);
      Candidate found = price(cluster, mesh, std::move(plan), "auto " + nameOf(mesh));
      found.searched = true;
      found.hidden = hidden;
      found.searchCost = solution.cost * 1e-6;
      found.bound = certify && std::isfinite(solution.bound) ? solution.bound * 1e-6 : 0;
      unforeseen = std::max(unforeseen, found.prediction.memory.total() - solution.memory);
      bool settled = found.fits || solution.infeasible || unforeseen >= cluster.device.memory;
      if (!best || isBetter(found, *best))
        best = std::move(found);
      if (settled)
        break;
    }
  }
  best->forms = recognize(problem, mesh, best->plan);
  return std::move(*best);
}

Candidate Planner::search(const Mesh &mesh, const std::map<int, Sharding> &places) const {
  return search(mesh, places, firstShare, /*certify=*/false);
}

std::vector<Candidate> Planner::candidates(const PlannerOptions &options, std::string &error) const {
  std::vector<Task> tasks;
  if (options.alone && options.pins.empty())
    tasks.push_back([&] { return std::vector{price(cluster, meshOf("data", 1), unsplit(problem), "one device")}; });
  bool thorough = options.thorough && problem.ops.size() <= mostThorough;
  auto follow = [&](Mesh mesh, int zero) {
    tasks.push_back([&, mesh, zero]() -> std::vector<Candidate> {
      std::optional<PadRequest> pad;
      std::string ignored;
      auto plan = planByStrategy(problem, mesh, {options.pins, zero}, ignored, pad);
      if (!plan)
        return {};
      std::vector<Candidate> found = {
          price(cluster, mesh, *plan, nameOf(mesh) + (zero ? " zero=" + std::to_string(zero) : ""))};
      found[0].forms = recognize(problem, mesh, *plan);
      if (thorough)
        found.push_back(search(mesh, statesOf(problem, *plan, options.pins)));
      return found;
    });
  };
  for (const Mesh &mesh : options.meshes) {
    bool exchanged = hasNamesExchanged(mesh, options);
    if (exchanged && !thorough)
      continue;
    auto places = placesOf(problem, mesh, options.pins, error);
    if (!places)
      continue; // pins may name axes that only other meshes have
    if (!exchanged || !options.pins.empty())
      tasks.push_back([&, places = *places] { return std::vector{search(mesh, places)}; });
    if (mesh.axes.size() > 1 && options.meshes.size() > 1 && !thorough)
      continue;
    for (int zero : {0, 1, 3}) // (2 is the same plan as 1)
      if (zero == 0 || mesh.find("data"))
        follow(mesh, zero);
    if (mesh.axes.size() == 1 && mesh.axes[0].name != "model")
      follow(meshOf("model", mesh.devices()), 0);
  }
  std::vector<Candidate> result = inParallel(tasks);
  keepBestSearches(result);
  if (options.thorough)
    refine(options.pins, result);
  if (!thorough || result.empty())
    return result;
  const Candidate best = *std::min_element(result.begin(), result.end(), isBetter);
  for (Candidate &other : otherBeginnings(options))
    if (isClearlyBetter(other, best))
      result.push_back(std::move(other));
  keepBestSearches(result);
  return result;
}

std::vector<Candidate> Planner::otherBeginnings(const PlannerOptions &options) const {
  std::vector<Task> tasks;
  for (const Mesh &mesh : options.meshes) {
    std::string ignored;
    auto places = placesOf(problem, mesh, options.pins, ignored);
    if (!places || hasNamesExchanged(mesh, options))
      continue;
    tasks.push_back([&, whole = withWholeMatrices(problem, std::move(*places))] {
      return std::vector{search(mesh, whole, allShares, /*certify=*/false)};
    });
    for (std::vector<Pin> &pins : withSplitInputs(problem, mesh, options.pins))
      tasks.push_back([&, pins = std::move(pins)] { return strategies(mesh, pins); });
  }
  return inParallel(tasks);
}

std::vector<Candidate> Planner::strategies(const Mesh &mesh, const std::vector<Pin> &pins) const {
  std::vector<Candidate> found;
  std::string ignored;
  for (int zero : {0, 1, 3}) {
    std::optional<PadRequest> pad;
    auto plan = planByStrategy(problem, mesh, {pins, zero}, ignored, pad);
    if (!plan)
      continue;
    found.push_back(price(cluster, mesh, *plan, "auto " + nameOf(mesh)));
    found.back().forms = recognize(problem, mesh, *plan);
    found.back().searched = true;
    found.back().hidden = firstShare[0];
    found.back().searchCost = std::numeric_limits<double>::infinity(); // of no search
  }
  return found;
}

void Planner::refine(const std::vector<Pin> &pins, std::vector<Candidate> &candidates) const {
  std::vector<Candidate *> searched;
  for (Candidate &candidate : candidates)
    if (candidate.searched)
      searched.push_back(&candidate);
  std::stable_sort(searched.begin(), searched.end(), [](auto *a, auto *b) { return isBetter(*a, *b); });
  searched.resize(std::min(searched.size(), refined));
  llvm::parallelFor(0, searched.size(), [&](size_t i) {
    std::string ignored;
    auto places = placesOf(problem, searched[i]->mesh, pins, ignored);
    Candidate other = search(searched[i]->mesh, *places, moreShares, /*certify=*/false);
    if (isBetter(other, *searched[i]))
      *searched[i] = std::move(other);
  });
}

void Planner::certify(const std::vector<Pin> &pins, Candidate &candidate) const {
  std::string ignored;
  auto places = placesOf(problem, candidate.mesh, pins, ignored);
  Candidate found = search(candidate.mesh, *places, candidate.hidden, /*certify=*/true);
  if (isBetter(candidate, found)) {
    candidate.searchCost = std::min(candidate.searchCost, found.searchCost);
    candidate.bound = found.bound;
  } else {
    candidate = std::move(found);
  }
}

void Planner::complete(Candidate &candidate) const {
  if (!candidate.searched)
    return;
  CostModel costs(cluster, candidate.mesh);
  SearchSpace space(problem, rest, costs, placesOf(problem, candidate.mesh, candidate.plan));
  SolveOptions effort;
  effort.certify = false;
  space.decide(solve(space.pairwise, effort).choice, candidate.plan);
}

/// Whether an operation reads a part of the batch.
static bool splitsBatch(const Problem &problem, const Mesh &mesh, const Plan &plan, int axis) {
  for (auto [op, factors] : llvm::zip(problem.ops, plan.ops))
    for (auto [i, t] : llvm::enumerate(op.operands))
      for (auto [tensor, dim] : problem.batchDims)
        if (tensor == t && !op.forward && llvm::is_contained(operandSharding(op, mesh, factors, i).dims[dim], axis))
          return true;
  return false;
}

/// Bytes of parameters that operations read split by the axis, as they lie; apart from these, whether the split is
/// along a factor that other operands and the result have, too (experts, not rows or columns).
static std::pair<double, bool> usedInPlace(const Problem &problem, const Mesh &mesh, const Plan &plan, int axis) {
  double bytes = 0;
  bool experts = false;
  for (auto [op, factors] : llvm::zip(problem.ops, plan.ops)) {
    if (op.forward || op.seldom ||
        !llvm::any_of(op.rule.factors, [](const auto &f) { return f.reduction.has_value(); }))
      continue;
    for (auto [i, t] : llvm::enumerate(op.operands)) {
      if (!problem.tensors[t].weight || !operandSharding(op, mesh, factors, i).splits(axis))
        continue;
      bytes += problem.tensors[t].bytes();
      auto has = [axis = axis, &factors = factors](const ShardingRule::Dims &dims) {
        return llvm::any_of(dims, [&](const auto &list) {
          return llvm::any_of(list, [&](int f) { return llvm::is_contained(factors[f], axis); });
        });
      };
      experts |= op.operands.size() == 2 && has(op.rule.operands[1 - i]) && has(op.rule.results[0]);
    }
  }
  return {bytes, experts};
}

std::vector<std::string> planning::recognize(const Problem &problem, const Mesh &mesh, const Plan &plan) {
  std::vector<std::string> result;
  auto add = [&](const std::string &name) {
    if (!llvm::is_contained(result, name))
      result.push_back(name);
  };
  using Role = Problem::Role;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (mesh.axes[a].size == 1)
      continue;
    double split[2] = {}, all[2] = {}; // parameters and moments
    for (auto [t, tensor] : llvm::enumerate(problem.tensors))
      if (tensor.role == Role::parameter || tensor.role == Role::moment) {
        int kind = tensor.role == Role::moment;
        all[kind] += tensor.bytes();
        split[kind] += plan.tensors[t].splits(a) ? tensor.bytes() : 0;
      }
    auto [inPlace, experts] = usedInPlace(problem, mesh, plan, a);
    bool tensor = inPlace > 0.25 * all[0], batch = splitsBatch(problem, mesh, plan, a);
    if (tensor)
      add(experts ? "expert" : "tensor");
    if (!tensor && split[0] > 0.5 * all[0])
      add("ZeRO-3");
    else if (!tensor && split[1] > 0.5 * all[1])
      add("ZeRO-1");
    else if (batch)
      add("data");
    else if (!tensor && llvm::any_of(plan.ops, [&](const FactorAxes &factors) {
               return llvm::any_of(factors, [&](const Axes &axes) { return llvm::is_contained(axes, (int)a); });
             }))
      add("sequence");
  }
  return result;
}
