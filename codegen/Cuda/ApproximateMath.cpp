#include "codegen/Cuda/ApproximateMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <numbers>

using namespace mlir;

namespace {

/// Arithmetic in f32.
class Floats {
public:
  explicit Floats(Operation *op) : builder(op), loc(op->getLoc()) {}

  Value constant(double value) {
    return arith::ConstantOp::create(builder, loc, builder.getFloatAttr(builder.getF32Type(), value));
  }
  Value mul(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b); }
  Value fma(Value a, Value b, Value c) { return math::FmaOp::create(builder, loc, a, b, c); }
  Value fma(Value a, double b, double c) {
    Value addend = constant(c);
    return fma(a, constant(b), addend);
  }
  Value exp2(Value x) { return intrinsic("llvm.nvvm.ex2.approx.ftz", x); }
  Value reciprocal(Value x) { return intrinsic("llvm.nvvm.rcp.approx.ftz.f", x); }
  Value exp(Value x, double factor = 1) { return exp2(mul(x, constant(factor * std::numbers::log2e))); }
  /// 1 - 2 / (e^2x + 1)
  Value tanh(Value x) {
    Value one = constant(1), e = exp(x, 2);
    return fma(reciprocal(arith::AddFOp::create(builder, loc, e, one)), -2, 1);
  }
  /// Abramowitz and Stegun, 7.1.26: wrong by at most 1.5e-7.
  Value erf(Value x) {
    Value size = math::AbsFOp::create(builder, loc, x);
    Value t = reciprocal(fma(size, 0.3275911, 1)), sum = constant(1.061405429);
    for (double factor : {-1.453152027, 1.421413741, -0.284496736, 0.254829592})
      sum = fma(sum, t, constant(factor));
    Value bell = exp(mul(size, size), -1);
    Value rest = mul(mul(sum, t), bell);
    return math::CopySignOp::create(builder, loc, fma(rest, -1, 1), x);
  }

private:
  Value intrinsic(StringRef name, Value x) {
    return LLVM::CallIntrinsicOp::create(builder, loc, builder.getF32Type(), builder.getStringAttr(name), ValueRange(x))
        .getResult(0);
  }

  OpBuilder builder;
  Location loc;
};

/// A quotient that is rounded to a whole number must be exact.
bool isRounded(Operation *quotient) {
  return llvm::any_of(quotient->getUsers(), [](Operation *user) {
    return isa<math::FloorOp, math::CeilOp, math::RoundEvenOp, math::TruncOp, arith::FPToSIOp, arith::FPToUIOp>(user);
  });
}

struct ApproximateMath : PassWrapper<ApproximateMath, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ApproximateMath)
  StringRef getArgument() const final { return "approximate-math"; }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, math::MathDialect, LLVM::LLVMDialect>();
  }

  void runOnOperation() final {
    SmallVector<Operation *> all;
    getOperation().walk([&](Operation *op) {
      if (op->getNumResults() == 1 && op->getResult(0).getType().isF32())
        all.push_back(op);
    });
    for (Operation *op : all)
      if (Value result = approximate(op)) {
        op->getResult(0).replaceAllUsesWith(result);
        op->erase();
      }
  }

private:
  static Value approximate(Operation *op) {
    Floats f(op);
    if (isa<math::ExpOp>(op))
      return f.exp(op->getOperand(0));
    if (isa<math::TanhOp>(op))
      return f.tanh(op->getOperand(0));
    if (isa<math::ErfOp>(op))
      return f.erf(op->getOperand(0));
    if (isa<arith::DivFOp>(op) && !isRounded(op))
      return f.mul(op->getOperand(0), f.reciprocal(op->getOperand(1)));
    if (auto root = dyn_cast<math::SqrtOp>(op))
      root.setFastmath(root.getFastmath() | arith::FastMathFlags::afn);
    return {};
  }
};
} // namespace

std::unique_ptr<Pass> divisi::codegen::createApproximateMathPass() { return std::make_unique<ApproximateMath>(); }
