#include "passes/Pipelining/AssignStages.h"
#include "dialects/Graph/Arguments.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Pipelining/StageCuts.h"
#include "passes/Planning/Cost/Nominal.h"
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Pipeline/StageFile.h"
#include "passes/Training/LossScaling.h"
#include "runtime/include/divisi/suggest.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace divisi::pipelining {
#define GEN_PASS_DEF_ASSIGNSTAGESPASS
#include "passes/Pipelining/Passes.h.inc"

namespace {

/// The model's nodes in the order of the forward pass, with their costs.
struct Layers {
  llvm::MapVector<StringAttr, double> seconds; // forward and backward pass
  std::vector<double> cutSeconds;              // of the messages across the cut before each node, in both directions

  int numberOf(Operation *op) const {
    auto it = seconds.find(nameOf(op));
    return it == seconds.end() ? -1 : (int)(it - seconds.begin());
  }
  static StringAttr nameOf(Operation *op) {
    return StringAttr::get(op->getContext(), graph::pathOf(op));
  }

  Layers(func::FuncOp function, const StepParts &parts, const StageWeights &weights) {
    Block &block = function.getBody().front();
    auto hasStage = [](Operation &op) { return op.hasAttr(dist::names::stage); };
    // Between stages with other axes, what has no stage after the plan is communication, and what reads that.
    bool again = llvm::any_of(block, hasStage);
    for (Part part : {Part::forward, Part::backward})
      for (Operation &op : block.without_terminator())
        if (parts.at(&op) == part && !parts.isOfState(&op) &&
            (part == Part::forward ? !again || hasStage(op) : numberOf(&op) >= 0))
          seconds[nameOf(&op)] += weights.seconds(&op);
    std::vector<double> change(seconds.size() + 1, 0);
    for (Operation &op : block.without_terminator())
      if (int first = parts.at(&op) == Part::forward && !parts.isOfState(&op) ? numberOf(&op) : -1; first >= 0)
        for (Value result : op.getResults()) {
          int last = first;
          for (Operation *user : result.getUsers())
            if (!user->hasTrait<OpTrait::IsTerminator>() && parts.at(user) == Part::forward)
              last = std::max(last, numberOf(user));
          change[first + 1] += 2 * weights.message(result); // and the gradient's message back
          change[last + 1] -= 2 * weights.message(result);
        }
    double now = 0;
    for (size_t i = 0; i < seconds.size(); ++i)
      cutSeconds.push_back(std::max(0.0, now += change[i]));
  }
};

/// Assigns a stage to every operation of one function.
class Assignment {
public:
  /// `placement` has the stages of the layers and of all state that was placed with other functions.
  Assignment(func::FuncOp function, const StepParts &parts, StagePlacement &placement, int lastStage)
      : function(function), parts(parts), placement(placement), stages(placement.operations),
        stageOfState(placement.states), lastStage(lastStage) {}

