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
  /// Binds a buffer that is read: of large tensors few elements may be.
  void bind(Value value, DenseElementsAttr data) { inputs[value] = data; }
  /// Binds the buffer that is written; its elements are null until they are.
  void bind(Value value, std::vector<Attribute> &elements) {
    output = value;
    results = &elements;
  }

  /// Whether a block may be executed so often.
  bool affords(Block &block, int64_t times) const { return times <= budget / static_cast<int64_t>(block.getOperations().size() + 1); }
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
      std::optional<uint64_t> place = placeOf(load.getMemRef(), load.getIndices());
      if (!place)
        return failure();
      Attribute element = load.getMemRef() == output ? (*results)[*place] : elementOf(inputs.lookup(load.getMemRef()), *place);
      set(load, element);
      return success(element);
    }
    if (auto store = dyn_cast<memref::StoreOp>(op)) {
      std::optional<uint64_t> place = placeOf(store.getMemRef(), store.getIndices());
      if (!place || store.getMemRef() != output)
        return failure();
      (*results)[*place] = get(store.getValueToStore());
      return success();
    }
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return execute(loop);
    if (auto branch = dyn_cast<scf::IfOp>(op); branch && branch.getNumResults() == 0) {
      std::optional<int64_t> condition = integer(branch.getCondition());
      if (!condition)
        return failure();
      Block *taken = *condition ? branch.thenBlock() : branch.elseBlock();
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
    std::optional<int64_t> begin = integer(loop.getLowerBound()), end = integer(loop.getUpperBound()), step = integer(loop.getStep());
    if (!begin || !end || !step || *step < 1)
      return failure();
    for (int64_t i = *begin; i < *end; i += *step) {
      if (--budget < 0)
        return failure();
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

  std::optional<int64_t> integer(Value value) const {
    auto known = dyn_cast_or_null<IntegerAttr>(get(value));
    return known ? std::optional<int64_t>(known.getValue().getZExtValue()) : std::nullopt;
  }

  /// The number of an element of a buffer; nothing: out of range.
  std::optional<uint64_t> placeOf(Value memref, ValueRange index) const {
    uint64_t place = 0;
    for (auto [value, size] : llvm::zip(index, cast<MemRefType>(memref.getType()).getShape())) {
      std::optional<int64_t> i = integer(value);
      if (!i || *i < 0 || *i >= size)
        return std::nullopt;
      place = place * size + *i;
    }
    return place;
  }

  /// As a scalar of the code, which has no sign.
  static Attribute elementOf(DenseElementsAttr data, uint64_t place) {
    if (!data)
      return {};
    Type element = data.getElementType();
    if (isa<FloatType>(element))
      return FloatAttr::get(element, *(data.getValues<APFloat>().begin() + place));
    return IntegerAttr::get(ScalarBuilder::scalarType(element), *(data.getValues<APInt>().begin() + place));
  }

  int64_t &budget;
  llvm::DenseMap<Value, Attribute> values;
  llvm::DenseMap<Value, DenseElementsAttr> inputs;
  Value output;
  std::vector<Attribute> *results = nullptr;
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
      interpreter.bind(operands.back(), values.lookup(operand));
    }
    Value result = addBuffer(type);
    std::vector<Attribute> elements(static_cast<size_t>(type.getNumElements()));
    interpreter.bind(result, elements);

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

  llvm::DenseMap<Value, DenseElementsAttr> values;
  int64_t &budget;
};
} // namespace

FailureOr<DenseElementsAttr> codegen::evaluate(Value value, int64_t &budget) {
  return Evaluator(budget).evaluate(value);
}
