#include "passes/Layout/Layouts.h"

#include "passes/Layout/LayoutInterface.cpp.inc"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

bool layout::isElementwise(Operation *op) {
  return op->getNumOperands() > 0 && op->getNumResults() == 1 &&
         (op->hasTrait<OpTrait::SameOperandsAndResultType>() || op->hasTrait<OpTrait::SameOperandsAndResultShape>());
}

namespace {

/// Maps attribute entries, one for each dimension of the transposed tensor, to the dimensions of the source.
SmallVector<int64_t> toSource(ArrayRef<int64_t> entries, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> result(entries.size());
  for (auto [i, p] : llvm::enumerate(permutation))
    result[p] = entries[i];
  return result;
}

RankedTensorType sourceType(Value transposed, ArrayRef<int64_t> permutation) {
  auto type = tensorType(transposed);
  return RankedTensorType::get(toSource(type.getShape(), permutation), type.getElementType());
}

/// The same operation on other operands, with other result types and some attributes changed.
Operation *rebuilt(B &b, Operation *op, ValueRange operands, TypeRange types, ArrayRef<NamedAttribute> changed = {}) {
  NamedAttrList attributes(op->getAttrs());
  for (NamedAttribute attribute : changed)
    attributes.set(attribute.getName(), attribute.getValue());
  OperationState state(b.getLoc(), op->getName().getStringRef(), operands, types, attributes);
  return b.getBuilder().create(state);
}

/// Windowed operations: they have one attribute entry for each dimension, and their results have the operand's rank.
template <typename OpT> struct Windowed : layout::LayoutInterface::ExternalModel<Windowed<OpT>, OpT> {
  Values buildOnSource(Operation *op, B &b, Value source, ArrayRef<int64_t> permutation) const {
    SmallVector<NamedAttribute> changed;
    for (NamedAttribute attribute : op->getAttrs())
      if (auto entries = dyn_cast<DenseI64ArrayAttr>(attribute.getValue()))
        changed.push_back({attribute.getName(), b.getBuilder().getDenseI64ArrayAttr(toSource(entries, permutation))});
    SmallVector<Type> types;
    for (Value result : op->getResults())
      types.push_back(sourceType(result, permutation));
    Values results;
    for (Value result : rebuilt(b, op, source, types, changed)->getResults())
      results.push_back(b.transpose(result, permutation));
    return results;
  }
};

struct BatchNorm : layout::LayoutInterface::ExternalModel<BatchNorm, BatchNormOp> {
  Values buildOnSource(Operation *op, B &b, Value source, ArrayRef<int64_t> permutation) const {
    auto norm = cast<BatchNormOp>(op);
    if (norm.getGroups() > 1 && permutation[0] != 0)
      return {}; // groups are of dimension 0
    Values operands = llvm::to_vector_of<Value>(op->getOperands());
    operands[0] = source;
    SmallVector<Type> types = {sourceType(norm.getResult(), permutation), norm.getMean().getType(),
                               norm.getVariance().getType()};
    NamedAttribute dim =
        b.getBuilder().getNamedAttr("dim", b.getBuilder().getI64IntegerAttr(permutation[norm.getDim()]));
    Operation *copy = rebuilt(b, op, operands, types, dim);
    return {b.transpose(copy->getResult(0), permutation), copy->getResult(1), copy->getResult(2)};
  }
};

/// The result lacks the reduced dimensions. The order of the others may differ, too.
template <typename OpT> struct Reduce : layout::LayoutInterface::ExternalModel<Reduce<OpT>, OpT> {
  Values buildOnSource(Operation *op, B &b, Value source, ArrayRef<int64_t> permutation) const {
    llvm::SmallBitVector reduced(permutation.size());
    for (int64_t d : cast<OpT>(op).getDims())
      reduced.set(permutation[d]);
    SmallVector<int64_t> dims, position(permutation.size(), -1), order;
    int64_t kept = 0;
    for (size_t d = 0; d < permutation.size(); ++d)
      if (reduced.test(d))
        dims.push_back(d);
      else
        position[d] = kept++;
    for (int64_t p : permutation)
      if (position[p] >= 0)
        order.push_back(position[p]);
    return {b.transpose(b.op<OpT>(source, dims), order)};
  }
};
} // namespace

void layout::registerLayouts(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, GraphDialect *) {
    BatchNormOp::attachInterface<BatchNorm>(*context);
    MaxPoolOp::attachInterface<Windowed<MaxPoolOp>>(*context);
    SumPoolOp::attachInterface<Windowed<SumPoolOp>>(*context);
    ReduceSumOp::attachInterface<Reduce<ReduceSumOp>>(*context);
    ReduceMaxOp::attachInterface<Reduce<ReduceMaxOp>>(*context);
    ReduceMinOp::attachInterface<Reduce<ReduceMinOp>>(*context);
  });
}
