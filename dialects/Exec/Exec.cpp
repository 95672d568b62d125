#include "dialects/Exec/Exec.h"

#include "dialects/Graph/ElementsRead.h"
#include "dialects/Graph/Nodes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;
using namespace divisi;
using namespace divisi::exec;

#include "dialects/Exec/ExecDialect.cpp.inc"
#include "dialects/Exec/ItemInterface.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.cpp.inc"

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

namespace {
/// The memory of values with offsets.
struct Arena : SideEffects::Resource::Base<Arena> {
  StringRef getName() final { return "arena"; }
};
/// The effects of a rank that other ranks see: its collectives and messages, in order.
struct Communication : SideEffects::Resource::Base<Communication> {
  StringRef getName() final { return "communication"; }
};
} // namespace

void ExecDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Exec/ExecOps.cpp.inc"
      >();
}

static void addArena(ItemInterface item, Effects &effects) {
  if (!item.getOffsetsAttr())
    return;
  effects.emplace_back(MemoryEffects::Read::get(), Arena::get());
  effects.emplace_back(MemoryEffects::Write::get(), Arena::get());
}

static LogicalResult verifyOffsets(ItemInterface item, int constraint) {
  DenseI64ArrayAttr offsets = item.getOffsetsAttr();
  if (offsets && offsets.size() != item->getNumResults())
    return item.emitOpError("constraint ")
           << constraint << ": expected 'offsets' with a place for each of " << item->getNumResults() << " results, got " << offsets.size();
  return success();
}

//===- kernel -------------------------------------------------------------===//

LogicalResult KernelOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("constraint 1: expected block arguments of the inputs' types");
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValues().getTypes() != getOutputs().getTypes())
    return emitOpError("constraint 2: expected exec.yield of the outputs' types");
  for (Value value : yield.getValues())
    if (!value.getDefiningOp() || !value.getDefiningOp()->hasAttr(names::stage))
      return emitOpError("constraint 3: expected exec.yield of values of operations with 'exec.stage': others are not stored");
  if (getRows() == 0)
    return emitOpError("constraint 4: expected at least one row");
  return verifyOffsets(*this, 5);
}

void KernelOp::getEffects(Effects &effects) { addArena(*this, effects); }

int64_t KernelOp::getFlops() {
  int64_t flops = 0;
  for (auto op : getBody().getOps<graph::CostInterface>()) {
    auto rule = dyn_cast<dist::ShardingRuleInterface>(*op);
    if (op.getForm() != graph::Form::constant && !(rule && rule.getShardingRule().linear == dist::Linear::movement))
      flops += op.getFlops(); // others compute nothing
  }
  return flops;
}

int64_t KernelOp::getBytes() {
  Block &block = getBody().front();
  auto readsPart = [](graph::CostInterface op) { return op.readsPart(); };
  if (llvm::none_of(block.getOps<graph::CostInterface>(), readsPart))
    return graph::bytesOfTypes(*this);
  llvm::DenseMap<Value, int> numbers;
  auto numberOf = [&](Value value) { return numbers.try_emplace(value, numbers.size()).first->second; };
  auto elementsOf = [](Value value) { return (double)graph::tensorType(value).getNumElements(); };
  SmallVector<graph::Reader> ops;
  std::map<SmallVector<intptr_t>, Operation *> known; // what copies of an operation read counts once
  for (auto op : block.getOps<graph::CostInterface>()) {
    SmallVector<intptr_t> key{(intptr_t)op->getName().getAsOpaquePointer()};
    for (Value operand : op->getOperands())
      key.push_back(numberOf(operand));
    for (Type type : op->getResultTypes())
      key.push_back((intptr_t)type.getAsOpaquePointer());
    for (NamedAttribute attribute : op->getAttrDictionary())
      if (attribute.getName() != graph::names::node && attribute.getName() != names::stage)
        key.append({(intptr_t)attribute.getName().getAsOpaquePointer(), (intptr_t)attribute.getValue().getAsOpaquePointer()});
    if (auto [it, fresh] = known.try_emplace(key, op); !fresh) {
      for (auto [value, copied] : llvm::zip(op->getResults(), it->second->getResults()))
        numbers[value] = numberOf(copied);
      continue;
    }
    graph::Reader &reader = ops.emplace_back();
    reader.form = op.getForm();
    reader.readsPart = op.readsPart();
    reader.elements = elementsOf(op->getResult(0));
    for (Value operand : op->getOperands())
      reader.operands.push_back({numberOf(operand), elementsOf(operand)});
    for (Value value : op->getResults())
      reader.results.push_back(numberOf(value));
  }
  int64_t bytes = 0;
  SmallVector<std::pair<int, double>> stored;
  for (Value value : block.getTerminator()->getOperands()) {
    stored.push_back({numberOf(value), elementsOf(value)});
    bytes += graph::bytesOf(value.getType());
  }
  const auto read = graph::elementsRead(ops, stored);
  for (BlockArgument input : block.getArguments())
    if (const double elements = elementsOf(input); elements > 0)
      bytes += (int64_t)read.lookup(numberOf(input)) * (graph::bytesOf(input.getType()) / (int64_t)elements);
  return bytes;
}

