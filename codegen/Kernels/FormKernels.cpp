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

/// Rows shorter than this vectorize badly.
constexpr int64_t shortRow = 16;

/// The largest number of rows; but where single elements would be rows and some operand is repeated along them, the
/// rows are cut so that the innermost loop runs over a dimension.
int64_t chooseRows(const Body &body) {
  const RowSet &rows = body.kernel->rows;
  if (body.kernel->serial)
    return 1;
  int64_t points = 0;
  for (Operation *stage : body.kernel->stages)
    points = std::max(points, cast<LoopInterface>(stage).getLoopDomain().points());
  if (rows.back() != points)
    return rows.back();
  bool flat = llvm::all_of(body.members, [&](Operation *op) {
    if (graph::tensorType(op->getResult(0)).getNumElements() == 1 || isInlinedConstant(op))
      return true;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      if (graph::tensorType(op->getOperand(i)).getNumElements() != 1 && rowsThrough(op, i).back() != points)
        return false;
    return op->getNumOperands() > 0;
  });
  if (flat)
    return points;
  for (int64_t count : llvm::reverse(rows))
    if (points / count >= shortRow)
      return count;
  return points;
}

struct FormKernelsPass : impl::FormKernelsPassBase<FormKernelsPass> {
  using FormKernelsPassBase::FormKernelsPassBase;

  void runOnOperation() final {
    if (getOperation().isDeclaration())
      return;
    Block &block = getOperation().getBody().front();
    if (failed(checkLowerings(block)))
      return signalPassFailure();
    replaceEmpty(block);
    dropBarriers(block);
    dropRoundTrips(block);
    dropDeadCode(block);
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
    dropDeadCode(block);
  }

private:
  SmallVector<std::pair<Value, Value>> replacements; // of stages by their kernels' results

  /// A reshape that is not recomputed in kernels but names a whole buffer.
  static bool isView(Operation *op, const FusedBlock &plan) {
    return isa<graph::ReshapeOp>(op) && !plan.isStage(op) &&
           llvm::any_of(op->getUsers(), [](Operation *user) { return !isa<LoopInterface, SerialInterface>(user); });
  }

  /// Nobody merges operations any more. Leaves no views of views where barriers were.
  static void dropBarriers(Block &block) {
    for (auto barrier : llvm::make_early_inc_range(block.getOps<graph::ReshapeOp>())) {
      if (!barrier.getBarrier())
        continue;
      barrier.setBarrier(false);
      if (auto inner = barrier.getX().getDefiningOp<graph::ReshapeOp>())
        barrier.getXMutable().assign(inner.getX());
      for (Operation *user : llvm::make_early_inc_range(barrier->getUsers()))
        if (auto outer = dyn_cast<graph::ReshapeOp>(user))
          outer.getXMutable().assign(barrier.getX());
      if (barrier.getX().getType() == barrier.getType()) {
        barrier.replaceAllUsesWith(barrier.getX());
        barrier.erase();
      }
    }
  }

  /// A value of 16 bits that is widened and narrowed again, with another shape perhaps, is the same.
  static void dropRoundTrips(Block &block) {
    for (auto narrow : llvm::make_early_inc_range(block.getOps<graph::CastOp>())) {
      auto view = narrow.getX().getDefiningOp<graph::ReshapeOp>();
      auto wide = (view ? view.getX() : narrow.getX()).getDefiningOp<graph::CastOp>();
      if (!wide || !graph::tensorType(wide.getResult()).getElementType().isF32())
        continue;
      Type element = graph::tensorType(wide.getX()).getElementType();
      if (element != graph::tensorType(narrow.getResult()).getElementType() || !(element.isBF16() || element.isF16()))
        continue;
      if (llvm::is_contained(narrow->getUsers(), block.getTerminator()))
        continue; // an output has memory of its own
      OpBuilder builder(narrow);
      Value same = wide.getX();
      if (view)
        same = graph::GraphBuilder(builder, view.getLoc()).reshape(same, graph::shapeOf(narrow.getResult()));
      narrow.replaceAllUsesWith(same);
      narrow.erase();
    }
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

  /// The elements of what adds up or multiplies no elements.
  static std::optional<double> sumOfNothing(Operation &op) {
    if (!isa<graph::ReduceSumOp, graph::ReduceProdOp, graph::MatmulOp>(op) ||
        graph::tensorType(op.getOperand(0)).getNumElements() != 0)
      return std::nullopt;
    return isa<graph::ReduceProdOp>(op) ? 1 : 0;
  }

  /// Tensors without elements need no code.
  static void replaceEmpty(Block &block) {
    for (Operation &op : block.without_terminator())
      for (Value result : op.getResults()) {
        auto type = graph::tensorType(result);
        OpBuilder builder(&op);
        if (auto number = sumOfNothing(op); number && type.getNumElements() != 0) {
          result.replaceAllUsesWith(graph::GraphBuilder(builder, op.getLoc()).splat(type, *number));
          continue;
        }
        if (type.getNumElements() != 0 || isa<graph::ConstantOp>(op))
          continue;
        auto empty = DenseElementsAttr::get(type, ArrayRef<Attribute>());
        result.replaceAllUsesWith(graph::ConstantOp::create(builder, op.getLoc(), empty));
      }
  }

  static void dropDeadCode(Block &block) {
    SmallVector<Operation *> operations;
    for (Operation &op : block.without_terminator())
      operations.push_back(&op);
    for (Operation *op : llvm::reverse(operations))
      if (isOpTriviallyDead(op))
        op->erase();
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
    auto kernel = exec::KernelOp::create(builder, loc, TypeRange(ValueRange(outputs)), chooseRows(body),
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
