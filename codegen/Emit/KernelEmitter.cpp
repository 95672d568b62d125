#include "codegen/Emit/KernelEmitter.h"

#include "codegen/Emit/Clusters.h"
#include "codegen/Kernels/RowSets.h"
#include "codegen/Lowering/ScalarBuilder.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

#include <map>

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using graph::shapeOf;

namespace {

/// A thread should have at least about this many elements to compute.
constexpr int64_t elementsPerThread = 8192;

class KernelEmitter {
public:
  using Values = SmallVector<Value>;

  KernelEmitter(OpBuilder &builder, exec::KernelOp kernel)
      : kernel(kernel), builder(builder), s(builder, kernel.getLoc()), body(kernel.getBody().front()),
        rows(kernel.getRows()) {}

  EmittedKernel emit(StringRef name, ArrayRef<int64_t> buffers) {
    EmittedKernel result;
    declare(name, buffers, result);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&result.function.getBody().front());
    unsigned count = result.values.size();
    Value begin = result.function.getArgument(count), end = result.function.getArgument(count + 1);
    if (auto serial = serialStage())
      emitSerial(serial, begin, end, result);
    else
      emitRows(begin, end, result);
    builder.setInsertionPointToEnd(&result.function.getBody().front());
    func::ReturnOp::create(builder, kernel.getLoc());
    return result;
  }

private:
  void declare(StringRef name, ArrayRef<int64_t> buffers, EmittedKernel &result) {
    llvm::DenseMap<int64_t, unsigned> argumentOf;
    SmallVector<Type> types;
    Operation *yield = body.getTerminator();
    auto valueAt = [&](unsigned i) {
      return i < kernel.getInputs().size() ? (Value)body.getArgument(i)
                                           : yield->getOperand(i - kernel.getInputs().size());
    };
    SmallVector<unsigned> argument;
    for (auto [i, buffer] : llvm::enumerate(buffers)) {
      auto [it, fresh] = argumentOf.try_emplace(buffer, types.size());
      if (fresh) {
        auto type = graph::tensorType(valueAt(i));
        types.push_back(MemRefType::get({type.getNumElements()}, ScalarBuilder::scalarType(type.getElementType())));
        result.values.push_back(i);
      }
      argument.push_back(it->second);
    }
    unsigned memrefs = types.size();
    types.append(2, builder.getIndexType());
    result.function = func::FuncOp::create(builder, kernel.getLoc(), name, builder.getFunctionType(types, {}));
    result.function.setPrivate();
    Block *entry = result.function.addEntryBlock();
    for (unsigned i = 0; i < memrefs; ++i)
      result.function.setArgAttr(i, "llvm.noalias", builder.getUnitAttr());
    for (auto [i, which] : llvm::enumerate(argument))
      buffer[valueAt(i)] = entry->getArgument(which);
  }

  Operation *serialStage() {
    for (Operation &op : body)
      if (isa<SerialInterface>(op) && op.hasAttr(exec::names::stage))
        return &op;
    return nullptr;
  }

  void emitSerial(Operation *op, Value begin, Value end, EmittedKernel &result) {
    auto serial = cast<SerialInterface>(op);
    result.extent = std::max<int64_t>(1, serial.getParallelExtent());
    int64_t work = 0;
    for (Value operand : op->getOperands())
      work += graph::tensorType(operand).getNumElements();
    result.grain = std::max<int64_t>(16, elementsPerThread * result.extent / std::max<int64_t>(1, work));
    // The result of a serial operation is addressed by its own shape.
    auto type = graph::tensorType(op->getResult(0));
    Value flat = buffer.lookup(op->getResult(0));
    auto shaped = MemRefType::get(type.getShape(), ScalarBuilder::scalarType(type.getElementType()));
    Value target = flat;
    if (type.getRank() != 1)
      target = memref::ReinterpretCastOp::create(builder, op->getLoc(), shaped, flat, /*offset=*/0, type.getShape(),
                                                 SmallVector<int64_t>(shaped.getStridesAndOffset().first));
    serial.emitSerial(s, begin, end, [&](unsigned i, ValueRange index) { return resolve(op->getOperand(i), index); },
                      target);
  }

