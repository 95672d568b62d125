#include "codegen/Kernels/FusedBlock.h"
#include "codegen/Kernels/Passes.h"
#include "dialects/Graph/GraphBuilder.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_FORMKERNELSPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

bool isInlinedConstant(Operation *op) {
  auto constant = dyn_cast_or_null<graph::ConstantOp>(op);
  return constant && constant.getValue().isSplat();
}

/// What one kernel holds: its stages and everything that is recomputed in it.
struct Body {
  const FusedBlock::Kernel *kernel;
  llvm::SetVector<Value> inputs;
  llvm::SmallPtrSet<Operation *, 16> members;

  void add(Operation *op, const FusedBlock &plan) {
    if (!members.insert(op).second)
      return;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      bool here = producer && llvm::is_contained(kernel->stages, producer);
      bool recomputed = producer && !plan.isStage(producer) && isa<LoopInterface>(producer);
      if (here || recomputed || isInlinedConstant(producer))
        add(producer, plan);
      else
        inputs.insert(operand);
    }
  }
};

int64_t rowsOf(const Body &body) {
  if (body.kernel->serial)
    return 1;
  int64_t points = 0;
  for (Operation *stage : body.kernel->stages)
    points = std::max(points, cast<LoopInterface>(stage).getLoopDomain().points());
  bool flat = llvm::all_of(body.members, [&](Operation *op) {
    if (graph::tensorType(op->getResult(0)).getNumElements() == 1 || isInlinedConstant(op))
      return true;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      if (graph::tensorType(op->getOperand(i)).getNumElements() != 1 && rowsThrough(op, i).back() != points)
        return false;
    return op->getNumOperands() > 0;
  });
  return step::chooseRows(body.kernel->rows, points, flat);
}

struct FormKernelsPass : impl::FormKernelsPassBase<FormKernelsPass> {
  using FormKernelsPassBase::FormKernelsPassBase;

  void runOnOperation() final {
    if (getOperation().isDeclaration())
      return;
    Block &block = getOperation().getBody().front();
    if (failed(checkLowerings(block)))
      return signalPassFailure();
    FusedBlock plan(block, forGpu);
    SmallVector<Body> bodies;
    replacements.clear();
    llvm::DenseSet<Value> needed; // by another kernel or by something that is no kernel
    for (const auto &kernel : plan.getKernels()) {
      Body &body = bodies.emplace_back(Body{&kernel, {}, {}});
      for (Operation *stage : kernel.stages)
        body.add(stage, plan);
      needed.insert(body.inputs.begin(), body.inputs.end());
    }
    for (Operation &op : block)
      if (!isa<LoopInterface, SerialInterface>(op) || isView(&op, plan))
        needed.insert(op.operand_begin(), op.operand_end());
    for (const Body &body : bodies)
      build(body, needed);
    for (auto [old, output] : replacements)
      old.replaceAllUsesWith(output);
    for (Operation &op : llvm::make_early_inc_range(block))
      if (auto library = dyn_cast<LibraryInterface>(op))
        if (failed(buildCall(library, plan.getWhen(&op), forGpu)))
          return signalPassFailure();
    graph::eraseUnused(block);
  }

private:
  SmallVector<std::pair<Value, Value>> replacements; // of stages by their kernels' results

  /// A reshape that is not recomputed in kernels but names a whole buffer.
  static bool isView(Operation *op, const FusedBlock &plan) {
    return isa<graph::ReshapeOp>(op) && !plan.isStage(op) &&
           llvm::any_of(op->getUsers(), [](Operation *user) { return !isa<LoopInterface, SerialInterface>(user); });
  }

  static LogicalResult checkLowerings(Block &block) {
    bool ok = true;
    for (Operation &op : block.without_terminator()) {
      auto constant = dyn_cast<graph::ConstantOp>(op);
      if (constant && !isa<DenseElementsAttr>(constant.getValue())) {
        op.emitError("a constant without its elements: they were left out of the dump");
        ok = false;
      }
      if (!isa<LoopInterface, SerialInterface, LibraryInterface, graph::ConstantOp>(op)) {
        op.emitError("no CPU lowering for '") << op.getName() << "'";
        ok = false;
      }
    }
    return success(ok);
  }

  void build(const Body &body, const llvm::DenseSet<Value> &needed) {
    Operation *last = body.kernel->stages.back();
    OpBuilder builder(last);
    builder.setInsertionPointAfter(last);
    SmallVector<Value> outputs;
    SmallVector<Location> locations;
    for (Operation *stage : body.kernel->stages) {
      locations.push_back(stage->getLoc());
      for (Value result : stage->getResults())
        if (needed.contains(result))
          outputs.push_back(result);
    }
    Location loc = locations.size() == 1 ? locations[0] : FusedLoc::get(builder.getContext(), locations);
    auto kernel = exec::KernelOp::create(builder, loc, TypeRange(ValueRange(outputs)), rowsOf(body),
                                         body.inputs.getArrayRef(), /*batch=*/nullptr, /*when=*/nullptr, /*offsets=*/nullptr);
    if (body.kernel->when)
      kernel.setWhen(body.kernel->when);
    Block &region = kernel.getBody().emplaceBlock();
    IRMapping mapping;
    for (Value input : body.inputs)
      mapping.map(input, region.addArgument(input.getType(), input.getLoc()));
    builder.setInsertionPointToEnd(&region);
    SmallVector<Operation *> members(body.members.begin(), body.members.end());
    llvm::sort(members, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *member : members) {
      Operation *copy = builder.clone(*member, mapping);
      if (llvm::is_contained(body.kernel->stages, member))
        copy->setAttr(exec::names::stage, builder.getUnitAttr());
    }
    SmallVector<Value> yielded;
    for (Value output : outputs)
      yielded.push_back(mapping.lookup(output));
    exec::YieldOp::create(builder, loc, yielded);
    for (auto [old, output] : llvm::zip(outputs, kernel.getOutputs()))
      replacements.push_back({old, output});
  }

  static LogicalResult buildCall(LibraryInterface op, int64_t when, bool forGpu) {
    auto service = op.getLibraryCall();
    if (failed(service))
      return failure();
    OpBuilder builder(op);
    auto call = exec::CallOp::create(builder, op.getLoc(), op.getOperation(), forGpu ? service->workspace : 0);
    if (when)
      call.setWhen(when);
    op->replaceAllUsesWith(call.getOutputs());
    op->erase();
    return success();
  }
};
} // namespace
} // namespace divisi::codegen
