#include "codegen/Cuda/ScatterRows.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using P = arith::CmpIPredicate;

/// Indices that a thread looks at together, and then updates that it reads together.
static constexpr int64_t together = 8;

ScatterRows::ScatterRows(ScalarBuilder &s, ThreadGroup &threads, graph::ScatterAddOp scatter, const GpuMapping &mapping,
                         Value result)
    : s(s), threads(threads), mapping(mapping), result(result) {
  ArrayRef<int64_t> shape = graph::shapeOf(scatter.getX());
  rows = shape[scatter.getDim()];
  columns = llvm::product_of(shape.drop_front(scatter.getDim() + 1));
  indices = graph::tensorType(scatter.getIndices()).getNumElements();
  groupsOfTeam = std::max<int64_t>(1, warp / mapping.group);
  teams = mapping.perBlock / groupsOfTeam;
}

void ScatterRows::emit(Value block, Value group, Value lane, Element of) {
  element = &of;
  begin(block, group, lane);
  copyRows(group);
  found = threads.allocate(wordType(), mapping.threads() * together, ThreadGroup::sharedSpace);
  owners = threads.allocate(wordType(), teams * mapping.threads() / warp, ThreadGroup::sharedSpace);
  Type type = cast<MemRefType>(result.getType()).getElementType();
  Values none = {word(-1)};
  none.append(mapping.each, arith::ConstantOp::create(s.getBuilder(), s.getLoc(), s.getBuilder().getZeroAttr(type)));
  Value end = s.index(indices);
  Values sums = s.loop(
      s.index(0), end, none,
      [&](Value base, ValueRange carried) {
        look(base);
        NVVM::Barrier0Op::create(s.getBuilder(), s.getLoc());
        Values next = add(base, carried);
        NVVM::Barrier0Op::create(s.getBuilder(), s.getLoc());
        return next;
      },
      mapping.threads() * together);
  store({sums[0], Values(llvm::drop_begin(sums))});
}

void ScatterRows::begin(Value block, Value group, Value lane) {
  int64_t pieces = llvm::divideCeil(columns / mapping.each, mapping.group),
          ofBlock = llvm::divideCeil(rows, mapping.parts);
  Value piece = s.remIndex(block, pieces), rest = s.divIndex(block, pieces);
  table = s.divIndex(rest, mapping.parts);
  first = s.mulIndex(s.remIndex(rest, mapping.parts), ofBlock);
  Value most = s.index(ofBlock);
  count = s.op<arith::MinSIOp>(s.subIndex(s.index(rows), first), most);
  Value pieceOfRow = s.addIndex(s.mulIndex(piece, mapping.group), lane);
  column = s.mulIndex(pieceOfRow, mapping.each);
  thread = s.addIndex(s.mulIndex(group, mapping.group), lane);
  own = s.op<arith::IndexCastOp>(wordType(), group);
  team = s.divIndex(group, groupsOfTeam);
  if (columns / mapping.each % mapping.group != 0) {
    Value none = word(-1);
    own = s.select(s.inRange(pieceOfRow, columns / mapping.each), own, none);
  }
}

Value ScatterRows::placeOf(Value row, int64_t c) {
  Value inTable = s.addIndex(first, row);
  Value ofTable = s.addIndex(s.mulIndex(table, rows), inTable);
  return s.addIndex(s.addIndex(s.mulIndex(ofTable, columns), column), c);
}

/// What is in the table before anything is added.
void ScatterRows::copyRows(Value group) {
  s.when(isWord(P::sge, own, word(0)), [&] {
    s.loop(
        group, count, {},
        [&](Value row, ValueRange) {
          Values values;
          for (int64_t c = 0; c < mapping.each; ++c)
            values.push_back((*element)(0, placeOf(row, c)));
          for (auto [c, value] : llvm::enumerate(values))
            s.store(value, result, placeOf(row, c));
          return Values();
        },
        mapping.perBlock);
  });
}

