#include "codegen/Cuda/CudaKernel.h"

#include "codegen/Cuda/Mapping.h"
#include "codegen/Emit/Elements.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {

constexpr int64_t globalSpace = 1, sharedSpace = 3;

class CudaKernelEmitter : ElementEmitter {
public:
  using ElementEmitter::ElementEmitter;

  using ElementEmitter::addBuffers;
  using ElementEmitter::bind;

  /// Decides how threads share the work, and binds the kernel's values to arguments of the function.
  void plan(func::FuncOp function) {
    name = function.getName();
    module = function->getParentOfType<ModuleOp>();
    if (auto serial = cast_or_null<SerialInterface>(serialStage())) {
      mapping = mapSerial(serial.getParallelExtent(), serial.getRowExtent());
    } else {
      clusters = formClusters(kernel);
      mapping = mapKernel(kernel, clusters, temporaryBytes());
    }
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
        return emitSerial(piece);
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

  void emitSerial(Value piece) {
    auto serial = cast<SerialInterface>(serialStage());
    int64_t extent = std::max<int64_t>(1, serial.getParallelExtent()), parts = mapping.count / extent;
    Value begin = s.remIndex(piece, extent);
    SerialPiece of{begin, s.addIndex(begin, 1)};
    if (parts > 1) {
      of.rows = (int64_t)llvm::divideCeil(serial.getRowExtent(), parts);
      of.firstRow = s.mulIndex(s.divIndex(piece, extent), of.rows);
    }
    emitSerialLoops(serial, of);
  }

  /// Runs `then` on one thread of the piece's group.
  void once(llvm::function_ref<void()> then) {
    s.when(mapping.group == 1 ? Value() : s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, lane, s.index(0)), then);
  }

  /// Makes what the threads of a group have written visible to all of them.
  void sync() {
    if (mapping.group > warp)
      NVVM::Barrier0Op::create(builder, kernel.getLoc());
    else if (mapping.group == warp)
      NVVM::SyncWarpOp::create(builder, kernel.getLoc(), word(-1));
  }
  Value word(int64_t value) { return s.integer(builder.getI32Type(), value); }

