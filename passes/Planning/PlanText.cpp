#include "passes/Planning/PlanText.h"

#include "dialects/Graph/Nodes.h"
#include "passes/Planning/Propagation.h"

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
    dist::SplitOp::create(builder, loc, key.function, key.node, builder.getDictionaryAttr(factors));
  }
}

std::string planning::noOperation(ArrayRef<OpKey> keys, const OpKey &wanted) {
  std::string text = "there is no operation '" + wanted.node + "' in @" + wanted.function;
  StringRef path = StringRef(wanted.node).rsplit(':').first;
  std::vector<std::string> others;
  for (const OpKey &key : keys)
    if (key.function == wanted.function && StringRef(key.node).rsplit(':').first == path)
      others.push_back("'" + key.node + "'");
  constexpr size_t shown = 4;
  if (others.empty())
    return text + ", and no other of that node: --emit train shows the identities (graph.node) of all operations";
  text += "; of that node there " + std::string(others.size() == 1 ? "is " : "are ");
  text += llvm::join(ArrayRef(others).take_front(shown), ", ");
  return text + (others.size() > shown ? " and others" : "");
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
  std::vector<OpKey> keys = keysOf(problem);
  for (auto [i, key] : llvm::enumerate(keys))
    numbers[key.text()] = i;
  for (auto split : text.getOps<dist::SplitOp>()) {
    OpKey key{split.getFunction().str(), split.getNode().str()};
    auto it = numbers.find(key.text());
    if (it == numbers.end())
      return split.emitError(noOperation(keys, key));
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
      return split.emitError("'") << key.node << "' is split by a line before this one: keep one of the two";
    plan.ops[it->second] = factors;
  }
  return plan;
}