  void run() {
    Block &block = function.getBody().front();
    for (Operation &op : block.without_terminator())
      if (op.hasAttr(dist::names::stage))
        stages[&op] = dist::stageOf(&op);
    if (isAsynchronous(function)) // the scale travels with each minibatch, and the first stage hears of all gradients
      for (BlockArgument argument : block.getArguments())
        if (roleOf(argument) == training::scalingRole)
          stageOfState[nameOfArgument(argument)] = 0;
    placeForward(block);
    placeByUsers(block);
    placeGradients(block);
    placeByUsers(block);
    placeByRenewal(block);
    findRenewing(block);
    for (Operation &op : block.without_terminator())
      if ((parts.at(&op) == Part::finish || isSum(&op)) && isFree(&op)) {
        auto it = renewing.find(&op);
        bool one = it != renewing.end() && it->second >= 0;
        // A sum that depends on labels alone is computed on the stage of the loss.
        stages[&op] = one ? it->second : inputsStage(&op).value_or(isSum(&op) ? lastStage : 0);
      }
    placeByUsers(block); // what only the update reads
    for (BlockArgument argument : block.getArguments()) // other functions follow
      if (isOwned(argument))
        stageOfState.try_emplace(nameOfArgument(argument), 0);
  }

private:
  static bool isSum(Operation *op) { return isa<graph::AccumulateOp>(op); }
  /// Whether the operation had no stage before.
  static bool isFree(Operation *op) { return !op->hasAttr(dist::names::stage); }
  std::optional<int> layerStage(Operation *op) const {
    auto it = placement.layers.find(Layers::nameOf(op));
    return it == placement.layers.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<int> stageOf(Value value) const {
    if (Operation *op = value.getDefiningOp()) {
      auto it = stages.find(op);
      return it == stages.end() ? std::nullopt : std::optional(it->second);
    }
    auto argument = cast<BlockArgument>(value);
    auto it = stageOfState.find(nameOfArgument(argument));
    return isOwned(argument) && it != stageOfState.end() ? std::optional(it->second) : std::nullopt;
  }

  /// Places the forward pass: each operation on the stage of its layer, but not before what it reads. What belongs to no
  /// layer and reads none, such as labels that are gathered from other devices, is placed with what reads it.
  void placeForward(Block &block) {
    SmallVector<Operation *> open;
    for (Operation &op : block.without_terminator())
      if (parts.at(&op) == Part::forward && !isSum(&op) && !parts.isOfState(&op) && isFree(&op)) {
        auto own = layerStage(&op), reads = extreme(op.getOperands(), Part::forward, /*latest=*/true);
        if (own || reads)
          stages[&op] = std::max(own.value_or(0), reads.value_or(0));
        else
          open.push_back(&op);
      }
    for (Operation *op : llvm::reverse(open)) {
      std::optional<int> stage;
      for (Operation *user : op->getUsers())
        if (auto known = stages.contains(user) ? std::optional(stages[user]) : layerStage(user))
          stage = std::min(stage.value_or(*known), *known);
      stages[op] = stage.value_or(0);
    }
  }

  /// Places the backward pass: each operation on the stage of its layer, but never later than what it reads from the
  /// backward pass, whose messages go to earlier stages alone.
  ///
  /// What the backward pass makes of forward values alone, such as the mask of a padded batch, may be read by layers of
  /// later stages than its own: it is computed there, or it would draw their gradients away from their weights.
  void placeGradients(Block &block) {
    llvm::MapVector<Operation *, int> wanted;
    llvm::DenseMap<Operation *, int> latest; // of the stages wanted by what an operation depends on, itself included
    for (Operation &op : block.without_terminator())
      if (parts.at(&op) == Part::backward && !isSum(&op) && !parts.isOfState(&op) && isFree(&op)) {
        std::optional<int> flows, reached;
        for (Value operand : op.getOperands())
          if (auto it = wanted.find(operand.getDefiningOp()); it != wanted.end()) {
            flows = std::min(flows.value_or(it->second), it->second);
            reached = std::max(reached.value_or(0), latest.lookup(it->first));
          }
        auto own = layerStage(&op);
        wanted[&op] = own ? *own : flows ? *flows : inputsStage(&op).value_or(0);
        latest[&op] = std::max(reached.value_or(0), wanted[&op]);
      }
    for (auto &[op, stage] : llvm::reverse(wanted))
      for (Operation *user : op->getUsers())
        if (auto it = wanted.find(user); it != wanted.end() && it->second > latest.lookup(op))
          stage = std::max(stage, it->second);
    for (auto [op, stage] : wanted) {
      auto flows = extreme(op->getOperands(), Part::backward, /*latest=*/false);
      stages[op] = flows ? std::min(stage, *flows) : stage;
    }
  }

  /// State that only the end of the step reads, such as running statistics over microbatches, is placed where what it is
  /// renewed by comes from.
  void placeByRenewal(Block &block) {
    llvm::DenseMap<Value, int> latest; // of the stages that a value of the end of the step depends on
    auto depends = [&](Value value) {
      auto it = latest.find(value);
      return it == latest.end() ? stageOf(value) : std::optional(it->second);
    };
    for (Operation &op : block.without_terminator())
      for (Value operand : op.getOperands())
        if (auto stage = depends(operand); stage && !stages.contains(&op))
          for (Value result : op.getResults())
            latest[result] = std::max(latest.lookup(result), *stage);
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (auto renews = function.getResultAttrOfType<StringAttr>(i, graph::names::renews))
        if (auto stage = depends(value))
          stageOfState.try_emplace(renews.getValue(), *stage);
  }

  /// Finds, for each operation of the update, the stage of all the state that it renews, if this is a single stage.
  /// Otherwise the factor of gradient clipping would move an update to another stage. A gradient is that of its parameter,
  /// though the norm of all gradients renews the state of several stages.
  void findRenewing(Block &block) {
    constexpr int several = -1;
    auto add = [&](Operation *op, int stage) {
      auto [it, fresh] = renewing.try_emplace(op, stage);
      if (!fresh && it->second != stage)
        it->second = several;
    };
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (auto renews = function.getResultAttrOfType<StringAttr>(i, graph::names::renews);
          renews && value.getDefiningOp())
        if (auto it = stageOfState.find(renews.getValue()); it != stageOfState.end())
          add(value.getDefiningOp(), it->second);
    for (Operation &op : llvm::reverse(block.without_terminator()))
      if (auto it = renewing.find(&op); it != renewing.end() && parts.at(&op) == Part::finish) {
        int stage = it->second;
        bool isNumber = llvm::all_of(op.getResultTypes(), [](Type type) { return cast<RankedTensorType>(type).getRank() == 0; });
        for (Value operand : op.getOperands())
          if (Operation *producer = operand.getDefiningOp(); producer && parts.at(producer) == Part::finish)
            if (stage != several || !isNumber || cast<RankedTensorType>(operand.getType()).getRank() == 0)
              add(producer, stage);
      }
  }

  /// The latest or earliest stage among the producers that run in `part` of the step.
  std::optional<int> extreme(ValueRange values, Part part, bool latest) const {
    std::optional<int> result;
    for (Value value : values)
      if (Operation *op = value.getDefiningOp(); op && parts.at(op) == part)
        if (auto stage = stageOf(value))
          result = !result ? *stage : latest ? std::max(*result, *stage) : std::min(*result, *stage);
    return result;
  }

  /// The stage of the state that an operation reads, else the latest stage of its operands.
  std::optional<int> inputsStage(Operation *op) const {
    std::optional<int> result;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && parts.isOfState(producer))
        if (auto stage = inputsStage(producer))
          return stage;
    for (Value operand : op->getOperands())
      if (auto stage = stageOf(operand)) {
        if (isa<BlockArgument>(operand))
          return stage;
        result = std::max(result.value_or(0), *stage);
      }
    return result;
  }

