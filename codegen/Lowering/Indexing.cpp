#include "codegen/Lowering/Families.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using namespace divisi::graph;

namespace {
using S = ScalarBuilder;
using Values = SmallVector<Value>;

template <typename Range> Values concatenated(Range a, ValueRange b, ValueRange c = {}) {
  Values result = llvm::to_vector_of<Value>(a);
  llvm::append_range(result, b);
  llvm::append_range(result, c);
  return result;
}

struct Gather : LoopInterface::ExternalModel<Gather, GatherOp> {
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load load) const {
    auto gather = cast<GatherOp>(op);
    int64_t dim = gather.getDim(), rank = tensorType(gather.getIndices()).getRank();
    Value row = s.clampIndex(s.toIndex(load(1, point.slice(dim, rank))), shapeOf(gather.getX())[dim]);
    return {load(0, concatenated(point.take_front(dim), row, point.drop_front(dim + rank)))};
  }
};

struct GatherElements : LoopInterface::ExternalModel<GatherElements, GatherElementsOp> {
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load load) const {
    auto gather = cast<GatherElementsOp>(op);
    Values index = llvm::to_vector(point);
    int64_t dim = gather.getDim();
    index[dim] = s.clampIndex(s.toIndex(load(1, point)), shapeOf(gather.getX())[dim]);
    return {load(0, index)};
  }
};

struct GatherNd : LoopInterface::ExternalModel<GatherNd, GatherNdOp> {
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load load) const {
    auto gather = cast<GatherNdOp>(op);
    int64_t batch = gather.getBatchDims(), outer = tensorType(gather.getIndices()).getRank() - 1;
    int64_t depth = shapeOf(gather.getIndices()).back();
    Values index = llvm::to_vector(point.take_front(batch));
    for (int64_t k = 0; k < depth; ++k) {
      Value i = load(1, concatenated(point.take_front(outer), s.index(k)));
      index.push_back(s.clampIndex(s.toIndex(i), shapeOf(gather.getX())[batch + k]));
    }
    return {load(0, concatenated(index, point.drop_front(outer)))};
  }
};

Value combined(S &s, Combine combine, Value old, Value update, bool noSign) {
  switch (combine) {
  case Combine::assign:
    return update;
  case Combine::add:
    return s.add(old, update);
  case Combine::mul:
    return s.mul(old, update);
  case Combine::max:
    return s.max(old, update, noSign);
  case Combine::min:
    return s.min(old, update, noSign);
  }
  return update;
}

/// Writes result[index] = combine(old, update) if every checked index is in range.
void update(S &s, Value result, ValueRange index, Value valid, Combine combine, Value value, bool noSign) {
  Value old = s.load(result, index);
  Value next = combined(s, combine, old, value, noSign);
  s.store(valid ? s.select(valid, next, old) : next, result, index);
}

bool unsignedElement(Value tensor) { return tensorType(tensor).getElementType().isUnsignedInteger(); }

/// Parallel over the elements of a row (the dimensions after `dim`), so that no two threads write the same element.
struct ScatterAdd : SerialInterface::ExternalModel<ScatterAdd, ScatterAddOp> {
  int64_t getParallelExtent(Operation *op) const {
    auto scatter = cast<ScatterAddOp>(op);
    auto inner = shapeOf(scatter.getX()).drop_front(scatter.getDim() + 1);
    return llvm::product_of(inner);
  }
  void emitSerial(Operation *op, S &s, const SerialPiece &piece, Load load, Value result) const {
    auto scatter = cast<ScatterAddOp>(op);
    int64_t dim = scatter.getDim();
    ArrayRef<int64_t> shape = shapeOf(scatter.getX()), outer = shape.take_front(dim), inner = shape.drop_front(dim + 1);
    auto forEachColumn = [&](llvm::function_ref<void(ValueRange)> body) {
      s.loop(piece.begin, piece.end, {}, [&](Value linear, ValueRange) {
        body(s.delinearize(linear, inner));
        return Values();
      });
    };
    s.loops(shape.take_front(dim + 1), {}, [&](ValueRange row, ValueRange) {
      forEachColumn([&](ValueRange rest) {
        Values index = concatenated(row, rest);
        s.store(load(0, index), result, index);
      });
      return Values();
    });
    s.loops(outer, {}, [&](ValueRange a, ValueRange) {
      s.loops(shapeOf(scatter.getIndices()), {}, [&](ValueRange i, ValueRange) {
        Value wanted = s.toIndex(load(1, i)), row = s.clampIndex(wanted, shape[dim]);
        Value valid = s.inRange(wanted, shape[dim]);
        forEachColumn([&](ValueRange rest) {
          Value value = load(2, concatenated(a, i, rest));
          update(s, result, concatenated(a, row, rest), valid, Combine::add, value, false);
        });
        return Values();
      });
      return Values();
    });
  }
};

