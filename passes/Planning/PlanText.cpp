#include "passes/Planning/PlanText.h"

#include "dialects/Graph/Arguments.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Planning/Derivation.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

std::vector<OpKey> planning::keysOf(const ModuleProblem &problem) {
  llvm::StringMap<int64_t> unnamed;
  std::vector<OpKey> keys;
  for (Operation *op : problem.ops) {
    OpKey key{op->getParentOfType<func::FuncOp>().getName().str(), graph::nodeOf(op).str()};
    if (key.node.empty()) {
      key.node = op->getName().getStringRef().str();
      key.node += ":" + std::to_string(unnamed[key.text()]++);
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

/// The shardings that propagation derives from those of the tensors alone.
static Plan spreadPlaces(const ModuleProblem &problem, const Mesh &mesh, ArrayRef<Sharding> places) {
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
  return propagation.take();
}

namespace {
/// Writes a program's computation as a text. Attributes and types are written in full where they first occur, then by
/// number.
class ModelText {
public:
  explicit ModelText(llvm::raw_ostream &out) : out(out) {}

  void add(func::FuncOp function) {
    out << function.getName() << '\n';
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      addOnce(type);
      addAll(function_interface_impl::getArgAttrs(function, i));
    }
    for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
      addOnce(type);
      addAll(function_interface_impl::getResultAttrs(function, i));
    }
    if (!function.isDeclaration())
      add(function.getBody());
  }

private:
  void add(Region &region) {
    for (Block &block : region) {
      for (Value argument : block.getArguments())
        values.try_emplace(argument, values.size());
      for (Operation &op : block) {
        out << op.getName();
        for (Value operand : op.getOperands())
          out << ' ' << values.lookup(operand);
        addAll(op.getAttrs());
        for (Value result : op.getResults()) {
          values.try_emplace(result, values.size());
          addOnce(result.getType());
        }
        for (Region &inner : op.getRegions())
          add(inner);
        out << '\n';
      }
    }
  }

  void addAll(ArrayRef<NamedAttribute> attributes) {
    for (NamedAttribute attribute : attributes)
      if (StringRef name = attribute.getName(); name != graph::names::node && !name.starts_with("dist.")) {
        out << name << '=';
        addOnce(attribute.getValue());
      }
  }

  template <typename T> void addOnce(T value) {
    auto [it, fresh] = known.try_emplace(value.getAsOpaquePointer(), known.size());
    out << '#' << it->second << ' ';
    if (fresh)
      out << value << ' ';
  }

  llvm::raw_ostream &out;
  llvm::DenseMap<Value, size_t> values;
  llvm::DenseMap<const void *, size_t> known; // attributes and types
};
} // namespace

std::string planning::hashOfModel(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  ModelText model(out);
  for (auto function : module.getOps<func::FuncOp>())
    model.add(function);
  auto hash = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  return "sha256:" + llvm::toHex(ArrayRef<uint8_t>(hash).take_front(16), /*LowerCase=*/true);
}

NamedPad planning::nameOf(const ModuleProblem &problem, const PadRequest &request) {
  PadClass pads(problem.problem, request);
  for (auto [t, tensor] : llvm::enumerate(problem.problem.tensors))
    if (tensor.named())
      for (int dim : pads.dimsOf(t))
        return {{"", tensor.name}, 0, dim, request.parts};
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
    auto it = llvm::find_if(tensors, [&](const auto &tensor) { return tensor.named() && tensor.name == pad.of.node; });
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

/// For each tensor the parameter whose place it has unless a line says otherwise: of moments of the optimizer; else -1.
static std::vector<int> parametersOf(const ModuleProblem &problem) {
  const auto &tensors = problem.problem.tensors;
  llvm::StringMap<int> byName;
  for (auto [t, tensor] : llvm::enumerate(tensors))
    if (tensor.role == Problem::Role::parameter)
      byName.try_emplace(tensor.name, t);
  std::vector<int> result(tensors.size(), -1);
  for (auto [value, t] : problem.tensorOf) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
    auto state = function ? function.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), graph::names::state)
                          : DictionaryAttr();
    auto moment = state ? state.getAs<StringAttr>("moment") : StringAttr();
    StringRef name = tensors[t].name;
    if (!moment || !name.consume_back(moment.getValue()) || !name.consume_back("."))
      continue;
    if (auto it = byName.find(name); it != byName.end() && tensors[it->second].shape == tensors[t].shape)
      result[t] = it->second;
  }
  return result;
}