  void emitRows(Value begin, Value end, EmittedKernel &result) {
    auto clusters = formClusters(kernel);
    int64_t points = 0;
    for (const Cluster &cluster : clusters)
      points += cluster.points;
    result.extent = rows;
    result.grain = std::max<int64_t>(1, elementsPerThread / std::max<int64_t>(1, points));
    allocateTemporaries(clusters);
    s.loop(begin, end, {}, [&](Value r, ValueRange) -> Values {
      row = r;
      for (const Cluster &cluster : clusters)
        emitCluster(cluster);
      return {};
    });
  }

  /// Stages that nobody outside needs get a buffer of one row, unless they are one element.
  void allocateTemporaries(ArrayRef<Cluster> clusters) {
    for (const Cluster &cluster : clusters)
      for (Operation *stage : cluster.stages)
        for (Value result : stage->getResults()) {
          int64_t inner = graph::tensorType(result).getNumElements() / rows;
          bool inMemory = cluster.kind != Cluster::Kind::pass || inner > 1;
          if (buffer.count(result) || !inMemory)
            continue;
          Type element = ScalarBuilder::scalarType(graph::tensorType(result).getElementType());
          temporary[result] = memref::AllocaOp::create(builder, kernel.getLoc(), MemRefType::get({inner}, element),
                                                       builder.getI64IntegerAttr(64));
        }
  }

  /// The index of this row's first dimensions.
  Values rowIndex(ArrayRef<int64_t> shape) { return s.delinearize(row, shape.take_front(leadingRank(shape, rows))); }

  void emitCluster(const Cluster &cluster) {
    switch (cluster.kind) {
    case Cluster::Kind::pass:
      return emitPass(cluster);
    case Cluster::Kind::accumulateInMemory:
      return emitInMemory(cluster);
    case Cluster::Kind::accumulatePerResult:
      return emitPerResult(cluster);
    }
  }

  /// One loop nest in which every stage is pointwise or reduces the whole row to one element.
  void emitPass(const Cluster &cluster) {
    Values carried;
    for (Operation *stage : cluster.stages)
      llvm::append_range(carried, cast<LoopInterface>(stage).emitInit(s));
    auto results = s.loops(cluster.extents, carried, [&](ValueRange inner, ValueRange accumulators) {
      memo.clear();
      current.clear();
      Values next, toStore;
      SmallVector<std::pair<Value, Value>> stores; // value, element
      for (Operation *stage : cluster.stages) {
        auto loop = cast<LoopInterface>(stage);
        LoopDomain domain = loop.getLoopDomain();
        size_t count = domain.hasReduction() ? loop.emitInit(s).size() : 0;
        Values point = pointOf(domain, inner, cluster);
        auto values = step(stage, point, accumulators.take_front(count));
        if (count) {
          llvm::append_range(next, values);
          accumulators = accumulators.drop_front(count);
        } else {
          current[stage->getResult(0)] = values[0];
          stores.push_back({stage->getResult(0), values[0]});
        }
      }
      for (auto [value, element] : stores)
        storeInner(value, element, inner, cluster);
      return next;
    });
    memo.clear();
    ArrayRef<Value> rest = results;
    for (Operation *stage : cluster.stages) {
      if (!cast<LoopInterface>(stage).getLoopDomain().hasReduction()) {
        if (cluster.points == 1)
          scalar[stage->getResult(0)] = current.lookup(stage->getResult(0));
        continue;
      }
      for (Value result : stage->getResults()) {
        scalar[result] = rest.front();
        if (Value target = buffer.lookup(result))
          s.store(rest.front(), target, row);
        rest = rest.drop_front();
      }
    }
    current.clear();
  }