//===- call ---------------------------------------------------------------===//

void CallOp::build(OpBuilder &builder, OperationState &state, Operation *operation, int64_t workspaceBytes) {
  state.addOperands(operation->getOperands());
  state.addTypes(operation->getResultTypes());
  if (workspaceBytes > 0)
    state.addTypes(RankedTensorType::get({workspaceBytes}, builder.getI8Type()));
  auto &properties = state.getOrAddProperties<Properties>();
  properties.resultSegmentSizes = {(int32_t)operation->getNumResults(), workspaceBytes > 0};
  Block &block = state.addRegion()->emplaceBlock();
  for (Value operand : operation->getOperands()) // one argument for each operand, even if two are the same value
    block.addArgument(operand.getType(), operand.getLoc());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&block);
  Operation *payload = builder.clone(*operation);
  payload->setOperands(block.getArguments());
  YieldOp::create(builder, operation->getLoc(), payload->getResults());
}

Operation *CallOp::getPayload() { return &getBody().front().front(); }
bool CallOp::communicates() { return isa<dist::DistDialect>(getPayload()->getDialect()); }
bool CallOp::isMessage() { return isa<dist::SendOp, dist::ReceiveOp>(getPayload()); }
IntegerAttr CallOp::getMessageId() {
  return isMessage() ? getPayload()->getAttrOfType<IntegerAttr>("id") : IntegerAttr();
}
ArrayAttr CallOp::getAxes() {
  return communicates() ? getPayload()->getAttrOfType<ArrayAttr>("axes") : ArrayAttr();
}

LogicalResult CallOp::verify() {
  Block &block = getBody().front();
  if (block.getOperations().size() != 2 || !isa<YieldOp>(block.back()) ||
      !isa_and_present<dist::DistDialect, graph::GraphDialect>(block.front().getDialect()))
    return emitOpError("constraint 1: expected one operation of graph or dist, and a yield of its results");
  Operation *payload = getPayload();
  auto yield = cast<YieldOp>(block.getTerminator());
  if (payload->getOperands() != ValueRange(block.getArguments()) || yield.getValues() != payload->getResults())
    return emitOpError("constraint 2: expected its operation to have the block's arguments in their order, and the yield its results");
  if (block.getArgumentTypes() != getInputs().getTypes() || payload->getResultTypes() != getOutputs().getTypes())
    return emitOpError("constraint 3: expected operands and results of the types of its operation's");
  if (getId() && !communicates())
    return emitOpError("constraint 4: has an id, but is no collective or message");
  IntegerAttr number = getMessageId();
  if (getIdAttr() && number && number != getIdAttr())
    return emitOpError("constraint 5: has the id ") << *getId() << ", but its message has " << number.getInt();
  if (Value workspace = getWorkspace()) {
    auto type = graph::tensorType(workspace);
    if (type.getRank() != 1 || !type.getElementType().isInteger(8))
      return emitOpError("constraint 6: expected a workspace of one dimension of i8, got ") << type;
  }
  return verifyOffsets(*this, 7);
}

