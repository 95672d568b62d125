#include "dialects/Graph/Graph.h"

#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;

#include "dialects/Graph/GraphDialect.cpp.inc"
#include "dialects/Graph/GraphInterfaces.cpp.inc"

#include "dialects/Graph/GraphEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Graph/GraphAttrs.cpp.inc"

void GraphDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Graph/GraphAttrs.cpp.inc"
      >();
}

void GraphDialect::initialize() {
  registerAttributes();
  addAttention();
  addContraction();
  addElementwise();
  addIndexing();
  addLoss();
  addNormalization();
  addPooling();
  addRandom();
  addReduction();
  addShape();
}

Operation *GraphDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

bool graph::sameShapes(TypeRange inferred, TypeRange actual) {
  if (inferred.size() != actual.size())
    return false;
  for (auto [a, b] : llvm::zip(inferred, actual)) {
    auto x = dyn_cast<RankedTensorType>(a), y = dyn_cast<RankedTensorType>(b);
    if (!x || !y || x.getShape() != y.getShape() || x.getElementType() != y.getElementType())
      return false;
  }
  return true;
}

void graph::eraseUnused(Block &block) {
  SmallVector<Operation *> operations;
  for (Operation &op : block.without_terminator())
    operations.push_back(&op);
  for (Operation *op : llvm::reverse(operations))
    if (isOpTriviallyDead(op))
      op->erase();
}

Value graph::withoutReshape(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

std::optional<double> graph::splatOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto data = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!data || !data.isSplat() || !isa<FloatType>(data.getElementType()))
    return std::nullopt;
  return data.getSplatValue<FloatAttr>().getValueAsDouble();
}

bool graph::hasBatchNorm(Operation *module) {
  return module->walk([](BatchNormOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

int64_t graph::flopsFromRule(Operation *op) {
  int64_t points = 1;
  for (const auto &factor : cast<dist::ShardingRuleInterface>(op).getShardingRule().factors)
    points *= factor.indexed ? 1 : factor.size;
  return points * cast<CostInterface>(op).getFlopsPerPoint();
}

int64_t graph::bytesOfElement(Type type) {
  if (auto index = dyn_cast<IndexType>(type))
    return 8;
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t graph::bytesOf(Type type) {
  auto tensor = cast<ShapedType>(type);
  return tensor.getNumElements() * bytesOfElement(tensor.getElementType());
}

int64_t graph::bytesOfTypes(Operation *op) {
  int64_t bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += bytesOf(type);
  for (Type type : op->getResultTypes())
    bytes += bytesOf(type);
  return bytes;
}

int64_t graph::workspaceBytes(Operation *op) {
  return cast<CostInterface>(op).getLibraryWorkspace().bytes(tensorType(op->getResult(0)).getNumElements(), bytesOfTypes(op));
}
