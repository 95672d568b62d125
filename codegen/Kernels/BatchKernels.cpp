#include "codegen/Kernels/BatchKernels.h"

#include "codegen/Kernels/Passes.h"
#include "codegen/Lowering/ScalarBuilder.h"

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_BATCHKERNELSPASS
#include "codegen/Kernels/Passes.h.inc"

/// Whether the operation has one result, each element of which is computed alone.
static bool isPointwise(Operation *op) {
  auto loop = dyn_cast<LoopInterface>(op);
  return loop && op->getNumResults() == 1 && !loop.getLoopDomain().hasReduction();
}

/// Whether each row is one element and independent of the others.
static bool isOfElements(exec::KernelOp kernel) {
  return kernel.getRows() > 1 && llvm::all_of(kernel.getBody().front(), [&](Operation &op) {
           return !op.hasAttr(exec::names::stage) ||
                  (isPointwise(&op) &&
                   graph::tensorType(op.getResult(0)).getNumElements() == (int64_t)kernel.getRows());
         });
}

static step::Batch::Kernel buffersOf(exec::KernelOp kernel) {
  step::Batch::Kernel result;
  auto numberOf = [](Value value) { return (uint64_t)(uintptr_t)value.getAsOpaquePointer(); };
  for (Value input : kernel.getInputs()) {
    result.reads.push_back(numberOf(graph::withoutReshape(input)));
    result.single.push_back(graph::tensorType(input).getNumElements() == 1);
  }
  for (Value output : kernel.getOutputs())
    result.writes.push_back(numberOf(output));
  return result;
}

bool Batch::takes(exec::KernelOp kernel) const {
  return isOfElements(kernel) && !kernel.getWhen() && rule.takes(buffersOf(kernel));
}

void Batch::add(exec::KernelOp kernel) {
  members.push_back(kernel);
  rule.add(buffersOf(kernel));
}

/// Operations without code.
static bool isNeutral(Operation &op) { return isa<graph::ConstantOp, graph::ReshapeOp>(op); }

static std::optional<int64_t> numberOf(Operation *op) {
  auto kernel = dyn_cast<exec::KernelOp>(op);
  return kernel ? kernel.getBatch() : std::nullopt;
}

bool areTogether(Operation *a, Operation *b) { return numberOf(a) && numberOf(a) == numberOf(b); }

bool followsInBatch(Operation *op) {
  Operation *before = op->getPrevNode();
  while (before && isNeutral(*before))
    before = before->getPrevNode();
  return before && areTogether(before, op);
}

SmallVector<exec::KernelOp> batchFrom(exec::KernelOp kernel) {
  SmallVector<exec::KernelOp> members = {kernel};
  for (Operation *op = kernel->getNextNode(); op; op = op->getNextNode()) {
    if (isNeutral(*op))
      continue;
    if (!areTogether(kernel, op))
      break;
    members.push_back(cast<exec::KernelOp>(op));
  }
  return members;
}

LogicalResult checkBatches(ModuleOp module) {
  for (auto task : module.getOps<func::FuncOp>()) {
    if (task.isDeclaration())
      continue;
    llvm::DenseSet<int64_t> seen;
    for (auto kernel : task.getOps<exec::KernelOp>()) {
      if (!numberOf(kernel) || !seen.insert(*numberOf(kernel)).second)
        continue;
      Batch batch;
      for (exec::KernelOp member : batchFrom(kernel)) {
        if (!batch.takes(member))
          return member.emitOpError("cannot run at once with the others of batch ") << *numberOf(kernel);
        batch.add(member);
      }
      for (auto other : task.getOps<exec::KernelOp>())
        if (areTogether(kernel, other) && !llvm::is_contained(batch.all(), other))
          return other.emitOpError("is not beside the others of batch ") << *numberOf(kernel);
    }
  }
  return success();
}

namespace {
struct BatchKernelsPass : impl::BatchKernelsPassBase<BatchKernelsPass> {
  using BatchKernelsPassBase::BatchKernelsPassBase;

  void runOnOperation() final {
    if (getOperation().isDeclaration())
      return;
    Batch batch;
    int64_t next = 0;
    auto close = [&] {
      if (batch.all().size() > 1) {
        for (exec::KernelOp kernel : batch.all())
          kernel.setBatch(next);
        ++next;
      }
      batch = {};
    };
    for (Operation &op : getOperation().getBody().front()) {
      if (isNeutral(op))
        continue;
      auto kernel = dyn_cast<exec::KernelOp>(op);
      if (!kernel || !batch.takes(kernel))
        close();
      if (kernel && batch.takes(kernel))
        batch.add(kernel);
    }
    close();
  }
};
} // namespace
} // namespace divisi::codegen