static ArrayAttr placementOf(Builder &builder, const Sharding &sharding, const Mesh &mesh) {
  SmallVector<Attribute> dims;
  for (const Axes &axes : sharding.dims)
    dims.push_back(axisNames(axes, mesh, builder.getContext()));
  return builder.getArrayAttr(dims);
}

namespace {
/// The decisions of a plan as numbers, equal ones with one number.
class Decisions {
public:
  int numberOf(Attribute decision) {
    auto [it, fresh] = numbers.try_emplace(decision, list.size());
    if (fresh)
      list.push_back(decision);
    return it->second;
  }
  template <typename T> T get(int number) const { return cast<T>(list[number]); }

private:
  llvm::DenseMap<Attribute, int> numbers;
  std::vector<Attribute> list;
};
} // namespace

static void writePlaces(OpBuilder &builder, ModuleOp module, const ModuleProblem &problem, const Plan &plan,
                        const Mesh &mesh) {
  std::vector<int> parameters = parametersOf(problem);
  llvm::StringSet<> placed;
  Decisions decisions;
  std::vector<NamedDecision> entries;
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      int t = problem.tensorOf.lookup(argument);
      const Problem::Tensor &tensor = problem.problem.tensors[t];
      if (tensor.name.empty() || !placed.insert(tensor.name).second)
        continue;
      Sharding usual = parameters[t] < 0 ? Sharding(tensor.shape.size()) : plan.tensors[parameters[t]];
      entries.push_back({{"", tensor.name},
                         decisions.numberOf(placementOf(builder, plan.tensors[t], mesh)),
                         !(plan.tensors[t] == usual)});
    }
  for (const auto &[key, decision] : groupDecisions(entries))
    PlaceOp::create(builder, builder.getUnknownLoc(), key.node, decisions.get<ArrayAttr>(decision));
}

static void writeSplits(OpBuilder &builder, const ModuleProblem &problem, const Plan &plan, const Mesh &mesh) {
  Plan spread = spreadPlaces(problem, mesh, plan.tensors);
  Derivation derivation(problem.problem, mesh, spread);
  std::vector<bool> needed(problem.ops.size());
  for (int op : derivation.order())
    needed[op] = !derivation.isFree(op) && derivation.of(op, plan.ops) != plan.ops[op];
  Decisions decisions;
  std::vector<NamedDecision> entries;
  for (auto [i, key] : llvm::enumerate(keysOf(problem))) {
    if (derivation.isFree(i))
      continue;
    SmallVector<NamedAttribute> factors;
    for (auto [factor, axes] : llvm::zip(problem.problem.ops[i].rule.factors, plan.ops[i]))
      if (!axes.empty())
        factors.push_back(builder.getNamedAttr(factor.name, axisNames(axes, mesh, builder.getContext())));
    entries.push_back({key, decisions.numberOf(builder.getDictionaryAttr(factors)), needed[i],
                       derivation.isLate(i)});
  }
  for (const auto &[key, decision] : groupDecisions(entries)) {
    auto function = key.function.empty() ? FlatSymbolRefAttr() : builder.getAttr<FlatSymbolRefAttr>(key.function);
    dist::SplitOp::create(builder, builder.getUnknownLoc(), function, builder.getStringAttr(key.node),
                          decisions.get<DictionaryAttr>(decision));
  }
}