/// Parallel over the dimensions before and after `dim`: the updates of a line stay in it.
struct ScatterElements : SerialInterface::ExternalModel<ScatterElements, ScatterElementsOp> {
  int64_t getParallelExtent(Operation *op) const {
    auto scatter = cast<ScatterElementsOp>(op);
    ArrayRef<int64_t> shape = shapeOf(scatter.getX());
    return llvm::product_of(shape.take_front(scatter.getDim())) *
           llvm::product_of(shape.drop_front(scatter.getDim() + 1));
  }
  void emitSerial(Operation *op, S &s, const SerialPiece &piece, Load load, Value result) const {
    auto scatter = cast<ScatterElementsOp>(op);
    ArrayRef<int64_t> shape = shapeOf(scatter.getX()), of = shapeOf(scatter.getIndices());
    size_t dim = scatter.getDim();
    ArrayRef<int64_t> outer = shape.take_front(dim), inner = shape.drop_front(dim + 1);
    int64_t width = llvm::product_of(inner);
    // Lines side by side in memory are in the innermost loop.
    Value firstGroup = s.divIndex(piece.begin, width);
    Value lastGroup = s.divIndex(s.addIndex(piece.end, width - 1), width);
    s.loop(firstGroup, lastGroup, {}, [&](Value group, ValueRange) {
      Value before = s.mulIndex(group, width);
      Value zero = s.index(0);
      Value begin = s.op<arith::MaxSIOp>(s.subIndex(piece.begin, before), zero);
      Value whole = s.index(width);
      Value end = s.op<arith::MinSIOp>(s.subIndex(piece.end, before), whole);
      Values a = s.delinearize(group, outer);
      auto forEach = [&](int64_t extent, llvm::function_ref<void(ValueRange at)> body) {
        s.loop(0, extent, {}, [&](Value k, ValueRange) {
          if (width == 1)
            return body(concatenated(concatenated(a, k), Values(inner.size(), s.index(0)))), Values();
          s.loop(begin, end, {}, [&](Value line, ValueRange) {
            body(concatenated(concatenated(a, k), s.delinearize(line, inner)));
            return Values();
          });
          return Values();
        });
      };
      forEach(shape[dim], [&](ValueRange at) { s.store(load(0, at), result, at); });
      forEach(of[dim], [&](ValueRange at) {
        Value inside; // there are indices for this line
        for (size_t d = 0; d < shape.size(); ++d)
          if (d != dim && of[d] < shape[d]) {
            Value here = s.inRange(at[d], of[d]);
            inside = inside ? s.logicalAnd(inside, here) : here;
          }
        s.when(inside, [&] {
          Value wanted = s.toIndex(load(1, at));
          Values index = llvm::to_vector(at);
          index[dim] = s.clampIndex(wanted, shape[dim]);
          Value added = load(2, at);
          update(s, result, index, s.inRange(wanted, shape[dim]), scatter.getCombine(), added,
                 unsignedElement(scatter.getX()));
        });
      });
      return Values();
    });
  }
};

