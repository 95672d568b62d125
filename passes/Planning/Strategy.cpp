#include "passes/Planning/Strategy.h"
#include "dialects/Dist/Sync.h"
#include "passes/Planning/WholeGroups.h"
#include "runtime/include/divisi/suggest.h"

#include "llvm/ADT/StringMap.h"

#include <numeric>
#include <set>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using llvm::ArrayRef;
using llvm::StringRef;
using Role = Problem::Role;

std::optional<Pin> planning::parsePin(StringRef text) {
  auto [name, list] = text.rsplit('=');
  if (name.empty() || name == text)
    return std::nullopt;
  Pin pin{name.trim().str(), {}};
  llvm::SmallVector<StringRef> dims, axes;
  if (!list.trim().empty())
    list.split(dims, ',');
  for (StringRef dim : dims) {
    auto &entry = pin.dims.emplace_back();
    if (dim.trim() == "_")
      continue;
    axes.clear();
    dim.split(axes, '+');
    for (StringRef axis : axes) {
      if (axis.trim().empty())
        return std::nullopt;
      entry.push_back(axis.trim().str());
    }
  }
  return pin;
}

llvm::Expected<std::vector<Pin>> planning::parsePins(ArrayRef<std::string> texts) {
  std::vector<Pin> pins;
  for (const std::string &text : texts) {
    auto pin = parsePin(text);
    if (!pin)
      return llvm::createStringError(
          "expects NAME=AXES,AXES,... with one entry per dimension, such as fc1.weight=_,model; got '" + text + "'");
    pins.push_back(std::move(*pin));
  }
  return pins;
}

namespace {

/// The largest padding of a dimension, as a share of its size.
constexpr double mostPadding = 0.25;

/// The names, each once, of tensors or axes.
template <typename Named> std::vector<std::string> namesOf(const Named &all) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const auto &one : all)
    if (!one.name.empty() && seen.insert(one.name).second)
      names.push_back(one.name);
  return names;
}

