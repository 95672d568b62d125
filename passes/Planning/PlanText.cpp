#include "passes/Planning/PlanText.h"

#include "passes/Planning/Propagation.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

std::vector<OpKey> planning::keysOf(const ModuleProblem &problem) {
  llvm::StringMap<int64_t> seen;
  std::vector<OpKey> keys;
  for (Operation *op : problem.ops) {
    OpKey key{op->getParentOfType<func::FuncOp>().getName().str(), op->getName().getStringRef().str(),
              nameOfLocation(op->getLoc())};
    key.index = seen[key.text()]++;
    keys.push_back(std::move(key));
  }
  return keys;
}

/// What follows from places alone.
static Propagation spreadPlaces(const ModuleProblem &problem, const Mesh &mesh, ArrayRef<Sharding> places) {
  Propagation propagation(problem.problem, mesh);
  for (auto [t, tensor] : llvm::enumerate(problem.problem.tensors)) {
    if (tensor.name.empty())
      continue;
    for (auto [d, axes] : llvm::enumerate(places[t].dims))
      for (int axis : axes)
        propagation.split(t, d, axis);
  }
  for (auto [t, tensor] : llvm::enumerate(problem.problem.tensors))
    if (!tensor.name.empty())
      propagation.fix(t);
  propagation.spread();
  return propagation;
}

std::string planning::hashOfModel(ModuleOp module) {
  uint64_t hash = 0xcbf29ce484222325u;
  auto add = [&](const Twine &text) {
    for (unsigned char c : text.str())
      hash = (hash ^ c) * 0x100000001b3u;
  };
  auto addType = [&](Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    add(text + ";");
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    add(function.getName());
    for (Type type : function.getArgumentTypes())
      addType(type);
    if (function.isDeclaration())
      continue;
    for (Operation &op : function.getBody().front()) {
      add(op.getName().getStringRef() + "@" + nameOfLocation(op.getLoc()));
      for (Type type : op.getResultTypes())
        addType(type);
    }
  }
  return "fnv1a64:" + llvm::utohexstr(hash, /*LowerCase=*/true, 16);
}

NamedPad planning::nameOf(const ModuleProblem &problem, const PadRequest &request) {
  PadClass pads(problem.problem, request);
  for (auto [t, tensor] : llvm::enumerate(problem.problem.tensors))
    if (tensor.named())
      for (int dim : pads.dimsOf(t))
        return {{"", "", tensor.name}, 0, dim, request.parts};
  for (auto [op, key] : llvm::zip(problem.problem.ops, keysOf(problem)))
    for (auto [i, tensor] : llvm::enumerate(op.results))
      for (int dim : pads.dimsOf(tensor))
        return {key, (int64_t)i, dim, request.parts};
  llvm_unreachable("a size that does not divide is a dimension of a state, an input or a result");
}

std::optional<PadRequest> planning::requestOf(const ModuleProblem &problem, const NamedPad &pad) {
  int found = -1;
  if (pad.of.function.empty()) {
    const auto &tensors = problem.problem.tensors;
    auto it = llvm::find_if(tensors, [&](const auto &tensor) { return tensor.named() && tensor.name == pad.of.name; });
    found = it == tensors.end() ? -1 : it - tensors.begin();
  } else {
    for (auto [op, key] : llvm::zip(problem.problem.ops, keysOf(problem)))
      if (key.text() == pad.of.text() && pad.result >= 0 && pad.result < (int64_t)op.results.size())
        found = op.results[pad.result];
  }
  if (found < 0 || pad.dim < 0 || pad.dim >= (int64_t)problem.problem.tensors[found].shape.size() || pad.parts < 1 ||
      pad.parts > 4096)
    return std::nullopt;
  return PadRequest{found, (int)pad.dim, pad.parts};
}

