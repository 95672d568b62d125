#include "compiler/Import/Signature.h"
#include "dialects/Graph/Graph.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace divisi::compiler;
namespace names = divisi::graph::names;

Value Signature::add(Role role, const std::string &name, RankedTensorType type, Location loc) {
  Argument argument{role, name, block.addArgument(type, loc)};
  return arguments.emplace_back(std::move(argument)).value;
}

Value Signature::addWeight(const std::string &name, const TensorData &data, Location loc) {
  Value value = add(Role::parameter, name, data.type, loc);
  arguments.back().data = data;
  return value;
}

Signature::Argument *Signature::find(Value value) {
  auto argument = dyn_cast_or_null<BlockArgument>(value);
  // Arguments are numbered in the order in which they were added.
  return argument && argument.getArgNumber() < arguments.size() ? &arguments[argument.getArgNumber()] : nullptr;
}

Signature::Argument *Signature::findInput(llvm::StringRef name) {
  auto it = llvm::find_if(arguments, [&](const Argument &a) { return a.role == Role::input && a.name == name; });
  return it == arguments.end() ? nullptr : &*it;
}

bool Signature::has(Role role, llvm::StringRef name) const {
  return llvm::any_of(arguments, [&](const Argument &a) { return a.role == role && a.name == name; });
}

void Signature::addResult(Value value, llvm::StringRef attribute, Attribute text) {
  results.push_back(value);
  MLIRContext *context = function.getContext();
  resultAttributes.push_back(DictionaryAttr::get(context, NamedAttribute(StringAttr::get(context, attribute), text)));
}

void Signature::finish(Location loc) {
  auto builder = OpBuilder::atBlockEnd(&block);
  auto ret = func::ReturnOp::create(builder, loc, results);
  std::erase_if(arguments, [](const Argument &a) {
    return (a.role == Role::parameter || a.role == Role::buffer) && a.value.use_empty();
  });
  llvm::stable_sort(arguments, [](const Argument &a, const Argument &b) { return a.role < b.role; });
  // The new arguments, in their final order, replace the old ones.
  unsigned old = block.getNumArguments();
  SmallVector<Type> types;
  for (Argument &argument : arguments) {
    BlockArgument value = block.addArgument(argument.value.getType(), argument.value.getLoc());
    argument.value.replaceAllUsesWith(value);
    argument.value = value;
    types.push_back(value.getType());
  }
  block.eraseArguments(0, old);
  function.setType(FunctionType::get(function.getContext(), types, ret.getOperandTypes()));
  for (auto [i, argument] : llvm::enumerate(arguments))
    setAttributes(i, argument);
  function.setAllResultAttrs(resultAttributes);
}

void Signature::setAttributes(unsigned index, const Argument &argument) {
  Builder b(function.getContext());
  llvm::StringRef roles[] = {names::parameter, names::buffer, names::input, names::scalar};
  function.setArgAttr(index, roles[(int)argument.role], b.getStringAttr(argument.name));
  if (argument.isFrozen)
    function.setArgAttr(index, names::frozen, b.getUnitAttr());
  if (argument.isLabel)
    function.setArgAttr(index, names::label, b.getUnitAttr());
  if (argument.range)
    function.setArgAttr(index, "graph.range", b.getI64ArrayAttr({argument.range->first, argument.range->second}));
  if (argument.padding)
    function.setArgAttr(index, "graph.padding", b.getI64IntegerAttr(*argument.padding));
}
