#include "codegen/Cuda/CudaKernel.h"

#include "codegen/Cuda/CudaKernelEmitter.h"
#include "codegen/Cuda/ScatterRows.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

void CudaKernelEmitter::plan(func::FuncOp function) {
  if (Operation *serial = serialStage()) {
    mapping = mapSerial(serial);
  } else {
    clusters = formClusters(kernel);
    mapping = mapKernel(kernel, clusters, temporaryBytes());
  }
  threadGroup = std::make_unique<ThreadGroup>(s, function, mapping.group);
}

void CudaKernelEmitter::emitThread(Value blockNumber) {
  Value thread = NVVM::ThreadIdXOp::create(builder, kernel.getLoc(), builder.getI32Type());
  bool columns = mapping.kind == GpuMapping::Kind::columns; // neighbours have pieces side by side
  int64_t together = columns ? mapping.perBlock : mapping.group;
  Value above = s.op<arith::DivUIOp>(thread, word(together)), below = s.op<arith::RemUIOp>(thread, word(together));
  Value inBlock = columns ? below : above;
  block = toIndex(blockNumber);
  lane = toIndex(columns ? above : below);
  threadGroup->setLane(lane);
  groupInBlock = toIndex(inBlock);
  bool small = mapping.blocks() * mapping.perBlock <= INT32_MAX;
  Value piece = small
                    ? toIndex(s.op<arith::AddIOp>(s.op<arith::MulIOp>(blockNumber, word(mapping.perBlock)), inBlock))
                    : s.addIndex(s.mulIndex(block, mapping.perBlock), groupInBlock);
  Value there = mapping.count % mapping.perBlock == 0 ? Value() : s.inRange(piece, mapping.count);
  if (columns)
    return emitColumns(piece, there);
  s.when(there, [&] {
    switch (mapping.kind) {
    case GpuMapping::Kind::elements:
      return emitElements(piece);
    case GpuMapping::Kind::rows:
      return emitRows(piece);
    case GpuMapping::Kind::results:
    case GpuMapping::Kind::columns:
      return emitResult(piece);
    case GpuMapping::Kind::serial:
      return emitSerialLoops(serialStage(), {piece, s.addIndex(piece, 1)});
    case GpuMapping::Kind::scatter:
      return emitScatter();
    }
  });
}

void CudaKernelEmitter::emitWithin(Value blockNumber, int64_t first) {
  Value own = first == 0 ? blockNumber : s.op<arith::SubIOp>(blockNumber, word(first)); // wraps around below `first`
  s.when(s.op<arith::CmpIOp>(arith::CmpIPredicate::ult, own, word(mapping.blocks())), [&] { emitThread(own); });
}

Value CudaKernelEmitter::toIndex(Value number) {
  return arith::IndexCastUIOp::create(builder, kernel.getLoc(), builder.getIndexType(), number);
}

void CudaKernelEmitter::emitScatter() {
  auto scatter = cast<graph::ScatterAddOp>(serialStage());
  ScatterRows rows{s, *threadGroup, scatter, mapping, buffer.lookup(scatter.getResult())};
  rows.emit(block, groupInBlock, lane, [&](unsigned operand, Value linear) {
    forget();
    return elementAt(scatter->getOperand(operand), linear);
  });
}

void CudaKernelEmitter::once(llvm::function_ref<void()> then) {
  s.when(mapping.group == 1 ? Value() : s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, lane, s.index(0)), then);
}

CudaKernel codegen::emitCudaKernel(OpBuilder &builder, ArrayRef<exec::KernelOp> kernels, StringRef name,
                                   ArrayRef<SmallVector<int64_t>> buffers) {
  CudaKernel result;
  std::vector<std::unique_ptr<CudaKernelEmitter>> emitters;
  SmallVector<Type> types;
  SmallVector<unsigned> firsts;
  unsigned before = 0; // inputs and outputs of the previous kernels
  for (auto [kernel, places] : llvm::zip(kernels, buffers)) {
    emitters.push_back(std::make_unique<CudaKernelEmitter>(builder, kernel));
    firsts.push_back(types.size());
    SmallVector<unsigned> values;
    emitters.back()->addBuffers(places, types, values);
    for (unsigned value : values)
      result.values.push_back(before + value);
    before += places.size();
  }
  Location loc = kernels.front()->getLoc();
  result.function = func::FuncOp::create(builder, loc, name, builder.getFunctionType(types, {}));
  result.function.setPrivate();
  result.function.addEntryBlock();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&result.function.getBody().front());
  Value block = NVVM::BlockIdXOp::create(builder, loc, builder.getI32Type());
  result.blocks = 0;
  for (auto [emitter, first] : llvm::zip(emitters, firsts)) {
    emitter->bind(result.function, first);
    emitter->plan(result.function);
    kernels.size() == 1 ? emitter->emitThread(block) : emitter->emitWithin(block, result.blocks);
    result.blocks += emitter->blocks();
    result.threads = emitter->threads(); // all kernels of a batch have the same number
  }
  func::ReturnOp::create(builder, loc);
  return result;
}