  /// State, and what runs before the microbatches, is placed on the earliest known stage that uses it.
  void placeByUsers(Block &block) {
    auto earliest = [&](Value value) {
      std::optional<int> result;
      for (Operation *user : value.getUsers())
        if (auto it = stages.find(user); it != stages.end())
          result = std::min(result.value_or(it->second), it->second);
      return result;
    };
    for (Operation &op : llvm::reverse(block.without_terminator()))
      if ((parts.at(&op) == Part::start || parts.isOfState(&op)) && !stages.contains(&op)) {
        std::optional<int> stage;
        for (Value result : op.getResults())
          if (auto mine = earliest(result))
            stage = std::min(stage.value_or(*mine), *mine);
        if (stage)
          stages[&op] = *stage;
      }
    for (BlockArgument argument : block.getArguments())
      if (isOwned(argument) && !stageOfState.contains(nameOfArgument(argument)))
        if (auto stage = earliest(argument))
          stageOfState[nameOfArgument(argument)] = *stage;
    for (BlockArgument argument : block.getArguments()) { // optimizer state is placed with its parameter
      auto state = function.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), graph::names::state);
      if (auto of = state ? state.getAs<StringAttr>("of") : StringAttr(); of && stageOfState.contains(of.getValue()))
        stageOfState[nameOfArgument(argument)] = stageOfState[of.getValue()];
    }
  }

  func::FuncOp function;
  const StepParts &parts;
  StagePlacement &placement;
  llvm::DenseMap<Operation *, int> &stages;
  llvm::StringMap<int> &stageOfState;
  llvm::DenseMap<Operation *, int> renewing; // -1: of several stages
  int lastStage;
};

