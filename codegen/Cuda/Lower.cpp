#include "codegen/Cuda/Ptx.h"

#include "codegen/Cuda/ApproximateMath.h"
#include "codegen/Emit/MathLowering.h"
#include "divisi/abi.h"

#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

/// Threads that a multiprocessor of a GPU runs at a time, at least.
static constexpr int32_t threadsAtOnce = 1024;
/// From this number of buffers on, a kernel has more values at a time than the registers that the assembler chooses by itself.
static constexpr unsigned manyBuffers = 32;

static bool computesIn64Bits(LLVM::LLVMFuncOp function) {
  return function
      .walk([](Operation *op) {
        return llvm::any_of(op->getResultTypes(), [](Type type) { return type.isF64(); }) ? WalkResult::interrupt()
                                                                                          : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether any kernel reads or writes floats of 16 bits. What is compared may be computed in several kernels: all of a
/// program compute alike.
static bool has16Bits(ModuleOp kernels) {
  return llvm::any_of(kernels.getOps<func::FuncOp>(), [](func::FuncOp kernel) {
    return llvm::any_of(kernel.getArgumentTypes(), [](Type type) {
      Type element = cast<MemRefType>(type).getElementType();
      return element.isBF16() || element.isF16();
    });
  });
}

namespace {

/// Replaces functions that the GPU lacks and that have no polynomial by calls of libdevice.
struct CallLibdevice : PassWrapper<CallLibdevice, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CallLibdevice)
  StringRef getArgument() const final { return "call-libdevice"; }
  void getDependentDialects(DialectRegistry &registry) const final { registry.insert<LLVM::LLVMDialect>(); }
  void runOnOperation() final {
    LLVMTypeConverter converter(&getContext());
    RewritePatternSet patterns(&getContext());
    populateLibDeviceConversionPatterns(converter, patterns);
    ConversionTarget target(getContext());
    target.addLegalDialect<LLVM::LLVMDialect, arith::ArithDialect>();
    target.addLegalOp<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp, math::FloorOp, math::FmaOp,
                      math::RoundEvenOp, math::SqrtOp, math::TruncOp>();
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

LogicalResult codegen::lowerCudaKernels(ModuleOp kernels, ArrayRef<Launchable> launchables) {
  PassManager pm(kernels.getContext());
  if (has16Bits(kernels))
    pm.addPass(createApproximateMathPass());
  pm.addPass(createCanonicalizerPass()); // loops are few: threads run over the elements
  pm.addPass(createCSEPass());
  addKernelLowering(pm, std::make_unique<CallLibdevice>());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  if (failed(pm.run(kernels)))
    return failure();
  Builder builder(kernels.getContext());
  for (const Launchable &launchable : launchables) {
    if (launchable.blocks == 0)
      continue;
    auto function = kernels.lookupSymbol<LLVM::LLVMFuncOp>(launchable.name);
    function.setLinkage(LLVM::Linkage::External);
    function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
    for (unsigned i = 0; i < function.getNumArguments(); ++i) // as all buffers are: for vector accesses
      function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(DIVISI_ALIGNMENT));
    function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                      builder.getDenseI32ArrayAttr({(int32_t)launchable.threads}));
    // Doubles take two registers. Without this hint, the assembler uses so many registers that fewer threads run at a
    // time.
    if (computesIn64Bits(function))
      function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                        builder.getI32IntegerAttr(std::max<int32_t>(1, threadsAtOnce / (int32_t)launchable.threads)));
    else if (function.getNumArguments() >= manyBuffers) // it may use all registers; without this hint such kernels get 32, and spill the rest
      function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), builder.getI32IntegerAttr(1));
  }
  return success();
}
