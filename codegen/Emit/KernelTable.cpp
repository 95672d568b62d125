#include "codegen/Emit/KernelTable.h"

#include "codegen/Cuda/CudaKernel.h"
#include "codegen/Emit/KernelEmitter.h"
#include "codegen/Emit/MathLowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

KernelTable::KernelTable(ModuleOp program, const Targets &targets)
    : program(program), targets(targets), cpu(ModuleOp::create(program.getLoc())),
      cuda(ModuleOp::create(program.getLoc())) {
  if (!targets.cuda.empty())
    program.getContext()->getOrLoadDialect<NVVM::NVVMDialect>();
}

/// What distinguishes the code of kernels: all but where their values lie.
static std::string keyOf(exec::KernelOp kernel, ArrayRef<int64_t> places) {
  std::string key;
  llvm::raw_string_ostream text(key);
  llvm::DenseMap<int64_t, int64_t> numbers;
  for (int64_t place : places)
    text << numbers.try_emplace(place, numbers.size()).first->second << ' ';
  auto offsets = kernel.getOffsetsAttr();
  auto when = kernel->removeAttr(exec::names::when);
  kernel.removeOffsetsAttr();
  kernel->print(text, OpPrintingFlags().useLocalScope());
  kernel.setOffsetsAttr(offsets);
  if (when)
    kernel->setAttr(exec::names::when, when);
  return key;
}

void KernelTable::add(exec::KernelOp kernel, ArrayRef<int64_t> places) {
  auto [it, fresh] = known.try_emplace(keyOf(kernel, places), launchables.size());
  which[kernel] = it->second;
  if (!fresh)
    return;
  Launchable &launchable = launchables.emplace_back();
  launchable.name = "kernel" + std::to_string(launchables.size() - 1);
  OpBuilder builder(kernel.getContext());
  if (targets.cpu) {
    builder.setInsertionPointToEnd(cpu->getBody());
    EmittedKernel emitted = emitKernel(builder, kernel, launchable.name, places);
    launchable.values = emitted.values;
    launchable.extent = emitted.extent;
    launchable.grain = emitted.grain;
  }
  if (!targets.cuda.empty()) {
    builder.setInsertionPointToEnd(cuda->getBody());
    CudaKernel emitted = emitCudaKernel(builder, kernel, launchable.name, places);
    launchable.values = emitted.values;
    launchable.blocks = emitted.blocks;
    launchable.threads = emitted.threads;
  }
}

LogicalResult KernelTable::lowerForCpu() {
  PassManager pm(program.getContext());
  pm.enableVerifier(true);
  addKernelLowering(pm);
  if (failed(pm.run(*cpu)))
    return failure();
  for (Operation &op : llvm::make_early_inc_range(*cpu->getBody()))
    op.moveBefore(program.getBody(), program.getBody()->end());
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> KernelTable::takeCudaKernels() {
  if (failed(lowerCudaKernels(*cuda, launchables)))
    return failure();
  return std::move(cuda);
}

FailureOr<std::vector<std::string>> KernelTable::lowerForCuda() {
  auto kernels = takeCudaKernels();
  if (failed(kernels))
    return failure();
  std::string error;
  auto texts = emitPtx(**kernels, targets.cuda, error);
  if (texts.empty()) {
    program.emitError(error);
    return failure();
  }
  return texts;
}
