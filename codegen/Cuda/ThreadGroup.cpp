#include "codegen/Cuda/ThreadGroup.h"

#include "codegen/Cuda/Mapping.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace divisi::codegen;

Value ThreadGroup::allocate(Type element, int64_t count, int64_t space) {
  OpBuilder &builder = s.getBuilder();
  auto type = MemRefType::get({count}, element, AffineMap(), builder.getI64IntegerAttr(space));
  std::string symbol = (name + "_memory" + Twine(allocated++)).str();
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(kernel->getParentOfType<ModuleOp>().getBody());
    memref::GlobalOp::create(builder, s.getLoc(), symbol, builder.getStringAttr("private"), type, builder.getUnitAttr(),
                             /*constant=*/false, builder.getI64IntegerAttr(16));
  }
  return memref::GetGlobalOp::create(builder, s.getLoc(), type, symbol);
}

void ThreadGroup::sync() {
  if (threads > warp)
    NVVM::Barrier0Op::create(s.getBuilder(), s.getLoc());
  else if (threads > 1)
    NVVM::SyncWarpOp::create(s.getBuilder(), s.getLoc(), word(-1));
}

SmallVector<Value> ThreadGroup::combine(Operation *stage, SmallVector<Value> mine) {
  auto combineTwo = [&](ValueRange a, ValueRange b) { return cast<LoopInterface>(stage).emitCombine(s, a, b); };
  for (int64_t distance = std::min(threads, warp) / 2; distance > 0; distance /= 2) {
    SmallVector<Value> other;
    for (Value value : mine)
      other.push_back(shuffle(value, distance));
    mine = combineTwo(mine, other);
  }
  if (threads <= warp)
    return mine;
  int64_t warps = threads / warp;
  SmallVector<Value> shared;
  for (Value value : mine)
    shared.push_back(allocate(value.getType(), warps, sharedSpace));
  Value zero = s.index(0);
  Value first = s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, s.remIndex(lane, warp), zero);
  s.when(first, [&] {
    for (auto [value, memory] : llvm::zip(mine, shared))
      s.store(value, memory, s.divIndex(lane, warp));
  });
  sync();
  auto ofWarp = [&](int64_t w) {
    SmallVector<Value> values;
    for (Value memory : shared)
      values.push_back(s.load(memory, s.index(w)));
    return values;
  };
  mine = ofWarp(0);
  for (int64_t w = 1; w < warps; ++w)
    mine = combineTwo(mine, ofWarp(w));
  return mine;
}

Value ThreadGroup::ballot(Value condition) {
  Value thread = NVVM::ThreadIdXOp::create(s.getBuilder(), s.getLoc(), s.getBuilder().getI32Type());
  Value ofWarp = s.op<arith::AndIOp>(thread, word(warp - 1));
  Value bit = s.op<arith::ShLIOp>(word(1), ofWarp);
  Value bits = s.select(condition, bit, word(0));
  for (int64_t distance = warp / 2; distance > 0; distance /= 2)
    bits = s.op<arith::OrIOp>(bits, shuffle(bits, distance));
  return bits;
}

/// The value of the lane whose number differs in one bit (`distance`).
Value ThreadGroup::shuffle(Value value, int64_t distance) {
  OpBuilder &builder = s.getBuilder();
  Type type = value.getType(), i32 = builder.getI32Type(), f32 = builder.getF32Type();
  unsigned width = type.getIntOrFloatBitWidth();
  auto one = [&](Value v) -> Value {
    Value clamp = word(warp - 1), offset = word(distance);
    return NVVM::ShflOp::create(builder, s.getLoc(), v.getType(), word(-1), v, offset, clamp,
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
