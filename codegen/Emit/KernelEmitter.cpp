#include "codegen/Emit/KernelEmitter.h"

#include "codegen/Emit/Elements.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {

/// The least number of elements that is worth a thread, approximately.
constexpr int64_t elementsPerThread = 8192;

class KernelEmitter : ElementEmitter {
public:
  using ElementEmitter::ElementEmitter;

  EmittedKernel emit(StringRef name, ArrayRef<int64_t> buffers) {
    EmittedKernel result;
    Type index = builder.getIndexType();
    result.function = declare(name, buffers, {index, index}, result.values);
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
  void emitSerial(Operation *op, Value begin, Value end, EmittedKernel &result) {
    result.extent = std::max<int64_t>(1, cast<SerialInterface>(op).getParallelExtent());
    int64_t work = 0;
    for (Value operand : op->getOperands())
      work += graph::tensorType(operand).getNumElements();
    result.grain = std::max<int64_t>(16, elementsPerThread * result.extent / std::max<int64_t>(1, work));
    emitSerialLoops(op, {begin, end});
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

  /// Allocates a buffer of one row for values that are not outputs, unless a row is one element.
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

  /// Emits one loop nest in which every value is pointwise or reduces the whole row to one element.
  void emitPass(const Cluster &cluster) {
    Values results = s.loops(cluster.extents, initials(cluster), [&](ValueRange inner, ValueRange accumulators) {
      return passPoint(cluster, inner, accumulators, [&](Value value, Value element) {
        storeAt(value, element, s.linearize(inner, cluster.extents));
      });
    });
    forget();
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

  /// Emits reductions whose partial results are in the result's own memory: the innermost loop runs over result
  /// elements.
  void emitInMemory(const Cluster &cluster) {
    LoopDomain domain = cast<LoopInterface>(cluster.stages[0]).getLoopDomain();
    int64_t leading = leadingRank(domain.extents, rows);
    KeptAndReduced points = keptAndReduced(cluster, rows);
    s.loops(points.kept, {}, [&](ValueRange kept, ValueRange) -> Values {
      Value linear = s.linearize(kept, points.kept);
      storeResults(cluster, initials(cluster), linear);
      return {};
    });
    s.loops(ArrayRef<int64_t>(domain.extents).drop_front(leading), {}, [&](ValueRange inner, ValueRange) -> Values {
      forget();
      Values kept, accumulators;
      for (auto [i, value] : llvm::enumerate(inner))
        if (!domain.reduced[leading + i])
          kept.push_back(value);
      Value linear = s.linearize(kept, points.kept);
      for (Operation *stage : cluster.stages)
        for (Value result : stage->getResults())
          accumulators.push_back(loadAt(result, linear));
      storeResults(cluster, stepAll(cluster, inner, accumulators), linear);
      return {};
    });
    forget();
  }

  /// Emits reductions whose reduced dimensions are innermost: each result element has its own accumulators.
  void emitPerResult(const Cluster &cluster) {
    KeptAndReduced points = keptAndReduced(cluster, rows);
    s.loops(points.kept, {}, [&](ValueRange kept, ValueRange) -> Values {
      Values results = s.loops(points.reduced, initials(cluster), [&](ValueRange reduced, ValueRange accumulators) {
        forget();
        return stepAll(cluster, mergeIndices(cluster, kept, reduced), accumulators);
      });
      forget();
      storeResults(cluster, results, s.linearize(kept, points.kept));
      return {};
    });
  }
};
} // namespace

EmittedKernel codegen::emitKernel(OpBuilder &builder, exec::KernelOp kernel, StringRef name,
                                  ArrayRef<int64_t> buffers) {
  return KernelEmitter(builder, kernel).emit(name, buffers);
}
