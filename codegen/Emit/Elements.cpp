#include "codegen/Emit/Elements.h"

#include "codegen/Kernels/RowSets.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using graph::shapeOf;

/// The i-th of the inputs and outputs: an input, or the value that is returned as an output.
Value ElementEmitter::valueAt(unsigned i) {
  size_t inputs = kernel.getInputs().size();
  return i < inputs ? (Value)body.getArgument(i) : body.getTerminator()->getOperand(i - inputs);
}

/// Of a buffer's memref. Nothing looks at it, and kernels that do the same for tensors of other sizes have equal code.
static constexpr int64_t anySize = int64_t(1) << 40;

void ElementEmitter::addBuffers(ArrayRef<int64_t> buffers, SmallVectorImpl<Type> &types,
                                SmallVectorImpl<unsigned> &values) {
  llvm::DenseMap<int64_t, unsigned> known;
  for (auto [i, place] : llvm::enumerate(buffers)) {
    auto type = graph::tensorType(valueAt(i));
    unsigned which = values.size();
    // What has no elements has the place of something else, maybe of another type.
    if (type.getNumElements() != 0)
      which = known.try_emplace(place, which).first->second;
    if (which == values.size()) {
      types.push_back(MemRefType::get({anySize}, ScalarBuilder::scalarType(type.getElementType())));
      values.push_back(i);
    }
    argumentOf.push_back(which);
  }
}

void ElementEmitter::bind(func::FuncOp function, unsigned first) {
  for (auto [i, which] : llvm::enumerate(argumentOf)) {
    function.setArgAttr(first + which, "llvm.noalias", builder.getUnitAttr());
    buffer[valueAt(i)] = function.getArgument(first + which);
  }
}

func::FuncOp ElementEmitter::declare(StringRef name, ArrayRef<int64_t> buffers, ArrayRef<Type> more,
                                     SmallVectorImpl<unsigned> &values) {
  SmallVector<Type> types;
  addBuffers(buffers, types, values);
  llvm::append_range(types, more);
  auto function = func::FuncOp::create(builder, kernel.getLoc(), name, builder.getFunctionType(types, {}));
  function.setPrivate();
  function.addEntryBlock();
  bind(function, 0);
  return function;
}

Operation *ElementEmitter::serialStage() {
  for (Operation &op : body)
    if (isa<SerialInterface>(op) && op.hasAttr(exec::names::stage))
      return &op;
  return nullptr;
}

void ElementEmitter::emitSerialLoops(Operation *op, const SerialPiece &piece) {
  // A serial operation's result is addressed by its own shape.
  auto type = graph::tensorType(op->getResult(0));
  Value target = buffer.lookup(op->getResult(0));
  auto shaped = MemRefType::get(type.getShape(), ScalarBuilder::scalarType(type.getElementType()));
  if (target.getType() != shaped)
    target = memref::ReinterpretCastOp::create(builder, op->getLoc(), shaped, target, /*offset=*/0, type.getShape(),
                                               SmallVector<int64_t>(shaped.getStridesAndOffset().first));
  cast<SerialInterface>(op).emitSerial(
      s, piece, [&](unsigned i, ValueRange index) { return resolve(op->getOperand(i), index); }, target);
}

ElementEmitter::Values ElementEmitter::pointOf(const LoopDomain &domain, ValueRange inner, const Cluster &cluster) {
  Values point = rowIndex(domain.extents), moving;
  for (auto [extent, index] : llvm::zip(cluster.extents, inner))
    if (extent != 1)
      moving.push_back(index);
  size_t next = 0;
  for (size_t d = point.size(); d < domain.extents.size(); ++d)
    point.push_back(domain.extents[d] == 1 ? s.index(0) : moving[next++]);
  return point;
}

ElementEmitter::Values ElementEmitter::step(Operation *stage, ValueRange point, ValueRange accumulators, Value linear) {
  if (linear)
    known.push_back({llvm::to_vector(point), cast<LoopInterface>(stage).getLoopDomain().extents, linear});
  if (isFlat(stage))
    return cast<LoopInterface>(stage).emitStep(s, row, accumulators,
                                               [&](unsigned i, ValueRange) { return flat(stage->getOperand(i)); });
  return emitStep(stage, point, accumulators);
}

/// The number of the element at an index, if it is known.
Value ElementEmitter::linearAt(ValueRange index, ArrayRef<int64_t> shape) const {
  for (const KnownPoint &point : known)
    if (llvm::equal(index, point.index) && llvm::equal(shape, point.shape))
      return point.linear;
  return {};
}