void planning::writePlan(ModuleOp module, const PlanSubject &subject, const ModuleProblem &problem, const Plan &plan,
                         const Mesh &mesh, const Preparation &preparation) {
  MLIRContext *context = module.getContext();
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  Location loc = UnknownLoc::get(context);
  auto text = PlanOp::create(builder, loc, planFormat, subject.target, subject.model, toAttr(mesh, context));
  builder.setInsertionPointToStart(&text.getBody().emplaceBlock());
  for (const NamedRemat &part : preparation.remats)
    dist::RematOp::create(builder, loc, part.first, part.last);
  for (const NamedPad &pad : preparation.pads)
    if (pad.of.function.empty())
      dist::PadOp::create(builder, loc, pad.of.node, pad.dim, pad.parts);
    else
      dist::PadResultOp::create(builder, loc, pad.of.function, pad.of.node, pad.result, pad.dim, pad.parts);
  writePlaces(builder, module, problem, plan, mesh);
  writeSplits(builder, problem, plan, mesh);
}

std::string planning::noOperation(ArrayRef<OpKey> keys, const OpKey &wanted) {
  std::string where = wanted.function.empty() ? "" : " in @" + wanted.function;
  if (StringRef(wanted.node).contains('*'))
    return "no operation" + where + " matches '" + wanted.node + "', where each * is a number";
  std::string text = "there is no operation '" + wanted.node + "'" + where;
  StringRef path = StringRef(wanted.node).rsplit(':').first;
  std::vector<std::string> others;
  for (const OpKey &key : keys)
    if ((wanted.function.empty() || key.function == wanted.function) && StringRef(key.node).rsplit(':').first == path &&
        !llvm::is_contained(others, "'" + key.node + "'"))
      others.push_back("'" + key.node + "'");
  constexpr size_t shown = 4;
  if (others.empty())
    return text + ", and no other of that node: --emit train shows the identities (graph.node) of all operations";
  text += "; of that node there " + std::string(others.size() == 1 ? "is " : "are ");
  text += llvm::join(ArrayRef(others).take_front(shown), ", ");
  return text + (others.size() > shown ? " and others" : "");
}

/// For each name the line that decides for it: the most specific one that matches; null if none does. Fails with an
/// error at a line that matches nothing, has the name of another line, or is as specific as another one.
template <typename Line>
static FailureOr<std::vector<Line>> decidingLines(PlanOp text, const std::vector<OpKey> &keys,
                                                  llvm::function_ref<OpKey(Line)> keyOf, StringRef decided,
                                                  llvm::function_ref<std::string(const OpKey &)> missing) {
  NameIndex index(keys);
  std::vector<Line> result(keys.size()), rival(keys.size());
  llvm::StringSet<> seen;
  for (auto line : text.getOps<Line>()) {
    OpKey wanted = keyOf(line);
    std::vector<int> matches = index.matches(wanted);
    if (matches.empty())
      return line.emitError(missing(wanted));
    if (!seen.insert(wanted.text()).second)
      return line.emitError("'") << wanted.node << "' is " << decided << " by a line before this one: keep one of the two";
    for (int key : matches) {
      int before = result[key] ? index.openParts(keyOf(result[key])) : std::numeric_limits<int>::max();
      int now = index.openParts(wanted);
      if (now == before)
        rival[key] = line;
      else if (now < before)
        result[key] = line, rival[key] = {};
    }
  }
  for (auto [key, line, other] : llvm::zip(keys, result, rival))
    if (other)
      return other.emitError("'") << key.node << "' matches this line and '" << keyOf(line).node
                                  << "', and neither is more specific: give it a line of its own";
  return result;
}