/// The rows, relative to the block's first one, that the thread's indices from `first` on name; -1 if it is not the
/// block's.
ScatterRows::Values ScatterRows::rowsOf(Value from, bool whole) {
  Values result, wanted;
  for (int64_t i = 0; i < together; ++i) {
    Value at = s.addIndex(from, i);
    if (!whole)
      at = s.op<arith::MinSIOp>(at, s.index(indices - 1));
    wanted.push_back(s.toIndex((*element)(1, at)));
  }
  for (auto [i, index] : llvm::enumerate(wanted)) {
    Value row = s.subIndex(index, first), here = s.op<arith::CmpIOp>(P::ult, row, count);
    if (!whole)
      here = s.logicalAnd(here, s.inRange(s.addIndex(from, i), indices));
    Value none = word(-1);
    result.push_back(s.select(here, s.op<arith::IndexCastOp>(wordType(), row), none));
  }
  return result;
}

/// Looks at the next indices of all threads.
void ScatterRows::look(Value base) {
  Value from = s.addIndex(base, s.mulIndex(thread, together));
  bool divides = indices % (mapping.threads() * together) == 0;
  Values local;
  if (divides) {
    local = rowsOf(from, true);
  } else {
    Value whole = s.op<arith::CmpIOp>(P::sle, from, s.index(indices - together));
    SmallVector<Type> types(together, wordType());
    local = either(
        whole, types, [&] { return rowsOf(from, true); }, [&] { return rowsOf(from, false); });
  }
  Value all = local[0]; // negative if all are
  for (Value row : llvm::drop_begin(local))
    all = s.op<arith::AndIOp>(all, row);
  Value any = isWord(P::sge, all, word(0));
  s.when(any, [&] {
    for (auto [i, row] : llvm::enumerate(local))
      s.store(row, found, s.addIndex(s.mulIndex(thread, together), i));
  });
  Value bits = ownersOf(local, any), lane = s.remIndex(thread, warp);
  s.when(s.inRange(lane, teams), [&] {
    Value group = s.divIndex(thread, warp);
    s.store(bits, owners, s.addIndex(s.mulIndex(lane, mapping.threads() / warp), group));
  });
}

/// The threads of the warp that found rows of the team whose number is the thread's in the warp.
Value ScatterRows::ownersOf(ArrayRef<Value> rows, Value any) {
  Value all = threads.ballot(any);
  if (teams == 1)
    return all;
  auto ofTeams = [&]() -> Values {
    Value wanted = word(0), result = word(0);
    for (Value row : rows) {
      Value shift = word(llvm::Log2_64(groupsOfTeam));
      Value ofRow = s.op<arith::ShRUIOp>(groupOf(row), shift);
      Value bit = s.op<arith::ShLIOp>(word(1), ofRow);
      Value none = word(0);
      wanted = s.op<arith::OrIOp>(wanted, s.select(isWord(P::sge, row, word(0)), bit, none));
    }
    Value lane = s.op<arith::IndexCastOp>(wanted.getType(), s.remIndex(thread, warp));
    for (int64_t t = 0; t < teams; ++t) {
      Value none = word(0);
      Value isOfTeam = isWord(P::ne, s.op<arith::AndIOp>(wanted, word(int64_t(1) << t)), none);
      Value ofTeam = threads.ballot(isOfTeam);
      result = s.select(isWord(P::eq, lane, word(t)), ofTeam, result);
    }
    return {result};
  };
  return either(isWord(P::ne, all, word(0)), wordType(), ofTeams, [&] { return Values{word(0)}; })[0];
}

/// Adds what the threads have found, in the order of the indices.
ScatterRows::Values ScatterRows::add(Value base, ValueRange carried) {
  return s.loop(0, mapping.threads() / warp, carried, [&](Value number, ValueRange sums) {
    Value bits = s.load(owners, s.addIndex(s.mulIndex(team, mapping.threads() / warp), number));
    Values start = {bits};
    llvm::append_range(start, sums);
    Value ones = s.op<arith::IndexCastUIOp>(s.getBuilder().getIndexType(), s.op<math::CtPopOp>(bits));
    Values next = s.loop(s.index(0), ones, start, [&](Value, ValueRange values) {
      Value left = values[0], less = s.op<arith::SubIOp>(left, word(1));
      Value below = s.op<arith::AndIOp>(s.op<arith::XOrIOp>(left, word(-1)), less); // the zeros behind the last one
      Value last = s.op<arith::IndexCastUIOp>(s.getBuilder().getIndexType(), s.op<math::CtPopOp>(below));
      Value slot = s.mulIndex(s.addIndex(s.mulIndex(number, warp), last), together);
      Values result = {s.op<arith::AndIOp>(left, less)};
      llvm::append_range(result, addFound(base, slot, values.drop_front()));
      return result;
    });
    return Values(llvm::drop_begin(next));
  });
}

