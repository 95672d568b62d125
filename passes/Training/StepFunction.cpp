#include "passes/Training/StepFunction.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::training;
namespace names = divisi::graph::names;

StepFunction::StepFunction(OpBuilder &builder, Location loc, StringRef name) : builder(builder) {
  function = func::FuncOp::create(builder, loc, name, builder.getFunctionType({}, {}));
  function.getBody().emplaceBlock();
}

Value StepFunction::addArgument(Type type, DictionaryAttr attributes, Location loc) {
  arguments.push_back(attributes);
  for (StringRef kind : {names::input, names::scalar})
    if (auto name = attributes.getAs<StringAttr>(kind))
      taken.insert(name.getValue());
  return getBody().addArgument(type, loc);
}

Value StepFunction::addState(Type type, StringRef name, StringRef role, Location loc, ArrayRef<NamedAttribute> more) {
  std::string unique = name.str();
  while (!taken.insert(unique).second)
    unique += "~";
  SmallVector<NamedAttribute> entries(more);
  entries.push_back(builder.getNamedAttr("name", builder.getStringAttr(unique)));
  entries.push_back(builder.getNamedAttr("role", builder.getStringAttr(role)));
  NamedAttribute state = builder.getNamedAttr(names::state, builder.getDictionaryAttr(entries));
  return addArgument(type, builder.getDictionaryAttr(state), loc);
}

StringAttr StepFunction::nameOf(Value state) const {
  DictionaryAttr attributes = arguments[cast<BlockArgument>(state).getArgNumber()];
  return attributes.getAs<DictionaryAttr>(names::state).getAs<StringAttr>("name");
}

void StepFunction::addResult(Value value, StringRef attribute, Attribute attributeValue) {
  results.push_back(builder.getDictionaryAttr(builder.getNamedAttr(attribute, attributeValue)));
  values.push_back(value);
}

void StepFunction::addReport(Value value, StringRef kind, ArrayRef<NamedAttribute> more) {
  SmallVector<NamedAttribute> entries(more);
  entries.push_back(builder.getNamedAttr("kind", builder.getStringAttr(kind)));
  addResult(value, names::result, builder.getDictionaryAttr(entries));
}

void StepFunction::finish() {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&getBody());
  func::ReturnOp::create(builder, function.getLoc(), values);
  function.setType(builder.getFunctionType(getBody().getArgumentTypes(), TypeRange(ValueRange(values))));
  function.setAllArgAttrs(arguments);
  function.setAllResultAttrs(results);
}

void training::addModelArguments(StepFunction &step, func::FuncOp loss, IRMapping &mapping) {
  Builder builder(loss.getContext());
  for (BlockArgument argument : loss.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto text = [&](StringRef attribute) { return loss.getArgAttrOfType<StringAttr>(i, attribute); };
    Value value;
    if (auto name = text(names::parameter)) {
      bool trains = !loss.getArgAttr(i, names::frozen);
      SmallVector<NamedAttribute> more = {builder.getNamedAttr("trainable", builder.getBoolAttr(trains))};
      if (Attribute shape = loss.getArgAttr(i, names::modelShape))
        more.push_back(builder.getNamedAttr("shape", shape));
      value = step.addState(argument.getType(), name, "parameter", argument.getLoc(), more);
    } else if (auto name = text(names::buffer)) {
      value = step.addState(argument.getType(), name, "buffer", argument.getLoc());
    } else { // inputs and scalars keep their attributes
      value = step.addArgument(argument.getType(), loss.getArgAttrDict(i), argument.getLoc());
    }
    mapping.map(argument, value);
  }
}

void training::addChecks(StepFunction &step, func::FuncOp loss, const IRMapping &mapping) {
  for (auto [i, value] : llvm::enumerate(loss.getBody().front().getTerminator()->getOperands()))
    if (auto check = loss.getResultAttrOfType<DictionaryAttr>(i, "graph.check"))
      step.addReport(mapping.lookup(value), "index", check.getValue());
}
