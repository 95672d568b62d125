#include "codegen/Cuda/CudaKernel.h"

#include "codegen/Cuda/Mapping.h"
#include "codegen/Cuda/ScatterRows.h"
#include "codegen/Cuda/ThreadGroup.h"
#include "codegen/Emit/Elements.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {

/// Up to this number of steps, reductions of a thread are unrolled.
constexpr int64_t mostUnrolled = 64;

class CudaKernelEmitter : ElementEmitter {
public:
  using ElementEmitter::ElementEmitter;

  using ElementEmitter::addBuffers;
  using ElementEmitter::bind;

  /// Decides how threads share the work, and binds the kernel's values to arguments of the function.
  void plan(func::FuncOp function) {
    if (Operation *serial = serialStage()) {
      mapping = mapSerial(serial);
    } else {
      clusters = formClusters(kernel);
      mapping = mapKernel(kernel, clusters, temporaryBytes());
    }
    threadGroup = std::make_unique<ThreadGroup>(s, function, mapping.group);
  }
  int64_t blocks() const { return mapping.blocks(); }
  int64_t threads() const { return mapping.threads(); }

  /// Emits the code of a thread of a block. Thread indices are 32-bit, so that divisions of them are, too.
  void emitThread(Value blockNumber) {
    Value thread = NVVM::ThreadIdXOp::create(builder, kernel.getLoc(), builder.getI32Type());
    bool columns = mapping.kind == GpuMapping::Kind::columns; // neighbours have pieces side by side
    int64_t together = columns ? mapping.perBlock : mapping.group;
    Value above = s.op<arith::DivUIOp>(thread, word(together)), below = s.op<arith::RemUIOp>(thread, word(together));
    Value inBlock = columns ? below : above;
    block = toIndex(blockNumber);
    lane = toIndex(columns ? above : below);
    threadGroup->setLane(lane);
    groupInBlock = toIndex(inBlock);
    bool small = mapping.blocks() * mapping.perBlock <= INT32_MAX;
    Value piece = small
                      ? toIndex(s.op<arith::AddIOp>(s.op<arith::MulIOp>(blockNumber, word(mapping.perBlock)), inBlock))
                      : s.addIndex(s.mulIndex(block, mapping.perBlock), groupInBlock);
    Value there = mapping.count % mapping.perBlock == 0 ? Value() : s.inRange(piece, mapping.count);
    if (columns)
      return emitColumns(piece, there);
    s.when(there, [&] {
      switch (mapping.kind) {
      case GpuMapping::Kind::elements:
        return emitElements(piece);
      case GpuMapping::Kind::rows:
        return emitRows(piece);
      case GpuMapping::Kind::results:
      case GpuMapping::Kind::columns:
        return emitResult(piece);
      case GpuMapping::Kind::serial:
        return emitSerialLoops(serialStage(), {piece, s.addIndex(piece, 1)});
      case GpuMapping::Kind::scatter:
        return emitScatter();
      }
    });
  }

  /// Emits the kernel into the blocks [first, first + blocks()) of a launch of several kernels.
  void emitWithin(Value blockNumber, int64_t first) {
    Value own = first == 0 ? blockNumber : s.op<arith::SubIOp>(blockNumber, word(first)); // wraps around below `first`
    s.when(s.op<arith::CmpIOp>(arith::CmpIPredicate::ult, own, word(mapping.blocks())), [&] { emitThread(own); });
  }

private:
  Value toIndex(Value number) {
    return arith::IndexCastUIOp::create(builder, kernel.getLoc(), builder.getIndexType(), number);
  }

  void emitScatter() {
    auto scatter = cast<graph::ScatterAddOp>(serialStage());
    ScatterRows rows{s, *threadGroup, scatter, mapping, buffer.lookup(scatter.getResult())};
    rows.emit(block, groupInBlock, lane, [&](unsigned operand, Value linear) {
      forget();
      return elementAt(scatter->getOperand(operand), linear);
    });
  }

