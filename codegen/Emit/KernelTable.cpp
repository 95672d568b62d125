#include "codegen/Emit/KernelTable.h"

#include "codegen/Cuda/CudaKernel.h"
#include "codegen/Emit/KernelEmitter.h"
#include "codegen/Emit/MathLowering.h"
#include "codegen/Kernels/BatchKernels.h"
#include "dialects/Graph/Nodes.h"

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

/// The text by which kernels with equal code are found: everything except the places of their values.
static std::string keyOf(exec::KernelOp kernel, ArrayRef<int64_t> places) {
  std::string key;
  llvm::raw_string_ostream text(key);
  llvm::DenseMap<int64_t, int64_t> numbers;
  for (int64_t place : places)
    text << numbers.try_emplace(place, numbers.size()).first->second << ' ';
  graph::HiddenNodes hidden(kernel);
  auto offsets = kernel.getOffsetsAttr();
  auto when = kernel.removeWhenAttr();
  kernel.removeOffsetsAttr();
  kernel->print(text, OpPrintingFlags().useLocalScope());
  kernel.setOffsetsAttr(offsets);
  kernel.setWhenAttr(cast_if_present<IntegerAttr>(when));
  return key;
}

void KernelTable::addAll(func::FuncOp task, Places &places) {
  bool inStep = task.getName() != "evaluate";
  for (auto kernel : task.getOps<exec::KernelOp>()) {
    if (followsInBatch(kernel))
      continue;
    auto together = batchFrom(kernel);
    SmallVector<SmallVector<int64_t>> lists;
    for (exec::KernelOp member : together)
      lists.push_back(places.ofAll(member));
    if (together.size() > 1)
      addBatch(together, lists);
    else
      which[kernel] = add(kernel, lists.front(), /*isMember=*/false);
    Launchable &launchable = launchables[which[kernel]];
    launchable.launches += inStep && !kernel.getWhen();
    launchable.bytes = 0;
    for (exec::KernelOp member : together)
      launchable.bytes += member.getBytes();
  }
}

size_t KernelTable::add(exec::KernelOp kernel, const SmallVector<int64_t> &places, bool isMember) {
  std::string key = (isMember ? "member " : "") + keyOf(kernel, places);
  auto [it, fresh] = known.try_emplace(key, launchables.size());
  if (!fresh)
    return it->second;
  Launchable &launchable = launchables.emplace_back();
  launchable.name = isMember ? "member" + std::to_string(members++) : "kernel" + std::to_string(alone++);
  if (targets.cpu) {
    OpBuilder builder(kernel.getContext());
    builder.setInsertionPointToEnd(cpu->getBody());
    EmittedKernel emitted = emitKernel(builder, kernel, launchable.name, places);
    launchable.values = emitted.values;
    launchable.extent = emitted.extent;
    launchable.grain = emitted.grain;
  }
  if (!isMember)
    emitForCuda(launchable, kernel, places);
  return it->second;
}

void KernelTable::emitForCuda(Launchable &launchable, ArrayRef<exec::KernelOp> kernels,
                              ArrayRef<SmallVector<int64_t>> places) {
  if (targets.cuda.empty())
    return;
  OpBuilder builder(program.getContext());
  builder.setInsertionPointToEnd(cuda->getBody());
  CudaKernel emitted = emitCudaKernel(builder, kernels, launchable.name, places);
  launchable.values = emitted.values;
  launchable.blocks = emitted.blocks;
  launchable.threads = emitted.threads;
}

void KernelTable::addBatch(ArrayRef<exec::KernelOp> kernels, ArrayRef<SmallVector<int64_t>> places) {
  Launchable batch;
  unsigned before = 0; // inputs and outputs of the previous kernels
  for (auto [kernel, list] : llvm::zip(kernels, places)) {
    if (targets.cpu) {
      size_t member = add(kernel, list, /*isMember=*/true);
      const Launchable &one = launchables[member];
      for (unsigned value : one.values)
        batch.values.push_back(before + value);
      batch.extent += one.extent;
      batch.grain = std::max(batch.grain, one.grain);
      batch.members.push_back(member);
    }
    before += list.size();
  }
  batch.name = "kernel" + std::to_string(alone++);
  for (exec::KernelOp kernel : kernels)
    which[kernel] = launchables.size();
  emitForCuda(batch, kernels, places);
  launchables.push_back(std::move(batch));
}

LogicalResult KernelTable::lowerForCpu() {
  PassManager simplification(program.getContext()), lowering(program.getContext());
  lowering.enableVerifier(false); // LLVM verifies its result
  addKernelSimplification(simplification);
  addKernelLowering(lowering);
  if (failed(simplification.run(*cpu)))
    return failure();
  llvm::StringMap<int64_t> extents;
  for (const Launchable &launchable : launchables)
    extents[launchable.name] = launchable.extent;
  auto codes = shareCode(*cpu, extents);
  for (Launchable &launchable : launchables)
    launchable.code = codes.lookup(launchable.name);
  if (failed(lowering.run(*cpu)))
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
  auto texts = emitPtx(**kernels, targets.cuda);
  if (!texts)
    return program.emitError(llvm::toString(texts.takeError()));
  return std::move(*texts);
}
