#include "codegen/Evaluate.h"

#include "codegen/Lowering/ScalarBuilder.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {

/// Calls `visit` with each index of a shape in row-major order, until it fails.
LogicalResult forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<LogicalResult(ArrayRef<int64_t>)> visit) {
  if (llvm::is_contained(shape, 0))
    return success();
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    if (failed(visit(index)))
      return failure();
    int64_t d = shape.size() - 1;
    while (d >= 0 && ++index[d] == shape[d])
      index[d--] = 0;
    if (d < 0)
      return success();
  }
}

/// Executes scalar code: each operation is folded with the values of its operands.
class Interpreter {
public:
  explicit Interpreter(int64_t &budget) : budget(budget) {}

  void set(Value value, Attribute attr) { values[value] = attr; }
  Attribute get(Value value) const { return values.lookup(value); }
  /// The elements of a buffer; null if they have not been written.
  std::vector<Attribute> &buffer(Value value) { return buffers[value]; }

  /// Whether a block may be executed so often.
  bool affords(Block &block, int64_t times) const { return times <= budget / std::max<int64_t>(1, block.getOperations().size()); }
  /// Executes all operations up to the terminator, if there is one.
  LogicalResult run(Block &block) {
    for (Operation &op : block) {
      if (op.hasTrait<OpTrait::IsTerminator>())
        return success();
      if (--budget < 0 || failed(execute(op)))
        return failure();
    }
    return success();
  }

private:
  LogicalResult execute(Operation &op) {
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      Attribute *element = at(load.getMemRef(), load.getIndices());
      if (!element || !*element)
        return failure();
      set(load, *element);
      return success();
    }
    if (auto store = dyn_cast<memref::StoreOp>(op)) {
      Attribute *element = at(store.getMemRef(), store.getIndices());
      if (!element)
        return failure();
      *element = get(store.getValueToStore());
      return success();
    }
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return execute(loop);
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      Block *taken = integer(branch.getCondition()) ? branch.thenBlock() : branch.elseBlock();
      return taken ? run(*taken) : success();
    }
    SmallVector<Attribute> operands;
    for (Value operand : op.getOperands())
      operands.push_back(get(operand));
    SmallVector<OpFoldResult> results;
    if (failed(op.fold(operands, results)) || results.size() != op.getNumResults())
      return failure();
    for (auto [value, result] : llvm::zip(op.getResults(), results)) {
      auto known = dyn_cast<Value>(result);
      Attribute attr = known ? get(known) : cast<Attribute>(result);
      if (!attr)
        return failure();
      set(value, attr);
    }
    return success();
  }

  LogicalResult execute(scf::ForOp loop) {
    SmallVector<Attribute> carried;
    for (Value start : loop.getInits())
      carried.push_back(get(start));
    auto *yield = loop.getBody()->getTerminator();
    for (int64_t i = integer(loop.getLowerBound()), end = integer(loop.getUpperBound()), step = integer(loop.getStep()); i < end; i += step) {
      set(loop.getInductionVar(), IntegerAttr::get(loop.getInductionVar().getType(), i));
      for (auto [value, attr] : llvm::zip(loop.getRegionIterArgs(), carried))
        set(value, attr);
      if (failed(run(*loop.getBody())))
        return failure();
      for (auto [attr, value] : llvm::zip(carried, yield->getOperands()))
        attr = get(value);
    }
    for (auto [value, attr] : llvm::zip(loop.getResults(), carried))
      set(value, attr);
    return success();
  }

  int64_t integer(Value value) const { return cast<IntegerAttr>(get(value)).getValue().getZExtValue(); }

  /// Null: out of range.
  Attribute *at(Value memref, ValueRange index) {
    int64_t position = 0;
    for (auto [value, size] : llvm::zip(index, cast<MemRefType>(memref.getType()).getShape())) {
      int64_t i = integer(value);
      if (i < 0 || i >= size)
        return nullptr;
      position = position * size + i;
    }
    return &buffers[memref][static_cast<size_t>(position)];
  }

  int64_t &budget;
  llvm::DenseMap<Value, Attribute> values;
  llvm::DenseMap<Value, std::vector<Attribute>> buffers;
};

class Evaluator {
public:
  explicit Evaluator(int64_t &budget) : budget(budget) {}

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
      Operation *op = result.getOwner();
      if (!isa<LoopInterface, SerialInterface>(op) || result.getResultNumber() != 0)
        return failure();
      size_t before = open.size();
      for (Value operand : op->getOperands())
        if (!values.contains(operand))
          open.push_back(operand);
      if (open.size() != before)
        continue;
      auto computed = compute(op);
      if (failed(computed))
        return failure();
      values[value] = *computed;
    }
    return values.lookup(root);
  }