  /// Runs `then` on one thread of the piece's group.
  void once(llvm::function_ref<void()> then) {
    s.when(mapping.group == 1 ? Value() : s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, lane, s.index(0)), then);
  }

  Value word(int64_t value) { return s.integer(builder.getI32Type(), value); }

  /// Calls use(value, elements of a row, their type) for each materialized value of which a row is kept in memory.
  void forEachTemporary(llvm::function_ref<void(Value, int64_t, Type)> use) {
    for (const Cluster &cluster : clusters)
      for (Operation *stage : cluster.stages)
        for (Value result : stage->getResults()) {
          auto type = graph::tensorType(result);
          int64_t inner = type.getNumElements() / rows;
          if (!buffer.count(result) && (cluster.kind != Cluster::Kind::pass || inner > 1))
            use(result, inner, ScalarBuilder::scalarType(type.getElementType()));
        }
  }
  int64_t temporaryBytes() {
    int64_t bytes = 0;
    forEachTemporary([&](Value, int64_t inner, Type element) {
      bytes += inner * std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
    });
    return bytes;
  }

  /// The indices of point `first` + `offset` of a nest, for `first` a multiple of `count` and `offset` less. The
  /// dimensions that the offset cannot change have the same indices for all offsets.
  Values indicesOf(Value first, int64_t offset, int64_t count, ArrayRef<int64_t> extents) {
    size_t from = extents.size();
    int64_t inner = 1;
    while (from > 0 && (inner == 1 || inner % count != 0))
      inner *= extents[--from];
    Values at = s.delinearize(s.divIndex(first, inner), extents.take_front(from));
    Value rest = from == 0 ? first : s.remIndex(first, inner);
    Values varying = s.delinearize(s.addIndex(rest, offset), extents.drop_front(from));
    llvm::append_range(at, varying);
    suffix = {rest, inner};
    s.together = {};
    ArrayRef<int64_t> last = extents.drop_front(from);
    auto isLong = [](int64_t extent) { return extent != 1; };
    if (llvm::count_if(last, isLong) == 1)
      s.together = {rest, varying[llvm::find_if(last, isLong) - last.begin()], offset, count};
    return at;
  }

  /// Emits some consecutive elements.
  void emitElements(Value piece) {
    const Cluster &first = clusters.front();
    int64_t each = mapping.each, points = first.points;
    Values numbers;
    for (int64_t i = 0; i < each; ++i)
      numbers.push_back(s.addIndex(s.mulIndex(piece, each), i));
    if (points == 1 || points % each == 0) {
      Value pieceOfRow;
      if (points > 1) {
        row = s.divIndex(piece, points / each);
        pieceOfRow = s.remIndex(piece, points / each);
      }
      return emitTogether(numbers, [&](int64_t i, Value linear) -> Values {
        if (points > 1)
          return indicesOf(s.mulIndex(pieceOfRow, each), i, each, first.extents);
        row = linear;
        return {};
      });
    }
    // Rows do not end where pieces do: most pieces lie within a row.
    Value own = s.divIndex(numbers[0], points), within = s.remIndex(numbers[0], points);
    Value inRow = s.op<arith::CmpIOp>(arith::CmpIPredicate::ule, within, s.index(points - each));
    auto branch = scf::IfOp::create(builder, kernel.getLoc(), inRow, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    branches = branch; // loads that both branches begin with would not be vectorized with the others
    builder.setInsertionPoint(branch.thenBlock()->getTerminator());
    emitTogether(numbers, [&](int64_t i, Value) {
      row = own;
      return s.delinearize(s.addIndex(within, i), first.extents);
    });
    builder.setInsertionPoint(branch.elseBlock()->getTerminator());
    emitTogether(numbers, [&](int64_t, Value linear) {
      row = s.divIndex(linear, points);
      return s.delinearize(s.remIndex(linear, points), first.extents);
    });
    branches = nullptr;
  }

  /// Emits the elements of these numbers: first all loads and the arithmetic, then all stores, so that loads and stores
  /// can be vectorized. `find` sets the row of the i-th and returns its indices within the row, which has none if it is
  /// one element.
  void emitTogether(ValueRange numbers, llvm::function_ref<Values(int64_t i, Value linear)> find) {
    struct Store {
      Value value, element, linear;
    };
    SmallVector<Store> stores;
    for (auto [i, linear] : llvm::enumerate(numbers)) {
      forget();
      scalar.clear();
      Values at = find(i, linear);
      for (const Cluster &cluster : clusters)
        emitPoint(cluster, at.empty() ? zeros(cluster) : at, linear, [&, linear = linear](Value value, Value element) {
          stores.push_back({value, element, linear});
        });
    }
    s.together = {};
    for (const Store &store : stores)
      s.store(store.element, buffer.lookup(store.value), store.linear);
  }

  Values zeros(const Cluster &cluster) { return Values(cluster.extents.size(), s.index(0)); }

  /// Emits all materialized values of a cluster at one point, which makes their elements known. A reduction has one
  /// step here. `linear`: the number of the point among those of all rows, if it is known.
  void emitPoint(const Cluster &cluster, ValueRange inner, Value linear, llvm::function_ref<void(Value, Value)> store) {
    for (Operation *stage : cluster.stages) {
      auto loop = cast<LoopInterface>(stage);
      LoopDomain domain = loop.getLoopDomain();
      Values start = domain.hasReduction() ? loop.emitInit(s) : Values();
      Values elements = step(stage, pointOf(domain, inner, cluster), start, linear);
      for (auto [result, element] : llvm::zip(stage->getResults(), elements)) {
        scalar[result] = element;
        if (isInMemory(result))
          store(result, element);
      }
    }
  }

  void emitRows(Value piece) {
    forEachTemporary([&](Value value, int64_t inner, Type element) {
      temporary[value] = mapping.scratch
                             ? threadGroup->allocate(element, mapping.blocks() * inner, ThreadGroup::globalSpace)
                             : threadGroup->allocate(element, mapping.perBlock * inner, ThreadGroup::sharedSpace);
    });
    temporaryBase = mapping.scratch ? block : mapping.perBlock > 1 ? groupInBlock : Value();
    auto emitRow = [&](Value r) {
      row = r;
      for (const Cluster &cluster : clusters) {
        emitCluster(cluster);
        if (mapping.scratch || &cluster != &clusters.back())
          threadGroup->sync();
      }
    };
    if (!mapping.scratch)
      return emitRow(piece);
    s.loop(
        piece, s.index(rows), {},
        [&](Value r, ValueRange) -> Values {
          emitRow(r);
          return {};
        },
        mapping.blocks());
  }

  void emitCluster(const Cluster &cluster) {
    forget();
    if (cluster.points == 1)
      emitPoint(cluster, zeros(cluster), /*linear=*/{},
                [&](Value value, Value element) { once([&] { storeAt(value, element, s.index(0)); }); });
    else if (cluster.kind == Cluster::Kind::pass)
      emitPass(cluster);
    else
      emitKept(cluster);
    forget();
  }

  /// Shares the numbers below `count` out among the threads of the group; returns what each has accumulated.
  Values shareOut(int64_t count, ValueRange initial, llvm::function_ref<Values(Value, ValueRange)> body) {
    int64_t rounds = count / mapping.group, rest = count % mapping.group;
    if (rounds < 2 && rest != 0)
      return s.loop(lane, s.index(count), initial, body, mapping.group);
    auto own = [&](Value i, ValueRange accumulators) {
      return body(s.addIndex(s.mulIndex(i, mapping.group), lane), accumulators);
    };
    Values values = s.loop(s.index(0), s.index(rounds), initial, own); // as often for all, which can be unrolled
    if (rest == 0)
      return values;
    return s.loop(s.addIndex(lane, rounds * mapping.group), s.index(count), values, body, mapping.group);
  }

  /// The accumulators of a row's points, of which the threads take some consecutive ones in turn.
  Values emitPoints(const Cluster &cluster) {
    int64_t points = cluster.points, each = elementsTogether(kernel, cluster, mapping.group, !temporary.empty());
    SmallVector<std::tuple<Value, Value, Value>> stores; // behind all loads, which can be vectorized then
    auto point = [&](Value i, Values at, Value linear, ValueRange accumulators) {
      auto store = [&](Value value, Value element) { stores.push_back({value, element, i}); };
      return passPoint(cluster, at, accumulators, store, linear);
    };
    auto storeAll = [&] {
      for (auto [value, element, i] : stores)
        storeAt(value, element, i);
      stores.clear();
      s.together = {};
    };
    if (points % each == 0) {
      Value before = s.mulIndex(row, points / each);
      return shareOut(points / each, initials(cluster), [&](Value piece, ValueRange accumulators) {
        Value first = s.mulIndex(piece, each), whole = s.mulIndex(s.addIndex(before, piece), each);
        Values values = llvm::to_vector(accumulators);
        for (int64_t i = 0; i < each; ++i)
          values =
              point(s.addIndex(first, i), indicesOf(first, i, each, cluster.extents), s.addIndex(whole, i), values);
        storeAll();
        return values;
      });
    }
    // The pieces of all rows together, so that they are aligned; then the points before the first and after the last.
    Value begin = s.mulIndex(row, points), end = s.addIndex(begin, points);
    Value firstPiece = s.divIndex(s.addIndex(begin, each - 1), each), lastPiece = s.divIndex(end, each);
    auto single = [&](Value linear, ValueRange accumulators) {
      Value i = s.subIndex(linear, begin);
      return point(i, s.delinearize(i, cluster.extents), linear, accumulators);
    };
    Values partial = s.loop(
        s.addIndex(firstPiece, lane), lastPiece, initials(cluster),
        [&](Value piece, ValueRange accumulators) {
          Values values = llvm::to_vector(accumulators);
          for (int64_t i = 0; i < each; ++i)
            values = single(s.addIndex(s.mulIndex(piece, each), i), values);
          storeAll();
          return values;
        },
        mapping.group);
    Value head = s.subIndex(s.mulIndex(firstPiece, each), begin), tailBegin = s.mulIndex(lastPiece, each);
    Value ends = s.addIndex(head, s.subIndex(end, tailBegin));
    return s.loop(
        lane, ends, partial,
        [&](Value i, ValueRange accumulators) {
          Value inHead = s.op<arith::CmpIOp>(arith::CmpIPredicate::ult, i, head);
          Value linear = s.select(inHead, s.addIndex(begin, i), s.addIndex(tailBegin, s.subIndex(i, head)));
          Values values = single(linear, accumulators);
          storeAll();
          return values;
        },
        mapping.group);
  }

  /// Emits pointwise values and reductions of a whole row: the threads share the row's points.
  void emitPass(const Cluster &cluster) {
    Values partial = emitPoints(cluster);
    current.clear();
    forget();
    ArrayRef<Value> rest = partial;
    for (Operation *stage : cluster.stages)
      if (cast<LoopInterface>(stage).getLoopDomain().hasReduction()) {
        Values whole = threadGroup->combine(stage, Values(rest.take_front(stage->getNumResults())));
        rest = rest.drop_front(stage->getNumResults());
        for (auto [result, element] : llvm::zip(stage->getResults(), whole)) {
          scalar[result] = element;
          if (isInMemory(result))
            once([&, result = result, element = element] { storeAt(result, element, s.index(0)); });
        }
      }
  }

  /// Emits reductions with several results in a row: each thread computes whole results.
  void emitKept(const Cluster &cluster) {
    KeptAndReduced points = keptAndReduced(cluster, rows);
    int64_t each = resultsTogether(kernel, cluster, mapping.group);
    auto loop = [&](Value i, ValueRange) -> Values {
      if (each > 1)
        emitResultsOfThread(cluster, points, s.mulIndex(i, each), each);
      else
        storeResults(cluster, reduce(cluster, points, s.delinearize(i, points.kept)), i);
      return {};
    };
    s.loop(lane, s.index(points.keptPoints / each), {}, loop, mapping.group);
  }

  /// Emits one result of each reduction, by one thread, a warp or a block; or some consecutive ones by a thread.
  void emitResult(Value piece) {
    const Cluster &cluster = clusters.front();
    KeptAndReduced points = keptAndReduced(cluster, rows);
    if (mapping.group == 1) {
      int64_t pieces = points.keptPoints / mapping.each;
      row = s.divIndex(piece, pieces);
      return emitResultsOfThread(cluster, points, s.mulIndex(s.remIndex(piece, pieces), mapping.each), mapping.each);
    }
    row = s.divIndex(piece, points.keptPoints);
    Value linear = s.remIndex(piece, points.keptPoints);
    Values kept = s.delinearize(linear, points.kept);
    Values results = reduceTogether(cluster, points, kept), whole;
    for (auto [stage, part] : llvm::zip(cluster.stages, results))
      llvm::append_range(whole, threadGroup->combine(stage, {part}));
    once([&] { storeResults(cluster, whole, linear); });
  }

  /// Emits the `each` consecutive results of a row from `first` on, by one thread.
  void emitResultsOfThread(const Cluster &cluster, const KeptAndReduced &points, Value first, int64_t each) {
    Values values = initialsTogether(cluster, each);
    if (points.reducedPoints * each <= mostUnrolled)
      for (int64_t point = 0; point < points.reducedPoints; ++point) // here, so that windows' places fold
        values = stepTogether(cluster, points, first, each, s.delinearize(s.index(point), points.reduced), values);
    else
      values = s.loops(points.reduced, values, [&](ValueRange reduced, ValueRange accumulators) {
        return stepTogether(cluster, points, first, each, reduced, accumulators);
      });
    forget();
    size_t results = values.size() / each;
    for (int64_t i = 0; i < each; ++i)
      storeResults(cluster, ArrayRef<Value>(values).slice(i * results, results), s.addIndex(first, i));
  }

  /// The initial accumulators of consecutive results.
  Values initialsTogether(const Cluster &cluster, int64_t each) {
    Values start;
    for (int64_t i = 0; i < each; ++i)
      llvm::append_range(start, initials(cluster));
    return start;
  }

  /// One step of the `each` consecutive results from `first` on at a reduced point: the new accumulators.
  Values stepTogether(const Cluster &cluster, const KeptAndReduced &points, Value first, int64_t each,
                      ValueRange reduced, ValueRange accumulators) {
    size_t results = accumulators.size() / each;
    Values next;
    Value begin;
    for (int64_t i = 0; i < each; ++i) {
      Values inner = mergeIndices(cluster, indicesOf(first, i, each, points.kept), reduced);
      if (i == 0 && each > 1)
        begin = numberOf(cluster, inner);
      forget();
      llvm::append_range(next, stepAll(cluster, inner, accumulators.slice(i * results, results),
                                       begin ? s.addIndex(begin, i) : Value()));
    }
    s.together = {};
    return next;
  }

  /// The accumulators of a cluster's reductions over all reduced points.
  Values reduce(const Cluster &cluster, const KeptAndReduced &points, ValueRange kept) {
    Values results = s.loops(points.reduced, initials(cluster), [&](ValueRange reduced, ValueRange accumulators) {
      forget();
      return stepAll(cluster, mergeIndices(cluster, kept, reduced), accumulators);
    });
    forget();
    return results;
  }

  /// The number of the element at a point of the reductions' loops, whose innermost indices are those that `indicesOf`
  /// returned for offset 0: a sum of multiples of the number of points together, as the loads' alignment needs it.
  Value numberOf(const Cluster &cluster, ValueRange inner) {
    LoopDomain domain = cast<LoopInterface>(cluster.stages[0]).getLoopDomain();
    Values point = pointOf(domain, inner, cluster);
    size_t outer = domain.extents.size();
    for (int64_t points = 1; points < suffix.points;)
      points *= domain.extents[--outer];
    Value before =
        s.linearize(ValueRange(point).take_front(outer), ArrayRef<int64_t>(domain.extents).take_front(outer));
    return s.addIndex(s.mulIndex(before, suffix.points), suffix.first);
  }

  /// The same over this thread's share of the points: it takes some consecutive ones at a time.
  Values reduceTogether(const Cluster &cluster, const KeptAndReduced &points, ValueRange kept) {
    if (mapping.run > 0)
      return reduceRuns(cluster, points, kept);
    int64_t each = mapping.each;
    auto pieces = [&](Value piece, ValueRange accumulators) {
      Values values = llvm::to_vector(accumulators);
      Value first = s.mulIndex(piece, each), begin;
      for (int64_t i = 0; i < each; ++i) {
        Values inner = mergeIndices(cluster, kept, indicesOf(first, i, each, points.reduced));
        begin = i == 0 ? numberOf(cluster, inner) : begin;
        forget();
        values = stepAll(cluster, inner, values, s.addIndex(begin, i));
      }
      s.together = {};
      return values;
    };
    Values results = shareOut(points.reducedPoints / each, initials(cluster), pieces);
    forget();
    return results;
  }

  /// The same where consecutive points, `mapping.run` of them, begin at any element: aligned pieces cover them, and
  /// what a piece has of other elements does not count.
  Values reduceRuns(const Cluster &cluster, const KeptAndReduced &points, ValueRange kept) {
    LoopDomain domain = cast<LoopInterface>(cluster.stages[0]).getLoopDomain();
    int64_t each = mapping.each, run = mapping.run, pieces = llvm::divideCeil(run + each - 1, each), covered = 1;
    size_t outer = points.reduced.size();
    while (covered < run)
      covered *= points.reduced[--outer];
    ArrayRef<int64_t> runs = ArrayRef<int64_t>(points.reduced).take_front(outer);
    ArrayRef<int64_t> within = ArrayRef<int64_t>(points.reduced).drop_front(outer);
    auto body = [&](Value number, ValueRange accumulators) {
      Values values = llvm::to_vector(accumulators), at = s.delinearize(s.divIndex(number, pieces), runs);
      auto indicesAt = [&](Value offset) {
        Values reduced = at;
        llvm::append_range(reduced, s.delinearize(offset, within));
        return mergeIndices(cluster, kept, reduced);
      };
      Value begin = s.linearize(pointOf(domain, indicesAt(s.index(0)), cluster), domain.extents);
      Value first = s.mulIndex(s.addIndex(s.divIndex(begin, each), s.remIndex(number, pieces)), each), from = first;
      if (run % each != 1) // there are runs without elements in their last piece, which may lie behind all elements
        from = s.op<arith::MinUIOp>(first, s.index(domain.points() - each));
      for (int64_t i = 0; i < each; ++i) {
        Value offset = s.subIndex(s.addIndex(first, i), begin), inside = s.inRange(offset, run);
        Values inner = indicesAt(s.select(inside, offset, s.index(0)));
        forget();
        Values next = stepAll(cluster, inner, values, s.addIndex(from, i));
        for (auto [value, other] : llvm::zip(values, next))
          value = s.select(inside, other, value);
      }
      return values;
    };
    Values results = shareOut(points.reducedPoints / run * pieces, initials(cluster), body);
    forget();
    return results;
  }

  /// Emits consecutive results of reductions along a dimension that is kept. The threads of a piece are in different
  /// warps.
  void emitColumns(Value piece, Value there) {
    const Cluster &cluster = clusters.front();
    KeptAndReduced points = keptAndReduced(cluster, rows);
    int64_t each = mapping.each;
    if (there) // all threads wait for each other below
      piece = s.op<arith::MinUIOp>(piece, s.index(mapping.count - 1));
    row = s.divIndex(piece, points.keptPoints / each);
    Value first = s.mulIndex(s.remIndex(piece, points.keptPoints / each), each);
    size_t stages = cluster.stages.size();
    Values start = initialsTogether(cluster, each);
    Values mine = shareOut(points.reducedPoints, start, [&](Value point, ValueRange accumulators) {
      return stepTogether(cluster, points, first, each, s.delinearize(point, points.reduced), accumulators);
    });
    forget();
    Values shared;
    for (Value value : mine) {
      shared.push_back(threadGroup->allocate(value.getType(), mapping.threads(), ThreadGroup::sharedSpace));
      s.store(value, shared.back(), s.addIndex(s.mulIndex(lane, mapping.perBlock), groupInBlock));
    }
    NVVM::Barrier0Op::create(builder, kernel.getLoc());
    Value isFirst = s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, lane, s.index(0));
    s.when(there ? s.logicalAnd(isFirst, there) : isFirst, [&] {
      for (int64_t i = 0; i < each; ++i) {
        Values whole;
        for (size_t stage = 0; stage < stages; ++stage) {
          auto part = [&](int64_t number) {
            return s.load(shared[i * stages + stage], s.addIndex(groupInBlock, number * mapping.perBlock));
          };
          Values sum = {part(0)};
          for (int64_t number = 1; number < mapping.group; ++number)
            sum = cast<LoopInterface>(cluster.stages[stage]).emitCombine(s, sum, {part(number)});
          whole.push_back(sum[0]);
        }
        storeResults(cluster, whole, s.addIndex(first, i));
      }
    });
  }

  std::unique_ptr<ThreadGroup> threadGroup;
  GpuMapping mapping;
  SmallVector<Cluster> clusters;
  Value block, groupInBlock, lane;
  /// The innermost dimensions that consecutive points differ in: their points, and the number of the first one.
  struct Suffix {
    Value first;
    int64_t points = 1;
  } suffix;
};
} // namespace

