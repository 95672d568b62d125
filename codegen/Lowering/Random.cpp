#include "codegen/Lowering/Families.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using namespace divisi::graph;

namespace {
using S = ScalarBuilder;

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection of 64-bit words that mixes well.
Value mix(S &s, Value z) {
  Type i64 = s.getBuilder().getI64Type();
  auto step = [&](Value v, int64_t shift) {
    return s.op<arith::XOrIOp>(v, s.op<arith::ShRUIOp>(v, s.integer(i64, shift)));
  };
  Value factor = s.integer(i64, (int64_t)0xbf58476d1ce4e5b9ull);
  z = s.op<arith::MulIOp>(step(z, 30), factor);
  factor = s.integer(i64, (int64_t)0x94d049bb133111ebull);
  z = s.op<arith::MulIOp>(step(z, 27), factor);
  return step(z, 31);
}

/// The key depends on (seed, step, stream) and is loop-invariant; the counter is the element's global index.
struct RandomUniform : LoopInterface::ExternalModel<RandomUniform, RandomUniformOp> {
  SmallVector<Value> emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load load) const {
    auto random = cast<RandomUniformOp>(op);
    Type i64 = s.getBuilder().getI64Type();
    Value golden = s.integer(i64, (int64_t)0x9e3779b97f4a7c15ull);
    Value key = mix(s, s.op<arith::AddIOp>(load(0, {}), golden));
    key = mix(s, s.op<arith::AddIOp>(s.op<arith::XOrIOp>(key, load(1, {})), golden));
    key = mix(s, s.op<arith::AddIOp>(s.op<arith::XOrIOp>(key, s.integer(i64, random.getStream())), golden));
    Value counter = s.op<arith::IndexCastOp>(i64, s.linearize(point, shapeOf(random.getResult())));
    if (auto strides = random.getStrides()) { // a shard of a larger tensor
      counter = random.getOffset() ? load(2, {}) : s.integer(i64, 0);
      for (auto [index, stride] : llvm::zip(point, *strides)) {
        Value here = s.op<arith::IndexCastOp>(i64, index);
        counter = s.op<arith::AddIOp>(counter, s.op<arith::MulIOp>(here, s.integer(i64, stride)));
      }
    }
    Value bits = mix(s, s.op<arith::AddIOp>(key, s.op<arith::MulIOp>(counter, golden)));
    // A float's mantissa has 24 bits.
    Value top = s.op<arith::TruncIOp>(s.getBuilder().getI32Type(), s.op<arith::ShRUIOp>(bits, s.integer(i64, 40)));
    Type f32 = s.getBuilder().getF32Type();
    Value unitOfLast = s.constant(f32, 0x1p-24);
    Value unit = s.op<arith::MulFOp>(s.op<arith::UIToFPOp>(f32, top), unitOfLast);
    return {s.convert(unit, f32, tensorType(random.getResult()).getElementType())};
  }
};
} // namespace

void codegen::attachRandom(MLIRContext *context) { RandomUniformOp::attachInterface<RandomUniform>(*context); }