  /// Partial results in the result's own memory: the innermost loop runs over result elements.
  void emitInMemory(const Cluster &cluster) {
    LoopDomain domain = cast<LoopInterface>(cluster.stages[0]).getLoopDomain();
    int64_t leading = leadingRank(domain.extents, rows);
    SmallVector<int64_t> kept;
    for (size_t d = leading; d < domain.extents.size(); ++d)
      if (!domain.reduced[d])
        kept.push_back(domain.extents[d]);
    s.loops(kept, {}, [&](ValueRange inner, ValueRange) -> Values {
      Value linear = s.linearize(inner, kept);
      for (Operation *stage : cluster.stages)
        for (auto [result, value] : llvm::zip(stage->getResults(), cast<LoopInterface>(stage).emitInit(s)))
          storeAt(result, value, linear);
      return {};
    });
    s.loops(ArrayRef<int64_t>(domain.extents).drop_front(leading), {}, [&](ValueRange inner, ValueRange) -> Values {
      memo.clear();
      Values keptIndex;
      for (auto [i, value] : llvm::enumerate(inner))
        if (!domain.reduced[leading + i])
          keptIndex.push_back(value);
      Value linear = s.linearize(keptIndex, kept);
      for (Operation *stage : cluster.stages) {
        Values accumulators;
        for (Value result : stage->getResults())
          accumulators.push_back(loadAt(result, linear));
        auto values = step(stage, pointOf(domain, inner, cluster), accumulators);
        for (auto [result, value] : llvm::zip(stage->getResults(), values))
          storeAt(result, value, linear);
      }
      return {};
    });
    memo.clear();
  }

  /// The reduced dimensions are innermost: each result element has its own accumulators.
  void emitPerResult(const Cluster &cluster) {
    LoopDomain domain = cast<LoopInterface>(cluster.stages[0]).getLoopDomain();
    int64_t leading = leadingRank(domain.extents, rows);
    SmallVector<int64_t> kept, reduced;
    for (size_t d = leading; d < domain.extents.size(); ++d)
      (domain.reduced[d] ? reduced : kept).push_back(domain.extents[d]);
    s.loops(kept, {}, [&](ValueRange outer, ValueRange) -> Values {
      Values carried;
      for (Operation *stage : cluster.stages)
        llvm::append_range(carried, cast<LoopInterface>(stage).emitInit(s));
      auto results = s.loops(reduced, carried, [&](ValueRange inner, ValueRange accumulators) {
        memo.clear();
        Values both, next;
        for (size_t d = leading, k = 0, r = 0; d < domain.extents.size(); ++d) // reduced dimensions of size 1 lie anywhere
          both.push_back(domain.reduced[d] ? inner[r++] : outer[k++]);
        for (Operation *stage : cluster.stages) {
          size_t count = stage->getNumResults();
          llvm::append_range(next, step(stage, pointOf(domain, both, cluster), accumulators.take_front(count)));
          accumulators = accumulators.drop_front(count);
        }
        return next;
      });
      memo.clear();
      Value linear = s.linearize(outer, kept);
      size_t i = 0;
      for (Operation *stage : cluster.stages)
        for (Value result : stage->getResults())
          storeAt(result, results[i++], linear);
      return {};
    });
  }

  /// The full point of a stage's domain for the loop indices of a cluster with the same extents but for ones.
  Values pointOf(const LoopDomain &domain, ValueRange inner, const Cluster &cluster) {
    Values point = rowIndex(domain.extents), moving;
    for (auto [extent, index] : llvm::zip(cluster.extents, inner))
      if (extent != 1)
        moving.push_back(index);
    size_t next = 0;
    for (size_t d = point.size(); d < domain.extents.size(); ++d)
      point.push_back(domain.extents[d] == 1 ? s.index(0) : moving[next++]);
    return point;
  }

  Values step(Operation *stage, ValueRange point, ValueRange accumulators) {
    auto load = [&](unsigned i, ValueRange index) { return resolve(stage->getOperand(i), index); };
    if (isFlat(stage))
      return cast<LoopInterface>(stage).emitStep(s, row, accumulators,
                                                 [&](unsigned i, ValueRange) { return flat(stage->getOperand(i)); });
    return cast<LoopInterface>(stage).emitStep(s, point, accumulators, load);
  }

  /// Elementwise operations of a kernel whose rows are single elements need no index but the row number.
  bool isFlat(Operation *op) const {
    bool elementwise = op->hasTrait<OpTrait::SameOperandsAndResultType>() ||
                       op->hasTrait<OpTrait::SameOperandsAndResultShape>();
    return elementwise && graph::tensorType(op->getResult(0)).getNumElements() == rows && rows > 1;
  }