/// "data", and "data2", "data3", ... where stages have replicas of different numbers (meshOfStages).
bool isReplicaAxis(StringRef name) {
  return name.consume_front(replicaAxis) && llvm::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

/// Whether a factor of an operation occurs in a weight, and in other operands.
struct FactorUse {
  bool weight = false, others = false;
};
FactorUse useOf(const Problem &problem, const Problem::Op &op, int factor) {
  FactorUse use;
  for (auto [tensor, dims] : llvm::zip(op.operands, op.rule.operands))
    (problem.tensors[tensor].weight ? use.weight : use.others) |=
        llvm::any_of(dims, [&](const auto &list) { return llvm::is_contained(list, factor); });
  return use;
}

/// Whether an operation combines a weight with an activation: a contraction, or a lookup in a table.
bool combinesWeight(const Problem &problem, const Problem::Op &op) {
  bool weight = false, other = false;
  for (int tensor : op.operands)
    (problem.tensors[tensor].weight && !problem.tensors[tensor].shape.empty() ? weight : other) = true;
  bool contracts = llvm::any_of(op.rule.factors, [](const auto &factor) { return factor.reduction.has_value(); });
  return weight && other && contracts;
}

class StrategyPlanner {
public:
  StrategyPlanner(const Problem &problem, const Mesh &mesh, const StrategyOptions &options)
      : problem(problem), mesh(mesh), options(options), propagation(problem, mesh) {}

  /// All but what depends on the level of ZeRO. Returns the padding that is needed, if any.
  llvm::Expected<std::optional<PadRequest>> run() {
    for (auto [t, tensor] : llvm::enumerate(problem.tensors))
      if (tensor.named() && !options.pins.empty())
        byName[tensor.name].push_back((int)t);
    for (const Pin &pin : options.pins)
      if (std::string wrong = apply(pin); !wrong.empty())
        return llvm::createStringError(wrong);
    propagation.spread();
    if (options.pinsAlone)
      return std::nullopt;
    auto model = mesh.find("model");
    for (auto [i, axis] : llvm::enumerate(mesh.axes))
      if (isReplicaAxis(axis.name) && !pad)
        splitBatch((int)i);
    if (model && !pad)
      splitWeights(weightAxes(*model));
    return std::move(pad);
  }

  /// The plan of this level of ZeRO, if no padding is needed.
  Plan plan(int zero) const {
    Propagation further = propagation;
    if (auto data = mesh.find(replicaAxis); data && zero > 0 && !options.pinsAlone)
      splitStates(further, *data, zero);
    return further.take();
  }

private:
  /// An error text if the pin is not possible; else "".
  std::string apply(const Pin &pin) {
    std::string what = "pin '" + pin.name + "': ";
    std::set<std::string> used;
    for (const auto &axes : pin.dims)
      for (const std::string &axis : axes)
        if (!used.insert(axis).second)
          return what + "axis \"" + axis + "\" splits it twice";
    const auto named = byName.find(pin.name);
    if (named == byName.end())
      return what + "there is no input, parameter or other state of this name" + suggestion(pin.name, namesOf(problem.tensors));
    for (int t : named->second) {
      const Problem::Tensor &tensor = problem.tensors[t];
      if (pin.dims.size() != tensor.shape.size())
        return what + "names " + std::to_string(pin.dims.size()) + " dimensions, but it has " +
               std::to_string(tensor.shape.size());
      for (auto [d, axes] : llvm::enumerate(pin.dims))
        for (const std::string &name : axes) {
          auto axis = mesh.find(name);
          if (!axis)
            return what + "the mesh has no axis \"" + name + "\"" + suggestion(name, namesOf(mesh.axes));
          const Sharding &now = propagation.sharding(t);
          // the same state in another function is sharded already
          if (!propagation.split(t, d, *axis) && !llvm::is_contained(now.dims[d], *axis))
            return what + (now.splits(*axis)
                               ? "axis \"" + name + "\" splits it twice"
                               : "dimension " + std::to_string(d) + " of size " + std::to_string(tensor.shape[d]) +
                                     " does not divide over \"" + name + "\"");
        }
    }
    for (int t : named->second)
      propagation.fix(t);
    return "";
  }

  /// Requests padding if only the size prevents sharding along the axes. With `always` the amount of padding does not
  /// matter; otherwise it is limited by mostPadding.
  void wantPadding(int tensor, int dim, AxesRef axes, bool always) {
    const Sharding &sharding = propagation.sharding(tensor);
    int64_t size = problem.tensors[tensor].shape[dim], parts = mesh.parts(sharding.dims[dim]) * mesh.parts(axes);
    int64_t rest = size % parts == 0 ? 0 : parts - size % parts;
    bool worthIt = rest <= size * mostPadding || (always && parts <= size);
    bool splits = llvm::any_of(axes, [&](int axis) { return sharding.splits(axis); });
    if (!pad && rest > 0 && worthIt && !splits && !propagation.isFixed(tensor))
      pad = {tensor, dim, parts};
  }

  void splitBatch(int axis) {
    for (auto [tensor, dim] : problem.batchDims)
      if (!propagation.split(tensor, dim, axis))
        wantPadding(tensor, dim, axis, /*always=*/true);
    propagation.spread();
  }

  /// Whether an operand other than a weight is sharded along the factor by the axis.
  bool activationSplits(const Problem::Op &op, int factor, int axis) const {
    for (auto [tensor, dims] : llvm::zip(op.operands, op.rule.operands))
      if (!problem.tensors[tensor].weight &&
          llvm::is_contained(factorsOf(mesh, op.rule, dims, propagation.sharding(tensor))[factor], axis))
        return true;
    return false;
  }

  /// Requests padding of a weight's dimension that consists of this factor alone. The request is dropped if the class
  /// does not contain the factor: padding would then end before the operation, and would be requested again without
  /// end.
  void wantFactorPadding(int number, int factor, AxesRef axes) {
    const Problem::Op &op = problem.ops[number];
    for (auto [tensor, dims] : llvm::zip(op.operands, op.rule.operands))
      for (size_t d = 0; d < dims.size() && !pad; ++d)
        if (problem.tensors[tensor].weight && dims[d].size() == 1 && dims[d][0] == factor &&
            !op.rule.factors[factor].whole) {
          wantPadding(tensor, (int)d, axes, /*always=*/false);
          if (pad && !PadClass(problem, *pad).grows(number, factor))
            pad.reset();
        }
  }

  /// "model", and "inner" if it is the next axis.
  Axes weightAxes(int model) const {
    Axes axes = {model};
    if (model + 1 < (int)mesh.axes.size() && mesh.axes[model + 1].name == innerAxis)
      axes.push_back(model + 1);
    return axes;
  }

  /// The first of `axes` over which a factor of an operation keeps whole groups.
  AxesRef keepingGroups(const WholeGroups &groups, const Problem::Op &op, int factor, AxesRef axes) const {
    while (!axes.empty() && groups.of(op, factor) % mesh.parts(axes) != 0)
      axes = axes.drop_back();
    return axes;
  }

  /// Shards the weights in the order of the forward pass. The preferred factors are: rows if the activation is sharded
  /// along them already, whole groups (experts, groups of channels), tables, columns, and finally rows.
  void splitWeights(Axes axes) {
    std::optional<WholeGroups> groups;
    if (axes.size() > 1) {
      groups.emplace(problem);
      llvm::erase_if(axes, [&](int axis) { return mesh.axes[axis].size == 1; });
      if (axes.empty())
        return;
    }
    for (auto [t, tensor] : llvm::enumerate(problem.tensors))
      if (tensor.role == Role::input)
        propagation.fix(t);
    for (auto [i, op] : llvm::enumerate(problem.ops)) {
      if (!op.forward || !combinesWeight(problem, op))
        continue;
      auto isSplit = [&](const Axes &already) { return llvm::is_contained(already, axes[0]); };
      if (llvm::any_of(propagation.factors(i), isSplit))
        continue;
      llvm::SmallVector<int> order[5];
      bool done = false; // it stays whole where sharding it would cut groups
      for (auto [f, factor] : llvm::enumerate(op.rule.factors)) {
        FactorUse use = useOf(problem, op, f);
        if (!use.weight)
          continue;
        bool contracted = factor.reduction.has_value();
        int rank = contracted && activationSplits(op, f, axes[0]) ? 0
                   : !contracted && use.others                    ? 1
                   : factor.indexed                               ? 2
                   : !contracted                                  ? 3
                                                                  : 4;
        order[rank].push_back(f);
        done |= groups && rank == 3 && keepingGroups(*groups, op, f, axes).empty();
      }
      for (const auto &factors : order) { // a size that nearly divides comes before the factors of the next preference
        for (int factor : factors)
          done = done || split((int)i, factor, groups ? keepingGroups(*groups, op, factor, axes) : axes);
        for (int factor : factors)
          if (!done)
            wantFactorPadding((int)i, factor, groups ? keepingGroups(*groups, op, factor, axes) : axes);
        if (pad)
          return;
      }
      propagation.spread();
    }
  }

  /// Shards a factor over axes, if its size divides over all of them and its rule allows the first.
  bool split(int op, int factor, AxesRef axes) {
    if (axes.empty() || problem.ops[op].rule.factors[factor].size % mesh.parts(axes) != 0)
      return false;
    const bool first = propagation.splitFactor(op, factor, axes[0]);
    if (first && axes.size() > 1)
      propagation.splitFactor(op, factor, axes[1]);
    return first;
  }

  /// ZeRO (arXiv 1910.02054): shards optimizer state, and with stage 3 parameters, along the first dimension that
  /// divides.
  void splitStates(Propagation &propagation, int axis, int zero) const {
    for (auto [t, tensor] : llvm::enumerate(problem.tensors))
      if (tensor.role == Role::parameter && zero < 3)
        propagation.fix(t);
    for (auto [t, tensor] : llvm::enumerate(problem.tensors)) {
      bool wanted = tensor.role == Role::moment || (tensor.role == Role::parameter && zero >= 3);
      if (!wanted || propagation.sharding(t).splits(axis))
        continue;
      for (size_t d = 0; d < tensor.shape.size(); ++d)
        if (propagation.split(t, d, axis))
          break;
    }
    propagation.spread();
  }

  const Problem &problem;
  const Mesh &mesh;
  const StrategyOptions options;
  llvm::StringMap<llvm::SmallVector<int, 2>> byName; // tensors: a state has one in each function
  Propagation propagation;
  std::optional<PadRequest> pad; // the first size that does not divide
};
} // namespace

