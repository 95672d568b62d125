#include "passes/Pipelining/StepParts.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Planning/ModuleProblem.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::pipelining;

/// FLOPs per element that an operation may have to be recomputed in every task that uses it.
static constexpr int64_t cheapFlops = 32;
/// FLOPs per element of a whole chain of operations that is recomputed.
static constexpr int64_t mostRepeatedFlops = 128;

static func::FuncOp functionOf(BlockArgument argument) {
  return cast<func::FuncOp>(argument.getOwner()->getParentOp());
}

bool pipelining::isAsynchronous(func::FuncOp function) {
  return function->hasAttr(asynchronousStep);
}

void pipelining::unmarkGradients(ModuleOp module) {
  module.walk([](graph::AccumulateOp op) {
    op.replaceAllUsesWith(op.getX());
    op.erase();
  });
}

bool pipelining::isOwned(BlockArgument argument) {
  StringRef role = roleOf(argument);
  return !role.empty() && role != "step" && role != "seed";
}

static bool isOwnedArgument(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && pipelining::isOwned(argument);
}

static bool isInput(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && functionOf(argument).getArgAttr(argument.getArgNumber(), graph::names::input);
}

/// Whether the result has less than a quarter of the operand's bytes.
static bool shrinks(Operation &op, Value operand) {
  return 4 * graph::bytesOf(op.getResult(0).getType()) < graph::bytesOf(operand.getType());
}

bool StepParts::isAnywhere(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return !isOwned(argument);
  return parts.at(value.getDefiningOp()) == Part::anywhere;
}

bool StepParts::isRepeated(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && (parts.at(op) == Part::start || parts.at(op) == Part::finish) && op->getNumOperands() == 1 &&
         isCheap(op) && graph::bytesOf(value.getType()) >= graph::bytesOf(op->getOperand(0).getType());
}

std::optional<Part> StepParts::partOfUsers(Operation *op) const {
  std::optional<Part> result;
  for (Operation *user : op->getUsers()) {
    if (user->hasTrait<OpTrait::IsTerminator>() || (result && *result != parts.at(user)))
      return std::nullopt;
    result = parts.at(user);
  }
  return result;
}

/// `weightsChange`: a backward task reads other weights than its forward task did.
void StepParts::findKept(Block &block, bool weightsChange) {
  llvm::DenseMap<Value, int64_t> flops; // FLOPs per element from the kept value
  for (Operation &op : block.without_terminator()) {
    if (parts.at(&op) != Part::forward || op.getNumResults() != 1 || !isCheap(&op))
      continue;
    Value result = op.getResult(0), source;
    int64_t elements = std::max<int64_t>(1, graph::tensorType(result).getNumElements());
    auto cost = dyn_cast<graph::CostInterface>(op); // constants and pieces cost nothing
    int64_t each = cost ? cost.getFlops() / elements : 0;
    bool single = true;
    for (Value operand : op.getOperands()) {
      if (weightsChange && (isOwnedArgument(operand) || ofState.contains(operand.getDefiningOp())))
        single = false;
      Operation *producer = operand.getDefiningOp();
      if (!producer || isAnywhere(operand) || parts.at(producer) == Part::start)
        continue; // available in every task
      single &= !producer->hasAttr(dist::names::use); // the other task would gather it again
      Value from = keptFor(operand);
      single &= !source || source == from;
      source = from;
      each += flops.lookup(operand);
    }
    if (!source || !single || each > mostRepeatedFlops ||
        graph::bytesOf(source.getType()) > graph::bytesOf(result.getType()))
      continue;
    kept[result] = source;
    flops[result] = each;
  }
}

bool pipelining::isSummedLater(Operation *op) {
  while (isa<graph::AddOp>(op) && op->hasOneUse()) {
    op = *op->user_begin();
    if (isa<graph::CastOp>(op) && op->hasOneUse()) // sums of 16-bit values are f32
      op = *op->user_begin();
    if (isa<graph::AccumulateOp>(op))
      return true;
  }
  return false;
}

llvm::DenseSet<Operation *> StepParts::weightGradients(func::FuncOp function,
                                                       llvm::function_ref<int(Operation *)> stageOf, bool sumsFirst) const {
  llvm::DenseSet<Operation *> result;
  for (Operation &op : llvm::reverse(function.getBody().front().without_terminator())) {
    if (parts.at(&op) != Part::backward || isa<graph::AccumulateOp>(op))
      continue;
    bool awaited = llvm::any_of(op.getUsers(), [&](Operation *user) {
      return !user->hasTrait<OpTrait::IsTerminator>() && parts.at(user) == Part::backward && !isa<graph::AccumulateOp>(user) &&
             (stageOf(user) != stageOf(&op) ? !sumsFirst || !isSummedLater(user) : !result.contains(user));
    });
    if (!awaited)
      result.insert(&op);
  }
  return result;
}

