#include "dialects/Graph/Arguments.h"

#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace divisi;

template <typename AttrT> static AttrT attributeOf(BlockArgument argument, StringRef name) {
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return function.getArgAttrOfType<AttrT>(argument.getArgNumber(), name);
}

StringRef graph::nameOfArgument(BlockArgument argument) {
  if (auto state = attributeOf<DictionaryAttr>(argument, names::state))
    if (auto name = state.getAs<StringAttr>("name"))
      return name.getValue();
  for (StringRef kind : {names::parameter, names::buffer, names::input, names::scalar})
    if (auto name = attributeOf<StringAttr>(argument, kind))
      return name.getValue();
  return "";
}

StringRef graph::roleOf(BlockArgument argument) {
  auto state = attributeOf<DictionaryAttr>(argument, names::state);
  return state ? state.getAs<StringAttr>("role").getValue() : StringRef();
}

std::optional<unsigned> graph::findRenewal(func::FuncOp function, StringRef state) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto name = function.getResultAttrOfType<StringAttr>(i, names::renews); name && name.getValue() == state)
      return i;
  return std::nullopt;
}

bool graph::isScalar(BlockArgument argument, StringRef name) {
  auto scalar = attributeOf<StringAttr>(argument, names::scalar);
  return scalar && scalar.getValue() == name;
}

namespace {
constexpr StringRef roles[] = {"parameter", "buffer", "constant", "moment", "step", "seed", "scaling"};

bool isName(Attribute attr) {
  auto text = dyn_cast_or_null<StringAttr>(attr);
  return text && !text.empty();
}

/// Whether an attribute is an integer, such as an offset or a count.
bool isCount(Attribute attr) {
  auto count = dyn_cast<IntegerAttr>(attr);
  return count && count.getType().isSignlessInteger(64);
}

/// Whether an entry is absent or of this kind.
template <typename AttrT> bool mayBe(DictionaryAttr entries, StringRef key) {
  Attribute value = entries.get(key);
  return !value || isa<AttrT>(value);
}

bool isState(Attribute attr) {
  auto state = dyn_cast<DictionaryAttr>(attr);
  auto role = state ? state.getAs<StringAttr>("role") : StringAttr();
  return role && llvm::is_contained(roles, role.getValue()) && isName(state.get("name")) &&
         mayBe<StringAttr>(state, "of") && mayBe<BoolAttr>(state, "trainable") &&
         mayBe<DenseI64ArrayAttr>(state, "shape");
}

bool isReport(Attribute attr) {
  auto report = dyn_cast<DictionaryAttr>(attr);
  Attribute when = report ? report.get("when") : Attribute();
  Attribute shares = report ? report.get("shares") : Attribute();
  return report && isName(report.get("kind")) && mayBe<StringAttr>(report, "name") && (!when || isCount(when)) &&
         (!shares || isCount(shares));
}

bool isRange(Attribute attr) {
  if (auto dense = dyn_cast<DenseI64ArrayAttr>(attr))
    return dense.size() == 2;
  auto list = dyn_cast<ArrayAttr>(attr);
  return list && list.size() == 2 && llvm::all_of(list, isCount);
}

struct Form {
  StringRef name;
  bool (*holds)(Attribute);
  const char *expected;
};
const Form forms[] = {
    {graph::names::parameter, isName, "a name"},
    {graph::names::buffer, isName, "a name"},
    {graph::names::input, isName, "a name"},
    {graph::names::scalar, isName, "a name"},
    {graph::names::renews, isName, "a name"},
    {graph::names::output, isName, "a name"},
    {graph::names::state, isState, "{name, role, ...}, the role one of parameter, buffer, constant, moment, step, seed and scaling"},
    {graph::names::result, isReport, "{kind, name, when}"},
    {graph::names::microbatches, isCount, "a number"},
    {graph::names::unpadded, [](Attribute a) { return isa<DenseI64ArrayAttr>(a); }, "a list of sizes"},
    {graph::names::modelShape, [](Attribute a) { return isa<DenseI64ArrayAttr>(a); }, "a list of sizes"},
    {"graph.range", isRange, "two numbers"},
    {"graph.padding", isCount, "a number"},
};

/// Checks the attributes of one argument or result.
LogicalResult check(func::FuncOp function, DictionaryAttr attributes, const char *what, unsigned number) {
  for (const Form &form : forms)
    if (Attribute attr = attributes ? attributes.get(form.name) : Attribute(); attr && !form.holds(attr))
      return function.emitError(what) << " #" << number << ": '" << form.name << "' must be " << form.expected << ", got "
                                      << attr;
  return success();
}
} // namespace

LogicalResult graph::checkArguments(func::FuncOp function) {
  llvm::StringSet<> seen;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (failed(check(function, function.getArgAttrDict(i), "argument", i)))
      return failure();
    StringRef name = function.isDeclaration() ? "" : nameOfArgument(function.getArgument(i));
    if (!name.empty() && !seen.insert(name).second)
      return function.emitError("two arguments have the name '") << name << "'";
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    if (failed(check(function, function.getResultAttrDict(i), "result", i)))
      return failure();
    auto type = dyn_cast<RankedTensorType>(function.getResultTypes()[i]);
    if (function.getResultAttr(i, names::loss) && !(type && type.getRank() == 0 && isa<FloatType>(type.getElementType())))
      return function.emitError("result #") << i << ": '" << names::loss << "' must be a scalar of floating point, got "
                                            << function.getResultTypes()[i];
  }
  if (Attribute count = function->getAttr(names::microbatches); count && !isCount(count))
    return function.emitError("'") << names::microbatches << "' must be a number, got " << count;
  return success();
}
