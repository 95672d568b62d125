#include "codegen/Emit/MathLowering.h"

#include "codegen/Kernels/Passes.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace {

/// Functions that are polynomials on all targets. MLIR's polynomials for sin and cos are inaccurate for large
/// arguments, the C library's functions are not. On GPUs the polynomials stay, so that rotary embeddings do not need
/// the CUDA Toolkit.
bool isApproximated(StringRef name) {
  static const llvm::StringSet<> names = {"math.acos", "math.asin", "math.atan", "math.atan2", "math.cbrt",
                                          "math.erf",  "math.erfc", "math.exp",  "math.expm1", "math.log",
                                          "math.log2", "math.tanh", "math.log1p"};
  return names.contains(name);
}
bool isPeriodic(StringRef name) { return name == "math.sin" || name == "math.cos"; }

/// Expands functions of floats and small float formats, and allows multiplications to contract into the additions of a
/// reduction. Other additions must not contract: a value is recomputed wherever it is used, and must have the same bits
/// in all kernels, because values are compared.
struct ExpandMath : PassWrapper<ExpandMath, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMath)
  explicit ExpandMath(bool approximatesAll) : approximatesAll(approximatesAll) {}
  StringRef getArgument() const final { return "expand-math"; }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, math::MathDialect, vector::VectorDialect>();
  }
  void runOnOperation() final {
    RewritePatternSet patterns(&getContext());
    auto all = [](StringRef name) { return isApproximated(name) || isPeriodic(name); };
    populateMathF32ExpansionPatterns(patterns, all);
    if (approximatesAll)
      populateMathPolynomialApproximationPatterns(patterns, all);
    else
      populateMathPolynomialApproximationPatterns(patterns, isApproximated);
    if (!approximatesAll) // GPUs have instructions for it
      arith::populateExpandBFloat16Patterns(patterns);
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    getOperation()->walk([](arith::MulFOp op) {
      op.setFastmath(op.getFastmath() | arith::FastMathFlags::contract);
    });
  }

private:
  const bool approximatesAll;
};
} // namespace

void divisi::codegen::addKernelSimplification(OpPassManager &pm) {
  pm.addPass(createSplitLoopsPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createCollapseLoopsPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(createCSEPass());
}

void divisi::codegen::addKernelLowering(OpPassManager &pm, std::unique_ptr<Pass> functions) {
  pm.addPass(std::make_unique<ExpandMath>(/*approximatesAll=*/functions != nullptr));
  pm.addPass(memref::createExpandStridedMetadataPass());
  if (functions)
    pm.addPass(std::move(functions));
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions bare;
  bare.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(bare));
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}