  /// The element of a value with one element per row.
  Value flat(Value value) {
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
    auto [it, fresh] = flatMemo.try_emplace({builder.getInsertionBlock(), value}, Value());
    if (!fresh)
      return it->second;
    Value result = step(op, {}, {})[0];
    return flatMemo[{builder.getInsertionBlock(), value}] = result;
  }

  /// The element of a value at an index: known, loaded or computed.
  Value resolve(Value value, ValueRange index) {
    if (Value known = current.lookup(value))
      return known;
    if (Value known = scalar.lookup(value))
      return known;
    Operation *op = value.getDefiningOp();
    if (auto constant = dyn_cast_or_null<graph::ConstantOp>(op))
      return splat(constant);
    if (Value row = temporary.lookup(value)) {
      ArrayRef<int64_t> shape = shapeOf(value);
      int64_t leading = leadingRank(shape, rows);
      return s.load(row, s.linearize(index.drop_front(leading), shape.drop_front(leading)));
    }
    if (Value source = buffer.lookup(value))
      return s.load(source, s.linearize(index, shapeOf(value)));
    SmallVector<const void *> key = {value.getAsOpaquePointer()};
    for (Value i : index) {
      IntegerAttr constant; // equal constants are equal indices
      key.push_back(matchPattern(i, m_Constant(&constant)) ? (const void *)constant.getAsOpaquePointer()
                                                          : i.getAsOpaquePointer());
    }
    key.push_back(builder.getInsertionBlock());
    auto it = memo.find(key);
    if (it != memo.end())
      return it->second;
    auto load = [&](unsigned i, ValueRange at) { return resolve(op->getOperand(i), at); };
    Value result = cast<LoopInterface>(op).emitStep(s, index, {}, load)[0];
    memo[key] = result;
    return result;
  }

  Value splat(graph::ConstantOp constant) {
    auto data = cast<DenseElementsAttr>(constant.getValue());
    Type type = ScalarBuilder::scalarType(data.getElementType());
    auto typed = isa<FloatType>(type) ? (TypedAttr)FloatAttr::get(type, data.getSplatValue<APFloat>())
                                      : (TypedAttr)IntegerAttr::get(type, data.getSplatValue<APInt>());
    return arith::ConstantOp::create(builder, constant.getLoc(), typed);
  }

  void storeInner(Value value, Value element, ValueRange inner, const Cluster &cluster) {
    if (buffer.count(value) || temporary.count(value))
      storeAt(value, element, s.linearize(inner, cluster.extents));
  }
  /// Stores into this row of a value, `linear` counting the row's elements.
  void storeAt(Value value, Value element, Value linear) {
    if (Value target = temporary.lookup(value))
      return s.store(element, target, linear);
    s.store(element, buffer.lookup(value), inBuffer(value, linear));
  }
  Value loadAt(Value value, Value linear) {
    if (Value source = temporary.lookup(value))
      return s.load(source, linear);
    return s.load(buffer.lookup(value), inBuffer(value, linear));
  }
  Value inBuffer(Value value, Value linear) {
    int64_t inner = graph::tensorType(value).getNumElements() / rows;
    return inner == 1 ? row : s.addIndex(s.mulIndex(row, inner), linear);
  }

  exec::KernelOp kernel;
  OpBuilder &builder;
  ScalarBuilder s;
  Block &body;
  int64_t rows;
  Value row;
  llvm::DenseMap<Value, Value> buffer;    // values that lie in the arena
  llvm::DenseMap<Value, Value> temporary; // stages of which one row is kept
  llvm::DenseMap<Value, Value> scalar;    // stages with one element per row: in a register
  llvm::DenseMap<Value, Value> current;   // stages of the loop nest being emitted, at its point
  std::map<SmallVector<const void *>, Value> memo;
  std::map<std::pair<Block *, Value>, Value, bool (*)(const std::pair<Block *, Value> &, const std::pair<Block *, Value> &)>
      flatMemo{[](const auto &a, const auto &b) {
        return std::make_pair((void *)a.first, a.second.getAsOpaquePointer()) <
               std::make_pair((void *)b.first, b.second.getAsOpaquePointer());
      }};
};
} // namespace

EmittedKernel codegen::emitKernel(OpBuilder &builder, exec::KernelOp kernel, StringRef name, ArrayRef<int64_t> buffers) {
  return KernelEmitter(builder, kernel).emit(name, buffers);
}