/// Adds what one thread has found.
ScatterRows::Values ScatterRows::addFound(Value base, Value slot, ValueRange carried) {
  Type type = carried[1].getType();
  Values rowsFound, mine;
  for (int64_t i = 0; i < together; ++i)
    rowsFound.push_back(s.load(found, s.addIndex(slot, i)));
  for (Value row : rowsFound) {
    Value isOwn = isWord(P::eq, groupOf(row), own);
    mine.push_back(s.logicalAnd(isOwn, isWord(P::sge, row, word(0))));
  }
  SmallVector<Values> updates;
  SmallVector<Type> types(mapping.each, type);
  Value zero = arith::ConstantOp::create(s.getBuilder(), s.getLoc(), s.getBuilder().getZeroAttr(type));
  for (int64_t i = 0; i < together; ++i) {
    auto read = [&] {
      Value place = s.addIndex(s.addIndex(base, slot), i);
      Value number = s.addIndex(s.mulIndex(table, indices), place);
      Values values;
      for (int64_t c = 0; c < mapping.each; ++c)
        values.push_back((*element)(2, s.addIndex(s.addIndex(s.mulIndex(number, columns), column), c)));
      return values;
    };
    updates.push_back(either(mine[i], types, read, [&] { return Values(mapping.each, zero); }));
  }
  Sums sums = {carried[0], Values(carried.drop_front())};
  for (int64_t i = 0; i < together; ++i)
    sums = addOne(rowsFound[i], mine[i], updates[i], sums);
  Values result = {sums.row};
  llvm::append_range(result, sums.columns);
  return result;
}

ScatterRows::Sums ScatterRows::addOne(Value row, Value mine, ArrayRef<Value> update, const Sums &sums) {
  Values before = {sums.row};
  llvm::append_range(before, sums.columns);
  SmallVector<Type> types = llvm::to_vector(ValueRange(before).getTypes());
  auto plus = [&](ArrayRef<Value> columns) {
    Values result = {row};
    for (auto [old, value] : llvm::zip(columns, update))
      result.push_back(s.add(old, value));
    return result;
  };
  auto other = [&] {
    store(sums);
    Values columns;
    Value at = s.op<arith::IndexCastOp>(s.getBuilder().getIndexType(), row);
    for (int64_t c = 0; c < mapping.each; ++c)
      columns.push_back(s.load(result, placeOf(at, c)));
    return plus(columns);
  };
  auto add = [&] {
    return either(
        isWord(P::eq, row, sums.row), types, [&] { return plus(sums.columns); }, other);
  };
  Values after = either(mine, types, add, [&] { return before; });
  return {after[0], Values(llvm::drop_begin(after))};
}

void ScatterRows::store(const Sums &sums) {
  s.when(isWord(P::sge, sums.row, word(0)), [&] {
    Value row = s.op<arith::IndexCastOp>(s.getBuilder().getIndexType(), sums.row);
    for (auto [c, value] : llvm::enumerate(sums.columns))
      s.store(value, result, placeOf(row, c));
  });
}

ScatterRows::Values ScatterRows::either(Value condition, TypeRange types, llvm::function_ref<Values()> then,
                                        llvm::function_ref<Values()> otherwise) {
  OpBuilder &builder = s.getBuilder();
  auto branch = scf::IfOp::create(builder, s.getLoc(), types, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  for (auto [block, body] : {std::pair(branch.thenBlock(), then), std::pair(branch.elseBlock(), otherwise)}) {
    builder.setInsertionPointToEnd(block);
    scf::YieldOp::create(builder, s.getLoc(), body());
  }
  return llvm::to_vector_of<Value>(branch.getResults());
}