/// Parallel over the elements of a slice.
struct ScatterNd : SerialInterface::ExternalModel<ScatterNd, ScatterNdOp> {
  int64_t getParallelExtent(Operation *op) const { return llvm::product_of(sliceOf(cast<ScatterNdOp>(op))); }
  void emitSerial(Operation *op, S &s, const SerialPiece &piece, Load load, Value result) const {
    auto scatter = cast<ScatterNdOp>(op);
    ArrayRef<int64_t> shape = shapeOf(scatter.getX()), slice = sliceOf(scatter);
    int64_t batch = scatter.getBatchDims(), outer = tensorType(scatter.getIndices()).getRank() - 1;
    int64_t depth = shapeOf(scatter.getIndices()).back();
    auto forEach = [&](ArrayRef<int64_t> extents, llvm::function_ref<void(ValueRange at)> body) {
      s.loops(extents, {}, [&](ValueRange before, ValueRange) {
        s.loop(piece.begin, piece.end, {}, [&](Value linear, ValueRange) {
          body(concatenated(before, s.delinearize(linear, slice)));
          return Values();
        });
        return Values();
      });
    };
    forEach(shape.take_front(batch + depth), [&](ValueRange at) { s.store(load(0, at), result, at); });
    forEach(shapeOf(scatter.getUpdates()).take_front(outer), [&](ValueRange at) {
      Values index = llvm::to_vector(at.take_front(batch));
      Value valid;
      for (int64_t k = 0; k < depth; ++k) {
        Value wanted = s.toIndex(load(1, concatenated(at.take_front(outer), s.index(k))));
        Value inRange = s.inRange(wanted, shape[batch + k]);
        valid = valid ? s.logicalAnd(valid, inRange) : inRange;
        index.push_back(s.clampIndex(wanted, shape[batch + k]));
      }
      update(s, result, concatenated(index, at.drop_front(outer)), valid, scatter.getCombine(), load(2, at),
             unsignedElement(scatter.getX()));
    });
  }

private:
  /// The dimensions of a slice that an index names.
  static ArrayRef<int64_t> sliceOf(ScatterNdOp op) {
    return shapeOf(op.getX()).drop_front(op.getBatchDims() + shapeOf(op.getIndices()).back());
  }
};

/// Parallel over all dimensions but the summed one.
struct Cumsum : SerialInterface::ExternalModel<Cumsum, CumsumOp> {
  int64_t getParallelExtent(Operation *op) const {
    auto cumsum = cast<CumsumOp>(op);
    int64_t size = shapeOf(cumsum.getX())[cumsum.getDim()];
    return size == 0 ? 0 : tensorType(cumsum.getX()).getNumElements() / size;
  }
  void emitSerial(Operation *op, S &s, const SerialPiece &piece, Load load, Value result) const {
    auto cumsum = cast<CumsumOp>(op);
    int64_t dim = cumsum.getDim(), size = shapeOf(cumsum.getX())[dim];
    SmallVector<int64_t> others(shapeOf(cumsum.getX()));
    others.erase(others.begin() + dim);
    Value zero = s.constant(tensorType(cumsum.getX()).getElementType(), 0);
    s.loop(piece.begin, piece.end, {}, [&](Value linear, ValueRange) {
      Values at = s.delinearize(linear, others);
      s.loop(0, size, zero, [&](Value i, ValueRange sum) -> Values {
        Value position = cumsum.getReverse() ? s.subIndex(s.index(size - 1), i) : i;
        Values index = at;
        index.insert(index.begin() + dim, position);
        Value next = s.add(sum[0], load(0, index));
        s.store(cumsum.getExclusive() ? sum[0] : next, result, index);
        return {next};
      });
      return Values();
    });
  }
};
} // namespace

void codegen::attachIndexing(MLIRContext *context) {
  GatherOp::attachInterface<Gather>(*context);
  GatherElementsOp::attachInterface<GatherElements>(*context);
  GatherNdOp::attachInterface<GatherNd>(*context);
  ScatterAddOp::attachInterface<ScatterAdd>(*context);
  ScatterElementsOp::attachInterface<ScatterElements>(*context);
  ScatterNdOp::attachInterface<ScatterNd>(*context);
  CumsumOp::attachInterface<Cumsum>(*context);
}