  /// Declares memory of a block (shared) or of the GPU (global).
  Value allocate(Type element, int64_t count, int64_t space) {
    auto type = MemRefType::get({count}, element, AffineMap(), builder.getI64IntegerAttr(space));
    std::string symbol = (name + "_memory" + Twine(allocated++)).str();
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(module.getBody());
      memref::GlobalOp::create(builder, kernel.getLoc(), symbol, builder.getStringAttr("private"), type,
                               builder.getUnitAttr(), /*constant=*/false, builder.getI64IntegerAttr(16));
    }
    return memref::GetGlobalOp::create(builder, kernel.getLoc(), type, symbol);
  }

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
    together = {rest, varying.empty() ? Value() : varying.back(), offset, count};
    if (llvm::count_if(extents.drop_front(from), [](int64_t extent) { return extent != 1; }) != 1)
      together = {};
    return at;
  }

  /// Emits some consecutive elements.
  void emitElements(Value piece) {
    const Cluster &first = clusters.front();
    int64_t each = mapping.each, points = first.points;
    if (points == 1 || points % each == 0) {
      Value pieceOfRow;
      if (points > 1) {
        row = s.divIndex(piece, points / each);
        pieceOfRow = s.remIndex(piece, points / each);
      }
      return emitTogether(piece, [&](int64_t i, Value linear) -> Values {
        if (points > 1)
          return indicesOf(s.mulIndex(pieceOfRow, each), i, each, first.extents);
        row = linear;
        return {};
      });
    }
    // Rows do not end where pieces do: most pieces lie within a row.
    Value begin = s.mulIndex(piece, each), own = s.divIndex(begin, points), within = s.remIndex(begin, points);
    Value inRow = s.op<arith::CmpIOp>(arith::CmpIPredicate::ule, within, s.index(points - each));
    auto branch = scf::IfOp::create(builder, kernel.getLoc(), inRow, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(branch.thenBlock()->getTerminator());
    emitTogether(piece, [&](int64_t i, Value) {
      row = own;
      return s.delinearize(s.addIndex(within, i), first.extents);
    });
    builder.setInsertionPoint(branch.elseBlock()->getTerminator());
    emitTogether(piece, [&](int64_t, Value linear) {
      row = s.divIndex(linear, points);
      return s.delinearize(s.remIndex(linear, points), first.extents);
    });
  }

  /// Emits the elements of a piece: first all loads and the arithmetic, then all stores, so that loads and stores can
  /// be vectorized. `find` sets the row of the i-th and returns its indices within the row, which has none if it is one
  /// element.
  void emitTogether(Value piece, llvm::function_ref<Values(int64_t i, Value linear)> find) {
    struct Store {
      Value value, element, linear;
    };
    SmallVector<Store> stores;
    for (int64_t i = 0; i < mapping.each; ++i) {
      forget();
      scalar.clear();
      Value linear = s.addIndex(s.mulIndex(piece, mapping.each), i);
      Values at = find(i, linear);
      for (const Cluster &cluster : clusters)
        emitPoint(cluster, at.empty() ? zeros(cluster) : at, linear, [&](Value value, Value element) {
          stores.push_back({value, element, linear});
        });
    }
    together = {};
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
      temporary[value] = mapping.scratch ? allocate(element, mapping.blocks() * inner, globalSpace)
                                         : allocate(element, mapping.perBlock * inner, sharedSpace);
    });
    temporaryBase = mapping.scratch ? block : mapping.perBlock > 1 ? groupInBlock : Value();
    auto emitRow = [&](Value r) {
      row = r;
      for (const Cluster &cluster : clusters) {
        emitCluster(cluster);
        if (mapping.scratch || &cluster != &clusters.back())
          sync();
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
      together = {};
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
        Values whole = combineLanes(stage, Values(rest.take_front(stage->getNumResults())));
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
    auto loop = [&](Value i, ValueRange) -> Values {
      Values results = reduce(cluster, points, s.delinearize(i, points.kept));
      storeResults(cluster, results, i);
      return {};
    };
    s.loop(lane, s.index(points.keptPoints), {}, loop, mapping.group);
  }

  /// Emits one result of each reduction, by one thread, a warp or a block.
  void emitResult(Value piece) {
    const Cluster &cluster = clusters.front();
    KeptAndReduced points = keptAndReduced(cluster, rows);
    row = s.divIndex(piece, points.keptPoints);
    Value linear = s.remIndex(piece, points.keptPoints);
    Values kept = s.delinearize(linear, points.kept);
    Values results = mapping.group == 1 ? reduce(cluster, points, kept) : reduceTogether(cluster, points, kept);
    if (mapping.group > 1) {
      Values whole;
      for (auto [stage, part] : llvm::zip(cluster.stages, results))
        llvm::append_range(whole, combineLanes(stage, {part}));
      results = whole;
    }
    once([&] { storeResults(cluster, results, linear); });
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
      together = {};
      return values;
    };
    Values results = shareOut(points.reducedPoints / each, initials(cluster), pieces);
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
    Values start;
    for (int64_t i = 0; i < each; ++i)
      llvm::append_range(start, initials(cluster));
    size_t stages = cluster.stages.size();
    Values mine = shareOut(points.reducedPoints, start, [&](Value point, ValueRange accumulators) {
      Values reduced = s.delinearize(point, points.reduced), next;
      Value begin;
      for (int64_t i = 0; i < each; ++i) {
        Values inner = mergeIndices(cluster, indicesOf(first, i, each, points.kept), reduced);
        begin = i == 0 ? numberOf(cluster, inner) : begin;
        forget();
        llvm::append_range(next, stepAll(cluster, inner, accumulators.slice(i * stages, stages), s.addIndex(begin, i)));
      }
      together = {};
      return next;
    });
    forget();
    Values shared;
    for (Value value : mine) {
      shared.push_back(allocate(value.getType(), mapping.threads(), sharedSpace));
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

  /// Combines the threads' partial accumulators; every thread gets the result. Within warps it is done by shuffles, in
  /// an order that is always the same.
  Values combineLanes(Operation *stage, Values mine) {
    auto combine = [&](ValueRange a, ValueRange b) { return cast<LoopInterface>(stage).emitCombine(s, a, b); };
    for (int64_t distance = warp / 2; distance > 0; distance /= 2) {
      Values other;
      for (Value value : mine)
        other.push_back(shuffle(value, distance));
      mine = combine(mine, other);
    }
    if (mapping.group == warp)
      return mine;
    int64_t warps = mapping.group / warp;
    Values shared;
    for (Value value : mine)
      shared.push_back(allocate(value.getType(), warps, sharedSpace));
    Value first = s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, s.remIndex(lane, warp), s.index(0));
    s.when(first, [&] {
      for (auto [value, memory] : llvm::zip(mine, shared))
        s.store(value, memory, s.divIndex(lane, warp));
    });
    sync();
    auto ofWarp = [&](int64_t w) {
      Values values;
      for (Value memory : shared)
        values.push_back(s.load(memory, s.index(w)));
      return values;
    };
    mine = ofWarp(0);
    for (int64_t w = 1; w < warps; ++w)
      mine = combine(mine, ofWarp(w));
    return mine;
  }

  /// The value of the lane whose number differs in one bit (`distance`).
  Value shuffle(Value value, int64_t distance) {
    Type type = value.getType(), i32 = builder.getI32Type(), f32 = builder.getF32Type();
    unsigned width = type.getIntOrFloatBitWidth();
    auto one = [&](Value v) -> Value {
      return NVVM::ShflOp::create(builder, kernel.getLoc(), v.getType(), word(-1), v, word(distance), word(warp - 1),
                                  NVVM::ShflKind::bfly, UnitAttr());
    };
    if (type == f32 || type == i32)
      return one(value);
    Type integer = builder.getIntegerType(width);
    Value bits = type == integer ? value : s.op<arith::BitcastOp>(integer, value);
    if (width < 32) {
      bits = s.op<arith::TruncIOp>(integer, one(s.op<arith::ExtUIOp>(i32, bits)));
    } else { // 64 bits, in two halves
      Value half = s.integer(integer, 32);
      Value low = one(s.op<arith::TruncIOp>(i32, bits));
      Value high = one(s.op<arith::TruncIOp>(i32, s.op<arith::ShRUIOp>(bits, half)));
      Value shifted = s.op<arith::ShLIOp>(s.op<arith::ExtUIOp>(integer, high), half);
      bits = s.op<arith::OrIOp>(shifted, s.op<arith::ExtUIOp>(integer, low));
    }
    return type == integer ? bits : s.op<arith::BitcastOp>(type, bits);
  }

  ModuleOp module;
  std::string name;
  GpuMapping mapping;
  SmallVector<Cluster> clusters;
  Value block, groupInBlock, lane;
  /// The innermost dimensions that consecutive points differ in: their points, and the number of the first one.
  struct Suffix {
    Value first;
    int64_t points = 1;
  } suffix;
  unsigned allocated = 0;
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
