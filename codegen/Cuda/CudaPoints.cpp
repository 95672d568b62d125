// Of CudaKernelEmitter: the points of a piece, and what is computed at each.
#include "codegen/Cuda/CudaKernelEmitter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

void CudaKernelEmitter::forEachTemporary(llvm::function_ref<void(Value, int64_t, Type)> use) {
  for (const Cluster &cluster : clusters)
    for (Operation *stage : cluster.stages)
      for (Value result : stage->getResults()) {
        auto type = graph::tensorType(result);
        int64_t inner = type.getNumElements() / rows;
        if (!buffer.count(result) && (cluster.kind != Cluster::Kind::pass || inner > 1))
          use(result, inner, ScalarBuilder::scalarType(type.getElementType()));
      }
}

int64_t CudaKernelEmitter::temporaryBytes() {
  int64_t bytes = 0;
  forEachTemporary([&](Value, int64_t inner, Type element) {
    bytes += inner * std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
  });
  return bytes;
}

ElementEmitter::Values CudaKernelEmitter::indicesOf(Value first, int64_t offset, int64_t count, ArrayRef<int64_t> extents) {
  size_t from = extents.size();
  int64_t inner = 1;
  while (from > 0 && (inner == 1 || inner % count != 0))
    inner *= extents[--from];
  Values at = s.delinearize(s.divIndex(first, inner), extents.take_front(from));
  Value rest = from == 0 ? first : s.remIndex(first, inner);
  suffix = {rest, inner};
  s.together = {};
  if (!llvm::isPowerOf2_64(count)) { // whole rows of the innermost dimension (piecesOfRows)
    int64_t row = extents.back(), rows = count / row;
    Value before = s.mulIndex(s.divIndex(rest, count), rows);
    llvm::append_range(at, s.delinearize(s.addIndex(before, offset / row), extents.drop_front(from).drop_back()));
    at.push_back(s.index(offset % row));
    return at;
  }
  Values varying = s.delinearize(s.addIndex(rest, offset), extents.drop_front(from));
  llvm::append_range(at, varying);
  ArrayRef<int64_t> last = extents.drop_front(from);
  auto isLong = [](int64_t extent) { return extent != 1; };
  if (llvm::count_if(last, isLong) == 1)
    s.together = {rest, varying[llvm::find_if(last, isLong) - last.begin()], offset, count};
  return at;
}

void CudaKernelEmitter::emitElements(Value piece) {
  const Cluster &first = clusters.front();
  int64_t each = mapping.each, points = first.points;
  Values numbers;
  for (int64_t i = 0; i < each * mapping.apart; ++i)
    numbers.push_back(s.addIndex(s.mulIndex(s.addIndex(piece, i / each * mapping.count), each), i % each));
  if (points == 1 || points % each == 0) {
    Value firstRow, pieceOfRow;
    if (points > 1) {
      firstRow = s.divIndex(piece, points / each);
      pieceOfRow = s.remIndex(piece, points / each);
    }
    return emitTogether(numbers, [&](int64_t i, Value linear) -> Values {
      if (points > 1) {
        row = s.addIndex(firstRow, i / each * (rows / mapping.apart));
        return indicesOf(s.mulIndex(pieceOfRow, each), i % each, each, first.extents);
      }
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

void CudaKernelEmitter::emitTogether(ValueRange numbers, llvm::function_ref<Values(int64_t i, Value linear)> find) {
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

void CudaKernelEmitter::emitPoint(const Cluster &cluster, ValueRange inner, Value linear, llvm::function_ref<void(Value, Value)> store) {
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

void CudaKernelEmitter::emitRows(Value piece) {
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

void CudaKernelEmitter::emitCluster(const Cluster &cluster) {
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

ElementEmitter::Values CudaKernelEmitter::shareOut(int64_t count, ValueRange initial, llvm::function_ref<Values(Value, ValueRange)> body) {
  int64_t rounds = count / mapping.group, rest = count % mapping.group;
  if (rounds < 2 && rest != 0)
    return s.loop(lane, s.index(count), initial, body, mapping.group);
  auto own = [&](Value i, ValueRange accumulators) {
    return body(s.addIndex(s.mulIndex(i, mapping.group), lane), accumulators);
  };
  Values values = s.loop(0, rounds, initial, own); // as often for all, which can be unrolled
  if (rest == 0)
    return values;
  Value end = s.index(count);
  return s.loop(s.addIndex(lane, rounds * mapping.group), end, values, body, mapping.group);
}

ElementEmitter::Values CudaKernelEmitter::emitPoints(const Cluster &cluster) {
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
      for (int64_t i = 0; i < each; ++i) {
        Value ofWhole = s.addIndex(whole, i);
        Values indices = indicesOf(first, i, each, cluster.extents);
        values = point(s.addIndex(first, i), indices, ofWhole, values);
      }
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
  Values start = initials(cluster);
  Values partial = s.loop(
      s.addIndex(firstPiece, lane), lastPiece, start,
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
        Value inTail = s.addIndex(tailBegin, s.subIndex(i, head));
        Value linear = s.select(inHead, s.addIndex(begin, i), inTail);
        Values values = single(linear, accumulators);
        storeAll();
        return values;
      },
      mapping.group);
}

void CudaKernelEmitter::emitPass(const Cluster &cluster) {
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

void CudaKernelEmitter::emitKept(const Cluster &cluster) {
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
