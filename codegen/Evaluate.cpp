#include "codegen/Evaluate.h"

#include "codegen/Lowering/ScalarBuilder.h"
#include "dialects/Graph/Graph.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {

/// Calls `visit` with each index of a shape in row-major order.
void forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<void(ArrayRef<int64_t>)> visit) {
  if (llvm::is_contained(shape, 0))
    return;
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    visit(index);
    int64_t d = shape.size() - 1;
    while (d >= 0 && ++index[d] == shape[d])
      index[d--] = 0;
    if (d < 0)
      return;
  }
}

class Evaluator {
public:
  explicit Evaluator(int64_t maxPoints) : budget(maxPoints) {}

  FailureOr<DenseElementsAttr> evaluate(Value root) {
    SmallVector<Value> open = {root}; // no recursion: chains are as long as loops
    while (!open.empty()) {
      Value value = open.back();
      if (values.contains(value)) {
        open.pop_back();
        continue;
      }
      auto result = dyn_cast<OpResult>(value);
      if (!result)
        return failure();
      DenseElementsAttr attr;
      if (matchPattern(result.getOwner(), m_Constant(&attr))) {
        values[value] = attr;
        continue;
      }
      auto loop = dyn_cast<LoopInterface>(result.getOwner());
      if (!loop || result.getResultNumber() != 0)
        return failure();
      size_t before = open.size();
      for (Value operand : loop->getOperands())
        if (!values.contains(operand))
          open.push_back(operand);
      if (open.size() != before)
        continue;
      SmallVector<DenseElementsAttr> operands;
      for (Value operand : loop->getOperands())
        operands.push_back(values.lookup(operand));
      auto computed = compute(loop, operands);
      if (failed(computed))
        return failure();
      values[value] = *computed;
    }
    return values.lookup(root);
  }

private:
  FailureOr<DenseElementsAttr> compute(LoopInterface loop, ArrayRef<DenseElementsAttr> operands) {
    LoopDomain domain = loop.getLoopDomain();
    budget -= domain.points();
    if (budget < 0)
      return failure();
    auto type = cast<RankedTensorType>(loop->getResult(0).getType());
    SmallVector<int64_t> outer, inner;
    for (auto [extent, reduced] : llvm::zip(domain.extents, domain.reduced))
      (reduced ? inner : outer).push_back(extent);
    SmallVector<Attribute> elements;
    bool ok = true;
    forEachIndex(outer, [&](ArrayRef<int64_t> at) {
      if (!ok)
        return;
      Block block;
      OpBuilder builder(loop.getContext());
      builder.setInsertionPointToEnd(&block);
      ScalarBuilder scalar(builder, loop.getLoc());
      auto load = [&](unsigned operand, ValueRange index) {
        Value element = loadElement(scalar, operands[operand], index);
        ok &= (bool)element;
        return element ? element : scalar.integer(builder.getI64Type(), 0);
      };
      SmallVector<Value> current = loop.emitInit(scalar);
      auto step = [&](ArrayRef<int64_t> reducedAt) {
        SmallVector<Value> point;
        size_t o = 0, r = 0;
        for (bool reduced : domain.reduced)
          point.push_back(scalar.index(reduced ? reducedAt[r++] : at[o++]));
        if (ok)
          current = loop.emitStep(scalar, point, current, load);
      };
      forEachIndex(inner, step);
      Attribute element;
      if (!ok || current.empty() || !matchPattern(current[0], m_Constant(&element)))
        ok = false;
      else
        elements.push_back(retyped(element, type.getElementType()));
      block.dropAllDefinedValueUses();
    });
    if (!ok)
      return failure();
    return DenseElementsAttr::get(type, elements);
  }

  /// The bits of a signless integer as the tensor's type, which may be unsigned.
  static Attribute retyped(Attribute element, Type type) {
    if (auto integer = dyn_cast<IntegerAttr>(element))
      return IntegerAttr::get(type, integer.getValue());
    return element;
  }

  static Value loadElement(ScalarBuilder &scalar, DenseElementsAttr data, ValueRange index) {
    SmallVector<uint64_t> position;
    for (auto [value, size] : llvm::zip(index, data.getType().getShape())) {
      IntegerAttr constant;
      if (!matchPattern(value, m_Constant(&constant)) || constant.getInt() < 0 || constant.getInt() >= size)
        return {};
      position.push_back(constant.getInt());
    }
    Type element = data.getElementType();
    if (isa<FloatType>(element)) {
      auto attr = FloatAttr::get(element, data.getValues<APFloat>()[position]);
      return arith::ConstantOp::create(scalar.getBuilder(), scalar.getLoc(), attr);
    }
    APInt bits = data.getValues<APInt>()[position];
    Type type = ScalarBuilder::scalarType(element);
    return arith::ConstantOp::create(scalar.getBuilder(), scalar.getLoc(), type, IntegerAttr::get(type, bits));
  }

  llvm::DenseMap<Value, DenseElementsAttr> values;
  int64_t budget;
};
} // namespace

FailureOr<DenseElementsAttr> codegen::evaluate(Value value, int64_t maxPoints) {
  return Evaluator(maxPoints).evaluate(value);
}