/// By how many devices an operation of a planned step is shared, and each of its results.
static std::pair<int64_t, int64_t> sharesOf(Operation *op) {
  auto attr = op->getParentOfType<func::FuncOp>()->getAttrOfType<dist::MeshAttr>(dist::names::mesh);
  if (!attr)
    return {1, 1};
  const dist::Mesh mesh = dist::toMesh(attr);
  int64_t all = 1, ofResults = 1;
  for (auto [axis, entry] : llvm::enumerate(mesh.axes)) {
    auto splits = [&, axis = (int)axis](Value value) {
      return dist::shardOf(value.getType()) && dist::toSharding(graph::tensorType(value), mesh).splits(axis);
    };
    const bool split = llvm::any_of(op->getResults(), splits);
    all *= split || llvm::any_of(op->getOperands(), splits) ? entry.size : 1;
    ofResults *= split ? entry.size : 1;
  }
  return {all, ofResults};
}

bool StepParts::isCheap(Operation *op) const {
  if (auto reshard = dyn_cast<dist::ReshardOp>(op)) // a piece of what every device has: partition makes it a slice
    return !dist::shardOf(reshard.getInput().getType());
  auto cost = dyn_cast<graph::CostInterface>(op);
  if (!cost || isa<graph::AccumulateOp>(op))
    return isa<graph::ConstantOp>(op);
  int64_t elements = 0;
  for (Value result : op->getResults())
    elements += graph::tensorType(result).getNumElements();
  auto [all, ofResults] = sharesOf(op); // so that the answer is that after partition
  return cost.getFlops() / all <= cheapFlops * (elements / ofResults);
}

/// Reports that an operation of each microbatch reads a sum over all of them; `after` is what depends on such sums.
static LogicalResult reportSum(Operation &op, const llvm::DenseSet<Operation *> &after) {
  llvm::SetVector<Operation *> open;
  open.insert(&op);
  for (size_t i = 0; i < open.size(); ++i)
    for (Value operand : open[i]->getOperands())
      if (Operation *producer = operand.getDefiningOp(); isa_and_nonnull<graph::AccumulateOp>(producer)) {
        InFlightDiagnostic error = producer->emitError("is summed over all microbatches, and ");
        if (graph::pathOf(producer) == graph::pathOf(&op))
          error << "needs this sum in each of them";
        else
          error << "node '" << graph::pathOf(&op) << "' needs the sum in each of them";
        return error << ": " << notInMicrobatches;
      }
      else if (producer && after.contains(producer))
        open.insert(producer);
  return op.emitError("needs a sum over all microbatches in each of them");
}

FailureOr<StepParts> StepParts::of(func::FuncOp function) {
  StepParts result;
  Block &block = function.getBody().front();
  llvm::DenseSet<Operation *> timed, after, ofInputs;
  bool minibatch = isAsynchronous(function);
  for (Operation &op : block.without_terminator()) {
    bool anywhere = result.isCheap(&op), isTimed = false, isAfter = false, fromState = false, fromBatch = false;
    for (Value operand : op.getOperands()) {
      Operation *producer = operand.getDefiningOp();
      anywhere &= result.isAnywhere(operand) || (minibatch && isOwnedArgument(operand) && !shrinks(op, operand));
      bool state = producer ? result.ofState.contains(producer) : isOwnedArgument(operand);
      bool input = producer ? ofInputs.contains(producer) : isInput(operand);
      fromState |= state;
      fromBatch |= !state && (input || !result.isAnywhere(operand));
      if (input)
        ofInputs.insert(&op);
      if (auto argument = dyn_cast<BlockArgument>(operand))
        isTimed |= isScalar(argument, "microbatch");
      else if (isa<graph::AccumulateOp>(producer))
        isAfter = true;
      else
        isTimed |= timed.contains(producer), isAfter |= after.contains(producer);
    }
    if (minibatch) {
      if (fromState && !fromBatch)
        result.ofState.insert(&op);
      anywhere &= !fromState || !ofInputs.contains(&op); // what depends on both is the model itself
      isTimed = !anywhere && !isAfter;
    }
    if (isTimed && isAfter)
      return reportSum(op, after);
    if (isTimed)
      timed.insert(&op);
    if (isAfter)
      after.insert(&op);
    result.parts[&op] = anywhere ? Part::anywhere : isAfter ? Part::finish : isTimed ? Part::backward : Part::start;
  }
  // What the loss and other reports depend on is the forward pass. Of what runs once, only what the microbatches depend
  // on runs before them.
  llvm::DenseSet<Operation *> forward = planning::reportedOps(function), early;
  bool training = function.getName() == "train";
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    Part &part = result.parts[&op];
    if (part == Part::backward && (!training || forward.contains(&op)))
      part = Part::forward;
    bool needed = early.contains(&op) || result.isTimed(&op);
    if (part == Part::start && !needed)
      part = Part::finish;
    if (part == Part::start && op.hasAttr(dist::names::use))
      if (auto ofUsers = result.partOfUsers(&op); ofUsers && ofUsers != Part::start) {
        part = *ofUsers;
        result.ofState.insert(&op);
      }
    // An accumulate adds in every microbatch, even a value that none of them changes.
    if (needed || isa<graph::AccumulateOp>(op))
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp())
          early.insert(producer);
  }
  result.findKept(block, minibatch);
  return result;
}