/// Of each node of the forward pass the other nodes that read its values.
std::vector<llvm::SmallSetVector<int, 4>> readersOf(func::FuncOp train, const StepParts &parts, const Layers &layers) {
  std::vector<llvm::SmallSetVector<int, 4>> readers(layers.seconds.size());
  auto nodeOf = [&](Operation *op) {
    bool isForward = !op->hasTrait<OpTrait::IsTerminator>() && parts.at(op) == Part::forward && !parts.isOfState(op);
    return isForward ? layers.numberOf(op) : -1;
  };
  for (Operation &op : train.getBody().front().without_terminator())
    if (int node = nodeOf(&op); node >= 0)
      for (Operation *user : op.getUsers())
        if (int reader = nodeOf(user); reader >= 0 && reader != node)
          readers[node].insert(reader);
  return readers;
}

/// The number of the node at which a cut lies; -1 if there is none. Where each shard of a node computes so little that all
/// stages compute it, the first one after it: cuts are chosen before shapes are local.
int nodeAt(StringRef name, func::FuncOp train, const StepParts &parts, const Layers &layers) {
  auto it = layers.seconds.find(StringAttr::get(train.getContext(), name));
  if (it != layers.seconds.end())
    return it - layers.seconds.begin();
  bool passed = false, isArgument = llvm::any_of(train.getArguments(), [&](BlockArgument argument) {
    return graph::nameOfArgument(argument) == name;
  });
  for (Operation &op : train.getBody().front().without_terminator()) {
    passed |= !isArgument && parts.at(&op) == Part::anywhere && graph::pathOf(&op) == name;
    if (int node = layers.numberOf(&op); passed && node >= 0)
      return node;
  }
  return -1;
}

/// The nodes from a cut on: those from a node on in the order of the model, or several nodes ("a + b") and all that
/// depend on them. Fails if there is no such node.
FailureOr<std::vector<bool>> nodesFrom(StringRef cut, func::FuncOp train, const StepParts &parts,
                                       const Layers &layers) {
  auto module = train->getParentOfType<ModuleOp>();
  SmallVector<StringRef> names = {cut};
  if (nodeAt(cut, train, parts, layers) < 0) {
    names.clear();
    cut.split(names, planning::joinsCuts);
  }
  std::vector<bool> behind(layers.seconds.size());
  SmallVector<int> open;
  for (StringRef name : names) {
    int node = nodeAt(name, train, parts, layers);
    if (node < 0)
      return module.emitError("cut: there is no node '")
             << name << "' in the forward pass"
             << suggestion(name, llvm::map_range(layers.seconds, [](auto &layer) { return layer.first.getValue(); }));
    open.push_back(node);
  }
  if (names.size() == 1) {
    std::fill(behind.begin() + open[0], behind.end(), true);
    return behind;
  }
  const auto readers = readersOf(train, parts, layers);
  while (!open.empty())
    if (int node = open.pop_back_val(); !behind[node]) {
      behind[node] = true;
      open.append(readers[node].begin(), readers[node].end());
    }
  return behind;
}

/// Decides the cuts and writes the stage of every layer.
LogicalResult cutLayers(func::FuncOp train, const StepParts &parts, const Layers &layers, int64_t stages,
                        const std::vector<double> &devices, StagePlacement &placement) {
  int64_t count = layers.seconds.size();
  auto module = train->getParentOfType<ModuleOp>();
  if (stages > count)
    return module.emitError("a pipeline of ") << stages << " stages needs as many nodes: the model has " << count;
  if (placement.cuts.empty()) {
    std::vector<double> seconds;
    for (auto &[name, value] : layers.seconds)
      seconds.push_back(value);
    for (int first : cutIntoStages(seconds, layers.cutSeconds, stages, devices))
      placement.cuts.push_back((layers.seconds.begin() + first)->first.str());
  }
  std::vector<int> stageOf(count, 0), nodes(stages, 0);
  for (auto [i, cut] : llvm::enumerate(placement.cuts)) {
    auto behind = nodesFrom(cut, train, parts, layers);
    if (failed(behind))
      return failure();
    for (int node = 0; node < count; ++node)
      if ((*behind)[node])
        stageOf[node] = i + 1;
  }
  if ((int64_t)placement.cuts.size() == stages - 1)
    for (int stage : stageOf)
      ++nodes[stage];
  if (llvm::is_contained(nodes, 0))
    return module.emitError("cut: expected the first nodes of stages 1 to ") << stages - 1 << ", in their order";
  for (auto [i, entry] : llvm::enumerate(layers.seconds))
    placement.layers[entry.first] = stageOf[i];
  return success();
}