llvm::Expected<StrategyPlan> planning::planByStrategy(const Problem &problem, const Mesh &mesh,
                                                      const StrategyOptions &options) {
  StrategyPlanner planner(problem, mesh, options);
  auto pad = planner.run();
  if (!pad)
    return pad.takeError();
  return *pad ? StrategyPlan{{}, std::move(*pad)} : StrategyPlan{planner.plan(options.zero), {}};
}

std::function<Plan(int)> planning::plansByLevel(const Problem &problem, const Mesh &mesh, const std::vector<Pin> &pins) {
  auto planner = std::make_shared<StrategyPlanner>(problem, mesh, StrategyOptions{pins});
  if (auto pad = llvm::expectedToOptional(planner->run()); !pad || *pad)
    return {};
  return [planner](int zero) { return planner->plan(zero); };
}

std::vector<Mesh> planning::meshesForGroups(const Problem &problem, const Mesh &mesh) {
  const auto model = mesh.find("model");
  std::vector<Mesh> meshes;
  if (!model || mesh.find(innerAxis))
    return meshes;
  const int64_t devices = mesh.axes[*model].size;
  std::set<int64_t, std::greater<>> sizes;
  const WholeGroups groups(problem);
  for (const Problem::Op &op : problem.ops)
    for (size_t f = 0; op.forward && combinesWeight(problem, op) && f < op.rule.factors.size(); ++f)
      if (const int64_t count = groups.of(op, f);
          count % devices != 0 && !op.rule.factors[f].reduction && useOf(problem, op, f).weight)
        sizes.insert(std::gcd(count, devices));
  for (int64_t size : sizes) {
    if (size == 1)
      continue;
    Mesh &split = meshes.emplace_back(mesh);
    split.axes[*model].size = size;
    split.axes.insert(split.axes.begin() + *model + 1, {innerAxis.str(), devices / size});
  }
  return meshes;
}

std::optional<Plan> planning::planIfAny(const Problem &problem, const Mesh &mesh, const StrategyOptions &options) {
  auto found = llvm::expectedToOptional(planByStrategy(problem, mesh, options));
  return found ? std::move(found->plan) : std::nullopt;
}