/// Whether an operation's element has the number in its operand that it has in the result.
static bool keepsNumbers(Operation *op) {
  if (isa<graph::ReshapeOp>(op))
    return true;
  auto slice = dyn_cast<graph::SliceOp>(op); // the first ones along the outermost dimension
  return slice && llvm::all_of(slice.getStarts(), [](int64_t start) { return start == 0; }) &&
         llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; }) &&
         shapeOf(slice.getX()).drop_front() == shapeOf(slice.getResult()).drop_front();
}

ElementEmitter::Values ElementEmitter::emitStep(Operation *op, ValueRange point, ValueRange accumulators) {
  if (auto concat = dyn_cast<graph::ConcatOp>(op))
    if (Value element = concatOfBuffers(concat, point))
      return {element};
  Value linear = keepsNumbers(op) ? linearAt(point, shapeOf(op->getResult(0))) : Value();
  auto load = [&](unsigned i, ValueRange index) {
    if (linear)
      known.push_back({llvm::to_vector(index), llvm::to_vector(shapeOf(op->getOperand(i))), linear});
    return resolve(op->getOperand(i), index);
  };
  return cast<LoopInterface>(op).emitStep(s, point, accumulators, load);
}

namespace {
bool isElementwise(Operation *op) {
  return op->hasTrait<OpTrait::SameOperandsAndResultType>() || op->hasTrait<OpTrait::SameOperandsAndResultShape>();
}

/// Operands of a concatenation that are functions of elements of buffers, alike in all: the buffer and the row of the element (its number
/// along the dimensions up to the concatenated one) are chosen, so that one is loaded.
struct Alike {
  SmallVector<Operation *> functions; // the last one first
  Value source, row;

  bool operator==(const Alike &other) const {
    return source.getType() == other.source.getType() && llvm::equal(functions, other.functions, [](Operation *a, Operation *b) {
             auto elementOf = [](Value value) { return graph::tensorType(value).getElementType(); }; // with a sign, which buffers do not have
             return a->getName() == b->getName() && a->getName().compareOpProperties(a->getPropertiesStorage(), b->getPropertiesStorage()) &&
                    elementOf(a->getResult(0)) == elementOf(b->getResult(0)) && elementOf(a->getOperand(0)) == elementOf(b->getOperand(0));
           });
  }
};
} // namespace

/// Whether a value is the same in all iterations of the loop whose body is a block.
static bool isInvariant(Value value, Block *body) {
  SmallVector<Value> rest = {value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!rest.empty()) {
    Value next = rest.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (next.getParentBlock() != body || (op && !seen.insert(op).second))
      continue;
    if (!op || !isMemoryEffectFree(op))
      return false;
    llvm::append_range(rest, op->getOperands());
  }
  return true;
}

/// An element of a concatenation, if its operands' buffers can be chosen for several elements at once: for those that are
/// computed together and lie in the same operand (their places in it are consecutive in the code, too), or for all of the
/// innermost loop. Null otherwise.
Value ElementEmitter::concatOfBuffers(graph::ConcatOp concat, ValueRange point) {
  const int64_t dim = concat.getDim();
  const bool together = s.together.count > 1 && point[dim] == s.together.at &&
                        llvm::all_of(concat.getInputs(), [&](Value input) { return shapeOf(input)[dim] % s.together.count == 0; });
  Block *body = builder.getInsertionBlock();
  if (!together && (!isa<scf::ForOp>(body->getParentOp()) ||
                    !llvm::all_of(point.take_front(dim + 1), [&](Value index) { return isInvariant(index, body); })))
    return {};
  struct Part {
    Value here;    // the element is in this operand or in a later one
    int alike = -1; // or what `value` is
    Value value;
  };
  SmallVector<Part> parts;
  SmallVector<Alike> groups;
  // The place of the first of the elements is seen to be a multiple of their number.
  const int64_t count = together ? s.together.count : 1, offset = together ? s.together.offset : 0;
  Value first = together ? s.together.first : point[dim], piece = s.divIndex(first, count);
  for (int64_t start = 0; Value input : concat.getInputs()) {
    ArrayRef<int64_t> shape = shapeOf(input);
    int64_t size = shape[dim];
    if (size == 0)
      continue;
    Part &part = parts.emplace_back();
    part.here = s.op<arith::CmpIOp>(arith::CmpIPredicate::sge, first, s.index(start));
    Values index = llvm::to_vector(point);
    index[dim] = s.mulIndex(s.clampIndex(s.addIndex(piece, -start / count), size / count), count);
    SmallVector<Operation *> functions;
    if (Value source = bufferOf(input, functions)) {
      auto type = MemRefType::get({ShapedType::kDynamic}, cast<MemRefType>(source.getType()).getElementType());
      Value row = s.linearize(ValueRange(index).take_front(dim + 1), shape.take_front(dim + 1));
      Alike own{functions, s.op<memref::CastOp>(type, source), row};
      auto same = llvm::find(groups, own);
      part.alike = same - groups.begin();
      if (same == groups.end())
        groups.push_back(own);
      else
        same->source = s.select(part.here, own.source, same->source), same->row = s.select(part.here, own.row, same->row);
    } else {
      if (together) {
        index[dim] = s.addIndex(index[dim], offset);
        // Views of the operand keep its number: nothing is left to simplify, which could hide that places are consecutive.
        known.push_back({index, llvm::to_vector(shape), s.linearize(index, shape)});
      }
      part.value = resolve(input, index);
    }
    start += size;
  }
  SmallVector<Value> loaded;
  ArrayRef<int64_t> inner = shapeOf(concat.getResult()).drop_front(dim + 1);
  const int64_t stride = llvm::product_of(inner); // not 1 through a transposition
  for (const Alike &group : groups) {
    Value begin = s.mulIndex(group.row, stride), within = s.linearize(point.drop_front(dim + 1), inner);
    Value linear = s.addIndex(begin, within);
    Value element = s.load(group.source, s.addIndex(linear, offset * stride));
    for (Operation *op : llvm::reverse(group.functions))
      element = cast<LoopInterface>(op).emitStep(s, point, {}, [&](unsigned, ValueRange) { return element; })[0];
    loaded.push_back(element);
  }
  Value result;
  for (const Part &part : parts) {
    Value value = part.alike < 0 ? part.value : loaded[part.alike];
    result = !result || result == value ? value : s.select(part.here, value, result);
  }
  return result;
}

