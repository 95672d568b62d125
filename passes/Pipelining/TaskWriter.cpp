#include "passes/Pipelining/TaskWriter.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::pipelining;

TaskWriter::TaskWriter(func::FuncOp function, int number, StringRef kind, DictionaryAttr attributes) {
  OpBuilder builder(function);
  std::string name = (function.getName() + "." + Twine(number) + "." + kind).str();
  task = func::FuncOp::create(builder, function.getLoc(), name, builder.getFunctionType({}, {}));
  task->setDiscardableAttrs(attributes);
  task.getBody().emplaceBlock();
}

Value TaskWriter::takeArgument(BlockArgument argument) {
  Value &copy = copies[argument];
  if (copy)
    return copy;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  NamedAttrList attributes(function.getArgAttrDict(argument.getArgNumber()));
  attributes.erase(dist::names::stage);
  arguments.push_back(attributes.getDictionary(function.getContext()));
  copy = block().addArgument(argument.getType(), argument.getLoc());
  mapping.map(argument, copy);
  return copy;
}

Value TaskWriter::takeScalar(StringRef name, Location loc) {
  Value &scalar = scalars[name];
  if (!scalar) {
    Builder b(task);
    arguments.push_back(b.getDictionaryAttr(b.getNamedAttr(graph::names::scalar, b.getStringAttr(name))));
    scalar = block().addArgument(RankedTensorType::get({}, b.getI64Type()), loc);
  }
  return scalar;
}

DictionaryAttr TaskWriter::heldAs(StringRef name, StringRef kind, int64_t when) {
  Builder b(task);
  NamedAttrList attributes;
  attributes.set(dist::names::held, b.getDictionaryAttr({b.getNamedAttr("kind", b.getStringAttr(kind)),
                                                         b.getNamedAttr("name", b.getStringAttr(name))}));
  if (when)
    attributes.set(dist::names::when, b.getI64IntegerAttr(when));
  return attributes.getDictionary(task.getContext());
}

Value TaskWriter::takeHeld(Type type, StringRef name, StringRef kind, Location loc) {
  arguments.push_back(heldAs(name, kind, 0));
  return block().addArgument(type, loc);
}

void TaskWriter::leaveHeld(Value value, StringRef name, StringRef kind, int64_t when) {
  addResult(value, heldAs(name, kind, when));
}

void TaskWriter::addResult(Value value, DictionaryAttr attributes) {
  values.push_back(value);
  results.push_back(attributes);
}

void TaskWriter::finish() {
  OpBuilder builder = OpBuilder::atBlockEnd(&block());
  func::ReturnOp::create(builder, task.getLoc(), values);
  task.setType(builder.getFunctionType(block().getArgumentTypes(), TypeRange(ValueRange(values))));
  task.setAllArgAttrs(arguments);
  task.setAllResultAttrs(results);
}
