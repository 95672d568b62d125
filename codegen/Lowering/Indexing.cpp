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
  int64_t getRowExtent(Operation *op) const {
    auto scatter = cast<ScatterAddOp>(op);
    return shapeOf(scatter.getX())[scatter.getDim()];
  }
  void emitSerial(Operation *op, S &s, const SerialPiece &piece, Load load, Value result) const {
    auto scatter = cast<ScatterAddOp>(op);
    int64_t dim = scatter.getDim();
    ArrayRef<int64_t> shape = shapeOf(scatter.getX()), outer = shape.take_front(dim), inner = shape.drop_front(dim + 1);
    Value first = piece.isOfRows() ? piece.firstRow : s.index(0), last = s.index(shape[dim]);
    if (piece.isOfRows())
      last = s.op<arith::MinSIOp>(last, s.addIndex(first, piece.rows));
    s.loops(outer, {}, [&](ValueRange a, ValueRange) {
      s.loop(first, last, {}, [&](Value row, ValueRange) {
        forEachColumn(s, piece, [&](Value linear) {
          Values index = concatenated(concatenated(a, row), s.delinearize(linear, inner));
          s.store(load(0, index), result, index);
        });
        return Values();
      });
      return Values();
    });
    auto add = [&](ValueRange a, ValueRange i, Value row, Value valid) {
      forEachColumn(s, piece, [&](Value linear) {
        Values rest = s.delinearize(linear, inner);
        Value value = load(2, concatenated(concatenated(a, i), rest));
        update(s, result, concatenated(concatenated(a, row), rest), valid, Combine::add, value, false);
      });
    };
    s.loops(outer, {}, [&](ValueRange a, ValueRange) {
      if (piece.isOfRows())
        forEachOwned(s, piece, scatter, load, [&](ValueRange i, Value row) { add(a, i, row, Value()); });
      else
        s.loops(shapeOf(scatter.getIndices()), {}, [&](ValueRange i, ValueRange) {
          Value wanted = s.toIndex(load(1, i));
          add(a, i, s.clampIndex(wanted, shape[dim]), s.inRange(wanted, shape[dim]));
          return Values();
        });
      return Values();
    });
  }

private:
  /// Calls body(linear) for the piece's elements of a row: in a loop, or side by side where their number is known, so
  /// that their accesses can be vectorized.
  static void forEachColumn(S &s, const SerialPiece &piece, llvm::function_ref<void(Value)> body) {
    if (piece.isOfRows())
      for (int64_t i = 0; i < piece.each; ++i)
        body(s.addIndex(piece.begin, i));
    else
      s.loop(piece.begin, piece.end, {}, [&](Value linear, ValueRange) {
        body(linear);
        return Values();
      });
  }
  /// Calls body(i, row) in order for the indices whose row belongs to the piece. Most do not, so several are read at a
  /// time.
  template <typename Body>
  static void forEachOwned(S &s, const SerialPiece &piece, ScatterAddOp scatter, Load load, Body body) {
    ArrayRef<int64_t> shape = shapeOf(scatter.getIndices());
    int64_t count = llvm::product_of(shape), together = count % 8 == 0 ? 8 : 1;
    s.loop(
        s.index(0), s.index(count), {},
        [&](Value begin, ValueRange) {
          SmallVector<Value> rows, owned;
          Value any;
          for (int64_t j = 0; j < together; ++j) {
            rows.push_back(s.toIndex(load(1, s.delinearize(s.addIndex(begin, j), shape))));
            Value inPiece = s.inRange(s.subIndex(rows.back(), piece.firstRow), piece.rows);
            owned.push_back(s.logicalAnd(inPiece, s.inRange(rows.back(), shapeOf(scatter.getX())[scatter.getDim()])));
            any = any ? s.op<arith::OrIOp>(any, owned.back()) : owned.back();
          }
          s.when(any, [&] {
            for (int64_t j = 0; j < together; ++j)
              s.when(owned[j], [&] { body(s.delinearize(s.addIndex(begin, j), shape), rows[j]); });
          });
          return Values();
        },
        together);
  }
};

void copyAll(S &s, Load load, Value result, ArrayRef<int64_t> shape) {
  s.loops(shape, {}, [&](ValueRange index, ValueRange) {
    s.store(load(0, index), result, index);
    return Values();
  });
}

struct ScatterElements : SerialInterface::ExternalModel<ScatterElements, ScatterElementsOp> {
  int64_t getParallelExtent(Operation *) const { return 1; }
  void emitSerial(Operation *op, S &s, const SerialPiece &, Load load, Value result) const {
    auto scatter = cast<ScatterElementsOp>(op);
    ArrayRef<int64_t> shape = shapeOf(scatter.getX());
    int64_t dim = scatter.getDim();
    copyAll(s, load, result, shape);
    s.loops(shapeOf(scatter.getIndices()), {}, [&](ValueRange at, ValueRange) {
      Value wanted = s.toIndex(load(1, at));
      Values index = llvm::to_vector(at);
      index[dim] = s.clampIndex(wanted, shape[dim]);
      update(s, result, index, s.inRange(wanted, shape[dim]), scatter.getCombine(), load(2, at),
             unsignedElement(scatter.getX()));
      return Values();
    });
  }
};

struct ScatterNd : SerialInterface::ExternalModel<ScatterNd, ScatterNdOp> {
  int64_t getParallelExtent(Operation *) const { return 1; }
  void emitSerial(Operation *op, S &s, const SerialPiece &, Load load, Value result) const {
    auto scatter = cast<ScatterNdOp>(op);
    ArrayRef<int64_t> shape = shapeOf(scatter.getX());
    int64_t batch = scatter.getBatchDims(), outer = tensorType(scatter.getIndices()).getRank() - 1;
    int64_t depth = shapeOf(scatter.getIndices()).back();
    copyAll(s, load, result, shape);
    s.loops(shapeOf(scatter.getUpdates()), {}, [&](ValueRange at, ValueRange) {
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
      return Values();
    });
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
      s.loop(s.index(0), s.index(size), zero, [&](Value i, ValueRange sum) -> Values {
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