void CallOp::getEffects(Effects &effects) {
  addArena(*this, effects);
  if (!communicates())
    return;
  effects.emplace_back(MemoryEffects::Read::get(), Communication::get());
  effects.emplace_back(MemoryEffects::Write::get(), Communication::get());
}

int64_t CallOp::getFlops() {
  auto cost = dyn_cast<graph::CostInterface>(getPayload());
  return cost ? cost.getFlops() : 0;
}
int64_t CallOp::getBytes() {
  int64_t bytes = 0;
  for (Value input : llvm::SmallSetVector<Value, 4>(getInputs().begin(), getInputs().end()))
    bytes += graph::bytesOf(input.getType());
  for (Type type : getOutputs().getTypes())
    bytes += graph::bytesOf(type);
  return bytes;
}

void CallOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getWorkspace())
    setName(getWorkspace(), "workspace");
}

void CallOp::print(OpAsmPrinter &printer) {
  Operation *payload = getPayload();
  printer << " " << payload->getName();
  printer.printOptionalAttrDict(payload->getAttrDictionary().getValue());
  printer << " (" << getInputs() << ")";
  if (getWorkspace())
    printer << " workspace";
  printer.printOptionalAttrDict((*this)->getAttrDictionary().getValue(), getResultSegmentSizeAttr());
  printer << " : ";
  printer.printFunctionalType(getInputs().getTypes(), (*this)->getResultTypes());
}

ParseResult CallOp::parse(OpAsmParser &parser, OperationState &state) {
  auto where = parser.getCurrentLocation();
  FailureOr<OperationName> name = parser.parseCustomOperationName();
  if (failed(name))
    return failure();
  if (!name->isRegistered())
    return parser.emitError(where, "unknown operation '") << name->getStringRef() << "'";
  NamedAttrList attributes;
  SmallVector<OpAsmParser::UnresolvedOperand> inputs;
  FunctionType type;
  auto fault = [&] { return parser.emitError(where) << "'" << name->getStringRef() << "': "; };
  if (parser.parseOptionalAttrDict(attributes) || failed(name->verifyInherentAttrs(attributes, fault)) ||
      parser.parseOperandList(inputs, OpAsmParser::Delimiter::Paren))
    return failure();
  bool hasWorkspace = succeeded(parser.parseOptionalKeyword("workspace"));
  if (parser.parseOptionalAttrDict(state.attributes) || parser.parseColonType(type) ||
      parser.resolveOperands(inputs, type.getInputs(), where, state.operands))
    return failure();
  if (hasWorkspace && type.getNumResults() == 0)
    return parser.emitError(where, "expected a workspace as last result");
  state.addTypes(type.getResults());
  ArrayRef<Type> outputs = type.getResults().drop_back(hasWorkspace);
  state.getOrAddProperties<Properties>().resultSegmentSizes = {(int32_t)outputs.size(), hasWorkspace};
  Location loc = parser.getEncodedSourceLoc(where);
  Block &block = state.addRegion()->emplaceBlock();
  for (Type input : type.getInputs())
    block.addArgument(input, loc);
  OperationState payload(loc, *name);
  payload.addOperands(block.getArguments());
  payload.addTypes(outputs);
  payload.addAttributes(attributes);
  OpBuilder builder(parser.getContext());
  builder.setInsertionPointToEnd(&block);
  Operation *made = builder.create(payload);
  YieldOp::create(builder, loc, made->getResults());
  return success();
}

//===- await, copy --------------------------------------------------------===//

void AwaitOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), Arena::get());
  effects.emplace_back(MemoryEffects::Write::get(), Arena::get());
  effects.emplace_back(MemoryEffects::Write::get(), Communication::get());
}
int64_t AwaitOp::getFlops() { return 0; }
int64_t AwaitOp::getBytes() { return 0; }

LogicalResult CopyOp::verify() {
  if (!graph::sameShapes(getInput().getType(), getOutput().getType()))
    return emitOpError("constraint 1: expected a result of the operand's type");
  return verifyOffsets(*this, 2);
}
void CopyOp::getEffects(Effects &effects) { addArena(*this, effects); }
int64_t CopyOp::getFlops() { return 0; }
int64_t CopyOp::getBytes() { return graph::bytesOfTypes(*this); }