private:
  FailureOr<DenseElementsAttr> compute(Operation *op) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (type.getNumElements() > budget)
      return failure();
    Block block;
    llvm::scope_exit dropUses([&] { block.dropAllDefinedValueUses(); });
    Interpreter interpreter(budget);
    auto addBuffer = [&](RankedTensorType tensor) {
      return block.addArgument(MemRefType::get(tensor.getShape(), ScalarBuilder::scalarType(tensor.getElementType())), op->getLoc());
    };
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(addBuffer(cast<RankedTensorType>(operand.getType())));
      interpreter.buffer(operands.back()) = elementsOf(values.lookup(operand));
    }
    Value result = addBuffer(type);
    std::vector<Attribute> &elements = interpreter.buffer(result);
    elements.resize(static_cast<size_t>(type.getNumElements()));

    OpBuilder builder(op->getContext());
    builder.setInsertionPointToEnd(&block);
    ScalarBuilder scalar(builder, op->getLoc());
    auto load = [&](unsigned operand, ValueRange index) { return scalar.load(operands[operand], index); };
    if (auto serial = dyn_cast<SerialInterface>(op)) {
      Value begin = scalar.index(0), end = scalar.index(serial.getParallelExtent());
      serial.emitSerial(scalar, {begin, end}, load, result);
      if (failed(interpreter.run(block)))
        return failure();
    } else if (failed(compute(cast<LoopInterface>(op), scalar, load, interpreter, elements))) {
      return failure();
    }
    if (llvm::is_contained(elements, Attribute()))
      return failure();
    for (Attribute &element : elements)
      element = retyped(element, type.getElementType());
    return DenseElementsAttr::get(type, elements);
  }

  /// The code of one step of a loop is emitted once, and executed for each point. `scalar` is at the end of the block of the buffers.
  static LogicalResult compute(LoopInterface loop, ScalarBuilder &scalar, Load load, Interpreter &interpreter, std::vector<Attribute> &elements) {
    LoopDomain domain = loop.getLoopDomain();
    Block &begin = *scalar.getBuilder().getInsertionBlock(), step;
    llvm::scope_exit dropUses([&] { step.dropAllDefinedValueUses(); });
    SmallVector<Value> first = loop.emitInit(scalar), point, carried;
    for (size_t d = 0; d < domain.extents.size(); ++d)
      point.push_back(step.addArgument(scalar.getBuilder().getIndexType(), loop.getLoc()));
    for (Value value : first)
      carried.push_back(step.addArgument(value.getType(), loop.getLoc()));
    scalar.getBuilder().setInsertionPointToEnd(&step);
    SmallVector<Value> next = loop.emitStep(scalar, point, carried, load);
    if (!interpreter.affords(step, domain.points()) || failed(interpreter.run(begin)))
      return failure();

    SmallVector<int64_t> outer, inner;
    for (auto [extent, reduced] : llvm::zip(domain.extents, domain.reduced))
      (reduced ? inner : outer).push_back(extent);
    size_t place = 0;
    return forEachIndex(outer, [&](ArrayRef<int64_t> at) -> LogicalResult {
      SmallVector<Attribute> current;
      for (Value value : first)
        current.push_back(interpreter.get(value));
      auto takeStep = [&](ArrayRef<int64_t> reducedAt) -> LogicalResult {
        size_t o = 0, r = 0;
        for (auto [value, reduced] : llvm::zip(point, domain.reduced))
          interpreter.set(value, IntegerAttr::get(value.getType(), reduced ? reducedAt[r++] : at[o++]));
        for (auto [value, attr] : llvm::zip(carried, current))
          interpreter.set(value, attr);
        if (failed(interpreter.run(step)))
          return failure();
        current.clear();
        for (Value value : next)
          current.push_back(interpreter.get(value));
        return success();
      };
      if (failed(forEachIndex(inner, takeStep)) || current.empty())
        return failure();
      elements[place++] = current.front();
      return success();
    });
  }

  /// The bits of a signless integer as the tensor's type, which may be unsigned.
  static Attribute retyped(Attribute element, Type type) {
    if (auto integer = dyn_cast<IntegerAttr>(element))
      return IntegerAttr::get(type, integer.getValue());
    return element;
  }

  static std::vector<Attribute> elementsOf(DenseElementsAttr data) {
    std::vector<Attribute> elements;
    Type type = ScalarBuilder::scalarType(data.getElementType());
    for (Attribute element : data.getValues<Attribute>())
      elements.push_back(retyped(element, type));
    return elements;
  }

  llvm::DenseMap<Value, DenseElementsAttr> values;
  int64_t &budget;
};
} // namespace

FailureOr<DenseElementsAttr> codegen::evaluate(Value value, int64_t &budget) {
  return Evaluator(budget).evaluate(value);
}