/// The buffer from whose element of the same number each element of a value is computed, by elementwise operations, which are
/// appended, the last one first; null if there is none.
Value ElementEmitter::bufferOf(Value value, SmallVectorImpl<Operation *> &functions) const {
  while (!current.count(value) && !scalar.count(value) && !temporary.count(value)) {
    if (Value source = buffer.lookup(value))
      return source;
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumOperands() != 1 || !(isElementwise(op) || isa<graph::ReshapeOp>(op)))
      break;
    if (!isa<graph::ReshapeOp>(op))
      functions.push_back(op);
    value = op->getOperand(0);
  }
  return {};
}

/// Elementwise operations of a kernel whose rows are single elements need no other index than the row's number.
bool ElementEmitter::isFlat(Operation *op) const {
  return isElementwise(op) && graph::tensorType(op->getResult(0)).getNumElements() == rows && rows > 1;
}

/// The element of a value that has one element in each row.
Value ElementEmitter::flat(Value value) {
  if (Value known = current.lookup(value))
    return known;
  if (Value known = scalar.lookup(value))
    return known;
  if (Value source = buffer.lookup(value))
    return s.load(source, row);
  Operation *op = value.getDefiningOp();
  if (isa<graph::ReshapeOp>(op))
    return flat(op->getOperand(0));
  if (!isFlat(op))
    return resolve(value, s.delinearize(row, shapeOf(value)));
  std::pair<const void *, const void *> key = {builder.getInsertionBlock(), value.getAsOpaquePointer()};
  if (auto it = flatMemo.find(key); it != flatMemo.end())
    return it->second;
  Value result = step(op, {}, {})[0];
  return flatMemo[key] = result;
}

Value ElementEmitter::resolve(Value value, ValueRange index) {
  if (Value known = current.lookup(value))
    return known;
  if (Value known = scalar.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast_or_null<graph::ConstantOp>(op))
    return splat(constant);
  if (Value kept = temporary.lookup(value)) {
    ArrayRef<int64_t> shape = shapeOf(value);
    int64_t leading = leadingRank(shape, rows);
    return s.load(kept, inTemporary(value, s.linearize(index.drop_front(leading), shape.drop_front(leading))));
  }
  if (Value source = buffer.lookup(value)) {
    Value linear = linearAt(index, shapeOf(value));
    if (linear && branches)
      return loadBeforeBranches(source, linear);
    return s.load(source, linear ? linear : s.linearize(index, shapeOf(value)));
  }
  SmallVector<const void *> key = {value.getAsOpaquePointer()};
  for (Value i : index) {
    IntegerAttr constant; // so that equal constants are recognised as equal indices
    key.push_back(matchPattern(i, m_Constant(&constant)) ? (const void *)constant.getAsOpaquePointer()
                                                         : i.getAsOpaquePointer());
  }
  key.push_back(builder.getInsertionBlock());
  auto it = memo.find(key);
  if (it != memo.end())
    return it->second;
  Value result = emitStep(op, index, {})[0];
  memo[key] = result;
  return result;
}