void write(func::FuncOp function, const StagePlacement &placement) {
  Builder builder(function);
  for (auto [op, stage] : placement.operations)
    op->setAttr(dist::names::stage, builder.getI64IntegerAttr(stage));
  for (BlockArgument argument : function.getArguments())
    if (isOwned(argument))
      function.setArgAttr(argument.getArgNumber(), dist::names::stage,
                          builder.getI64IntegerAttr(placement.of(argument)));
}

struct AssignStagesPass : impl::AssignStagesPassBase<AssignStagesPass> {
  using AssignStagesPassBase::AssignStagesPassBase;

  void runOnOperation() final {
    std::vector<std::string> names(cuts.begin(), cuts.end());
    if (stages < 2)
      return;
    std::string error;
    dist::Mesh grid;
    if (!axes.empty()) {
      if (auto parsed = planning::parseMesh(mesh))
        grid = std::move(*parsed);
      else
        error = llvm::toString(parsed.takeError());
    }
    auto narrow = axes.empty() ? dist::StageAxes() : dist::StageAxes::parse(axes);
    if (error.empty())
      error = narrow.invalid(narrow.size(), grid);
    if (error.empty() && !narrow.empty() && stages % narrow.size())
      error = "expected an entry for each of " + std::to_string(stages) + " stages";
    if (!error.empty()) {
      getOperation().emitError("axes: ") << error;
      return signalPassFailure();
    }
    if (failed(narrow.empty() ? assignStages(getOperation(), stages, names, StageWeights::nominal())
                              : assignNarrowStages(getOperation(), stages, names,
                                                   StageWeights::nominal().sharedBy(narrow, grid, stages), narrow)))
      signalPassFailure();
  }
};
} // namespace

StageWeights StageWeights::nominal() {
  constexpr double messages = 5e9; // bytes/s between cores of one machine
  return {planning::nominalSeconds, [](Value value) { return graph::bytesOf(value.getType()) / messages; }};
}

StageWeights StageWeights::sharedBy(const dist::StageAxes &axes, const dist::Mesh &mesh, int64_t stages) const {
  StageWeights result = *this;
  for (int64_t stage = 0; stage < stages; ++stage)
    result.devices.push_back((double)axes.devices(stage, mesh));
  return result;
}

std::vector<std::string> nodesOf(func::FuncOp train, const StepParts &parts) {
  std::vector<std::string> names;
  for (auto &[name, seconds] : Layers(train, parts, StageWeights::nominal()).seconds)
    names.push_back(name.str());
  return names;
}

FailureOr<StagePlacement> placeStages(func::FuncOp train, const StepParts &parts, int64_t stages,
                                      const std::vector<std::string> &cuts, const StageWeights &weights) {
  StagePlacement placement;
  placement.cuts = cuts;
  if (failed(cutLayers(train, parts, Layers(train, parts, weights), stages, weights.devices, placement)))
    return failure();
  Assignment(train, parts, placement, stages - 1).run();
  return placement;
}

LogicalResult assignStages(ModuleOp module, int64_t stages, const std::vector<std::string> &cuts,
                           const StageWeights &weights) {
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (!train || !train->hasAttr(graph::names::microbatches))
    return module.emitError("a pipeline needs a function @train with microbatches");
  auto parts = StepParts::of(train);
  if (failed(parts))
    return failure();
  auto placement = placeStages(train, *parts, stages, cuts, weights);
  if (failed(placement))
    return failure();
  write(train, *placement);
  for (auto function : module.getOps<func::FuncOp>())
    if (function != train && function->hasAttr(graph::names::microbatches)) {
      auto others = StepParts::of(function);
      if (failed(others))
        return failure();
      placement->operations.clear();
      Assignment(function, *others, *placement, stages - 1).run();
      write(function, *placement);
    }
  return success();
}

LogicalResult assignNarrowStages(ModuleOp module, int64_t stages, const std::vector<std::string> &cuts,
                                 const StageWeights &weights, const dist::StageAxes &axes) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(graph::names::microbatches))
      function->setAttr(dist::names::stageAxes, axes.toAttr(module.getContext()));
  return assignStages(module, stages, cuts, weights);
}
} // namespace divisi::pipelining