/// The shardings of all tensors that have a name. Fails with an error at the line that cannot hold.
static FailureOr<std::vector<Sharding>> readPlaces(PlanOp text, const ModuleProblem &problem, const Mesh &mesh) {
  const auto &tensors = problem.problem.tensors;
  std::vector<OpKey> keys;
  for (const auto &tensor : tensors)
    keys.push_back({"", tensor.name});
  auto lines = decidingLines<PlaceOp>(
      text, keys, [](PlaceOp place) { return OpKey{"", place.getName().str()}; }, "placed",
      [](const OpKey &key) {
        return StringRef(key.node).contains('*')
                   ? "no input or state matches '" + key.node + "', where each * is a number"
                   : "there is no input or state '" + key.node + "'";
      });
  if (failed(lines))
    return failure();
  std::vector<Sharding> places;
  for (auto [tensor, line, ofModel] : llvm::zip(tensors, *lines, problem.types)) {
    Sharding &sharding = places.emplace_back(tensor.shape.size());
    if (!line)
      continue;
    auto error = [&, &name = tensor.name, place = line]() mutable { return place.emitError("'") << name << "'"; };
    if (line.getDims().size() != tensor.shape.size())
      return error() << " has " << tensor.shape.size() << " dimensions, not " << line.getDims().size() << ": it is "
                     << ofModel;
    for (auto [axes, dim] : llvm::zip(line.getDims().template getAsRange<ArrayAttr>(), sharding.dims))
      for (auto name : axes.template getAsRange<StringAttr>()) {
        auto axis = mesh.find(name.getValue());
        if (!axis || sharding.splits(*axis))
          return error() << (axis ? ": uses the axis " : ": the mesh has no axis ") << name << (axis ? " twice" : "");
        dim.push_back(*axis);
      }
    if (failed(localType(withSharding(cast<RankedTensorType>(ofModel), sharding, mesh), mesh,
                         [&] { return error() << ": "; })))
      return failure();
  }
  for (auto [t, parameter] : llvm::enumerate(parametersOf(problem)))
    if (parameter >= 0 && !(*lines)[t])
      places[t] = places[parameter];
  return places;
}

/// The axes of an operation's factors as a line says. Fails with an error at the line.
static FailureOr<FactorAxes> readFactors(dist::SplitOp line, const ShardingRule &rule, const Mesh &mesh,
                                         StringRef node) {
  auto error = [&] { return line.emitError("'") << node << "': "; };
  FactorAxes factors(rule.factors.size());
  for (NamedAttribute entry : line.getFactors()) {
    int factor = rule.indexOf(entry.getName());
    auto list = dyn_cast<ArrayAttr>(entry.getValue());
    if (factor < 0)
      return error() << "the operation has no factor " << entry.getName();
    if (!list)
      return error() << "expected a list of axes for factor " << entry.getName();
    for (Attribute name : list) {
      auto axis = isa<StringAttr>(name) ? mesh.find(cast<StringAttr>(name).getValue()) : std::nullopt;
      if (!axis)
        return error() << "the mesh has no axis " << name;
      factors[factor].push_back(*axis);
    }
  }
  if (!isValid(mesh, rule, factors))
    return error() << "the operation's sharding rule does not allow this split";
  return factors;
}

FailureOr<Plan> planning::readPlan(PlanOp text, const ModuleProblem &problem, const Mesh &mesh) {
  auto places = readPlaces(text, problem, mesh);
  if (failed(places))
    return failure();
  Plan plan = spreadPlaces(problem, mesh, *places);
  std::vector<OpKey> keys = keysOf(problem);
  auto lines = decidingLines<dist::SplitOp>(
      text, keys,
      [](dist::SplitOp split) { return OpKey{split.getFunction().value_or("").str(), split.getNode().str()}; }, "split",
      [&](const OpKey &key) { return noOperation(keys, key); });
  if (failed(lines))
    return failure();
  const Plan spread = plan;
  Derivation derivation(problem.problem, mesh, spread);
  for (int op : derivation.order()) {
    dist::SplitOp line = (*lines)[op];
    auto factors = line && !derivation.isFree(op) ? readFactors(line, problem.problem.ops[op].rule, mesh, keys[op].node)
                        : FailureOr<FactorAxes>(derivation.of(op, plan.ops));
    if (failed(factors))
      return failure();
    plan.ops[op] = std::move(*factors);
  }
  return plan;
}