Value ElementEmitter::elementAt(Value value, Value linear) {
  Values index = s.delinearize(linear, shapeOf(value));
  known.push_back({index, llvm::to_vector(shapeOf(value)), linear});
  return resolve(value, index);
}

Value ElementEmitter::loadBeforeBranches(Value source, Value linear) {
  Value &loaded = loadedBefore[{source, linear}];
  if (!loaded) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(branches);
    loaded = s.load(source, linear);
  }
  return loaded;
}

Value ElementEmitter::splat(graph::ConstantOp constant) {
  auto data = cast<DenseElementsAttr>(constant.getValue());
  Type type = ScalarBuilder::scalarType(data.getElementType());
  auto typed = isa<FloatType>(type) ? (TypedAttr)FloatAttr::get(type, data.getSplatValue<APFloat>())
                                    : (TypedAttr)IntegerAttr::get(type, data.getSplatValue<APInt>());
  return arith::ConstantOp::create(builder, constant.getLoc(), typed);
}

void ElementEmitter::storeAt(Value value, Value element, Value linear) {
  if (Value target = temporary.lookup(value))
    return s.store(element, target, inTemporary(value, linear));
  s.store(element, buffer.lookup(value), inBuffer(value, linear));
}

Value ElementEmitter::loadAt(Value value, Value linear) {
  if (Value source = temporary.lookup(value))
    return s.load(source, inTemporary(value, linear));
  return s.load(buffer.lookup(value), inBuffer(value, linear));
}

Value ElementEmitter::inBuffer(Value value, Value linear) {
  int64_t inner = graph::tensorType(value).getNumElements() / rows;
  return inner == 1 ? row : s.addIndex(s.mulIndex(row, inner), linear);
}

Value ElementEmitter::inTemporary(Value value, Value linear) {
  int64_t inner = graph::tensorType(value).getNumElements() / rows;
  return temporaryBase ? s.addIndex(s.mulIndex(temporaryBase, inner), linear) : linear;
}

ElementEmitter::Values ElementEmitter::initials(const Cluster &cluster) {
  Values values;
  for (Operation *stage : cluster.stages)
    llvm::append_range(values, cast<LoopInterface>(stage).emitInit(s));
  return values;
}

ElementEmitter::Values ElementEmitter::stepAll(const Cluster &cluster, ValueRange inner, ValueRange accumulators,
                                               Value linear) {
  Values next;
  for (Operation *stage : cluster.stages) {
    size_t count = stage->getNumResults();
    LoopDomain domain = cast<LoopInterface>(stage).getLoopDomain();
    llvm::append_range(next, step(stage, pointOf(domain, inner, cluster), accumulators.take_front(count), linear));
    accumulators = accumulators.drop_front(count);
  }
  return next;
}

ElementEmitter::Values ElementEmitter::passPoint(const Cluster &cluster, ValueRange inner, ValueRange accumulators,
                                                 llvm::function_ref<void(Value, Value)> store, Value known) {
  forget();
  current.clear();
  Values next;
  SmallVector<std::pair<Value, Value>> stores; // value, element
  for (Operation *stage : cluster.stages) {
    LoopDomain domain = cast<LoopInterface>(stage).getLoopDomain();
    size_t count = domain.hasReduction() ? stage->getNumResults() : 0;
    Values values = step(stage, pointOf(domain, inner, cluster), accumulators.take_front(count), known);
    if (count) {
      llvm::append_range(next, values);
      accumulators = accumulators.drop_front(count);
    } else {
      current[stage->getResult(0)] = values[0];
      stores.push_back({stage->getResult(0), values[0]});
    }
  }
  for (auto [value, element] : stores)
    if (isInMemory(value))
      store(value, element);
  return next;
}

void ElementEmitter::storeResults(const Cluster &cluster, ArrayRef<Value> elements, Value linear) {
  for (Operation *stage : cluster.stages)
    for (Value result : stage->getResults()) {
      if (isInMemory(result)) // an unused result has no memory
        storeAt(result, elements.front(), linear);
      elements = elements.drop_front();
    }
}

ElementEmitter::Values ElementEmitter::mergeIndices(const Cluster &cluster, ValueRange kept, ValueRange reduced) {
  LoopDomain domain = cast<LoopInterface>(cluster.stages[0]).getLoopDomain();
  Values both;
  for (size_t d = leadingRank(domain.extents, rows), k = 0, r = 0; d < domain.extents.size(); ++d)
    both.push_back(domain.reduced[d] ? reduced[r++] : kept[k++]); // reduced dimensions of size 1 may be anywhere
  return both;
}
