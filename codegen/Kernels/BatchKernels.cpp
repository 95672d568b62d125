#include "codegen/Kernels/BatchKernels.h"

#include "codegen/Kernels/Passes.h"
#include "codegen/Lowering/ScalarBuilder.h"

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_BATCHKERNELSPASS
#include "codegen/Kernels/Passes.h.inc"

/// Limits: the pointers that fit into a kernel's parameters on any GPU (4 KiB), and a size that compiles quickly.
static constexpr size_t mostBuffers = 500, mostMembers = 64;

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

bool Batch::takes(exec::KernelOp kernel) const {
  if (!isOfElements(kernel) || kernel.getWhen() || members.size() >= mostMembers ||
      buffers + kernel->getNumOperands() + kernel->getNumResults() > mostBuffers)
    return false;
  return llvm::none_of(kernel.getInputs(), [&](Value input) {
    return made.contains(graph::withoutReshape(input)) || read.contains(graph::withoutReshape(input));
  });
}

void Batch::add(exec::KernelOp kernel) {
  members.push_back(kernel);
  buffers += kernel->getNumOperands() + kernel->getNumResults();
  made.insert(kernel->result_begin(), kernel->result_end());
  for (Value input : kernel.getInputs())
    if (graph::tensorType(input).getNumElements() > 1)
      read.insert(graph::withoutReshape(input));
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