void planning::writePlan(ModuleOp module, const std::string &hash, const ModuleProblem &problem, const Plan &plan,
                         const Mesh &mesh, const Preparation &preparation) {
  MLIRContext *context = module.getContext();
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  Location loc = UnknownLoc::get(context);
  auto text = PlanOp::create(builder, loc, hash, toAttr(mesh, context));
  builder.setInsertionPointToStart(&text.getBody().emplaceBlock());
  for (const NamedRemat &part : preparation.remats)
    dist::RematOp::create(builder, loc, part.first, part.last);
  for (const NamedPad &pad : preparation.pads)
    if (pad.of.function.empty())
      dist::PadOp::create(builder, loc, pad.of.name, pad.dim, pad.parts);
    else
      dist::PadResultOp::create(builder, loc, pad.of.function, pad.of.kind, pad.of.name, pad.of.index, pad.result,
                                pad.dim, pad.parts);
  llvm::StringSet<> placed;
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      int t = problem.tensorOf.lookup(argument);
      const std::string &name = problem.problem.tensors[t].name;
      if (name.empty() || !placed.insert(name).second)
        continue;
      auto type = withSharding(cast<RankedTensorType>(argument.getType()), plan.tensors[t], mesh);
      PlaceOp::create(builder, loc, name, type);
    }
  Propagation follows = spreadPlaces(problem, mesh, plan.tensors);
  for (auto [i, key] : llvm::enumerate(keysOf(problem))) {
    if (follows.factors(i) == plan.ops[i])
      continue;
    SmallVector<NamedAttribute> factors;
    for (auto [factor, axes] : llvm::zip(problem.problem.ops[i].rule.factors, plan.ops[i]))
      if (!axes.empty())
        factors.push_back(builder.getNamedAttr(factor.name, axisNames(axes, mesh, context)));
    dist::SplitOp::create(builder, loc, key.function, key.kind, key.name, key.index,
                          builder.getDictionaryAttr(factors));
  }
}

FailureOr<Plan> planning::readPlan(PlanOp text, const ModuleProblem &problem, const Mesh &mesh) {
  std::vector<Sharding> places;
  for (const auto &tensor : problem.problem.tensors)
    places.emplace_back(tensor.shape.size());
  llvm::StringSet<> seen;
  for (auto place : text.getOps<PlaceOp>()) {
    if (place.getName().empty())
      return place.emitError("there is no input or state ''");
    if (!seen.insert(place.getName()).second)
      return place.emitError("'") << place.getName() << "' has a place already";
    auto type = dyn_cast<RankedTensorType>(place.getType());
    if (!type || failed(localType(type, mesh, [&] { return place.emitError("'") << place.getName() << "': "; })))
      return type ? failure() : place.emitError("expected a tensor type");
    if (auto shard = shardOf(type); shard && !shard.getPending().empty())
      return place.emitError("'") << place.getName() << "' may not be pending";
    bool found = false;
    for (auto [t, tensor] : llvm::enumerate(problem.problem.tensors)) {
      if (tensor.name != place.getName())
        continue;
      found = true;
      auto known = cast<RankedTensorType>(problem.types[t]);
      if (type.getShape() != known.getShape() || known.getElementType() != type.getElementType() ||
          (type.getEncoding() && !shardOf(type)))
        return place.emitError("'") << place.getName() << "' is " << known << " in the model, not " << type;
      places[t] = toSharding(type, mesh);
    }
    if (!found)
      return place.emitError("there is no input or state '") << place.getName() << "'";
  }
  Plan plan = spreadPlaces(problem, mesh, places).take();
  llvm::StringMap<int> numbers;
  for (auto [i, key] : llvm::enumerate(keysOf(problem)))
    numbers[key.text()] = i;
  for (auto split : text.getOps<dist::SplitOp>()) {
    OpKey key{split.getFunction().str(), split.getKind().str(), split.getName().str(), (int64_t)split.getIndex()};
    auto it = numbers.find(key.text());
    if (it == numbers.end())
      return split.emitError("there is no such operation: number ")
             << key.index << " of '" << split.getKind() << "' at '" << split.getName() << "' in @"
             << split.getFunction();
    const ShardingRule &rule = problem.problem.ops[it->second].rule;
    FactorAxes factors(rule.factors.size());
    for (NamedAttribute entry : split.getFactors()) {
      int factor = rule.indexOf(entry.getName());
      auto list = dyn_cast<ArrayAttr>(entry.getValue());
      if (factor < 0)
        return split.emitError("the operation has no factor ") << entry.getName();
      if (!list)
        return split.emitError("expected a list of axes for factor ") << entry.getName();
      for (Attribute name : list) {
        auto axis = isa<StringAttr>(name) ? mesh.find(cast<StringAttr>(name).getValue()) : std::nullopt;
        if (!axis)
          return split.emitError("the mesh has no axis ") << name;
        factors[factor].push_back(*axis);
      }
    }
    if (!isValid(mesh, rule, factors))
      return split.emitError("the operation's sharding rule does not allow this split");
    if (!seen.insert("split " + key.text()).second)
      return split.emitError("this operation is split twice");
    plan.ops[it->second] = factors;
  }
  return plan;
}
