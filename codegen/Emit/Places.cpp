#include "codegen/Emit/Places.h"

#include "dialects/Graph/Graph.h"
#include "divisi/abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

int64_t Places::of(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto task = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    return task.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), exec::names::offset).getInt();
  }
  Operation *op = value.getDefiningOp();
  if (isa<graph::ReshapeOp>(op))
    return of(op->getOperand(0));
  auto constant = dyn_cast<graph::ConstantOp>(op);
  if (!constant)
    return cast<exec::ItemInterface>(op).getOffsetsAttr()[cast<OpResult>(value).getResultNumber()];
  auto [it, fresh] = offsets.try_emplace(constant.getValue(), bytes.size());
  if (fresh) {
    auto data = bytesOf(cast<DenseElementsAttr>(constant.getValue()));
    bytes.append(data.begin(), data.end());
    bytes.resize(llvm::alignTo(bytes.size(), DIVISI_ALIGNMENT));
  }
  return -1 - it->second;
}

SmallVector<int64_t> Places::ofAll(Operation *op) {
  SmallVector<int64_t> places;
  for (Value operand : op->getOperands())
    places.push_back(of(operand));
  for (Value result : op->getResults())
    places.push_back(of(result));
  return places;
}

std::vector<char> codegen::bytesOf(DenseElementsAttr data) {
  std::vector<char> bytes;
  if (data.getElementType().isInteger(1)) { // one byte for each
    for (bool value : data.getValues<bool>())
      bytes.push_back(value);
    return bytes;
  }
  ArrayRef<char> raw = data.getRawData();
  for (int64_t i = 0, count = data.isSplat() ? data.getNumElements() : 1; i < count; ++i)
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  return bytes;
}
