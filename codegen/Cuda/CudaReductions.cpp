// Of CudaKernelEmitter: reductions over the points of a result.
#include "codegen/Cuda/CudaKernelEmitter.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

/// Up to this number of steps, reductions of a thread are unrolled.
static constexpr int64_t mostUnrolled = 64;

void CudaKernelEmitter::emitResult(Value piece) {
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

void CudaKernelEmitter::emitResultsOfThread(const Cluster &cluster, const KeptAndReduced &points, Value first, int64_t each) {
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

ElementEmitter::Values CudaKernelEmitter::initialsTogether(const Cluster &cluster, int64_t each) {
  Values start;
  for (int64_t i = 0; i < each; ++i)
    llvm::append_range(start, initials(cluster));
  return start;
}

ElementEmitter::Values CudaKernelEmitter::stepTogether(const Cluster &cluster, const KeptAndReduced &points, Value first, int64_t each,
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

ElementEmitter::Values CudaKernelEmitter::reduce(const Cluster &cluster, const KeptAndReduced &points, ValueRange kept) {
  Values results = s.loops(points.reduced, initials(cluster), [&](ValueRange reduced, ValueRange accumulators) {
    forget();
    return stepAll(cluster, mergeIndices(cluster, kept, reduced), accumulators);
  });
  forget();
  return results;
}

Value CudaKernelEmitter::numberOf(const Cluster &cluster, ValueRange inner) {
  LoopDomain domain = cast<LoopInterface>(cluster.stages[0]).getLoopDomain();
  Values point = pointOf(domain, inner, cluster);
  size_t outer = domain.extents.size();
  for (int64_t points = 1; points < suffix.points;)
    points *= domain.extents[--outer];
  Value before =
      s.linearize(ValueRange(point).take_front(outer), ArrayRef<int64_t>(domain.extents).take_front(outer));
  return s.addIndex(s.mulIndex(before, suffix.points), suffix.first);
}

ElementEmitter::Values CudaKernelEmitter::reduceTogether(const Cluster &cluster, const KeptAndReduced &points, ValueRange kept) {
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

ElementEmitter::Values CudaKernelEmitter::reduceRuns(const Cluster &cluster, const KeptAndReduced &points, ValueRange kept) {
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
    Value piece = s.remIndex(number, pieces);
    Value first = s.mulIndex(s.addIndex(s.divIndex(begin, each), piece), each), from = first;
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

void CudaKernelEmitter::emitColumns(Value piece, Value there) {
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