CudaKernel codegen::emitCudaKernel(OpBuilder &builder, ArrayRef<exec::KernelOp> kernels, StringRef name,
                                   ArrayRef<SmallVector<int64_t>> buffers) {
  CudaKernel result;
  std::vector<std::unique_ptr<CudaKernelEmitter>> emitters;
  SmallVector<Type> types;
  SmallVector<unsigned> firsts;
  unsigned before = 0; // inputs and outputs of the previous kernels
  for (auto [kernel, places] : llvm::zip(kernels, buffers)) {
    emitters.push_back(std::make_unique<CudaKernelEmitter>(builder, kernel));
    firsts.push_back(types.size());
    SmallVector<unsigned> values;
    emitters.back()->addBuffers(places, types, values);
    for (unsigned value : values)
      result.values.push_back(before + value);
    before += places.size();
  }
  Location loc = kernels.front()->getLoc();
  result.function = func::FuncOp::create(builder, loc, name, builder.getFunctionType(types, {}));
  result.function.setPrivate();
  result.function.addEntryBlock();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&result.function.getBody().front());
  Value block = NVVM::BlockIdXOp::create(builder, loc, builder.getI32Type());
  result.blocks = 0;
  for (auto [emitter, first] : llvm::zip(emitters, firsts)) {
    emitter->bind(result.function, first);
    emitter->plan(result.function);
    kernels.size() == 1 ? emitter->emitThread(block) : emitter->emitWithin(block, result.blocks);
    result.blocks += emitter->blocks();
    result.threads = emitter->threads(); // all kernels of a batch have the same number
  }
  func::ReturnOp::create(builder, loc);
  return result;
}
