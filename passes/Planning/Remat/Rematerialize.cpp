#include "passes/Planning/Remat/Rematerialize.h"

#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Planning/Cost/Nominal.h"
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Remat/Segments.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::planning;

/// A segment's values with at most 1 / smallest of the bytes of its largest value are kept: statistics, counts.
static constexpr int64_t smallest = 32;

namespace {

using StageOf = llvm::function_ref<int(Operation *)>;

/// The forward pass of a training step by nodes.
class ForwardPart {
public:
  using Nodes = llvm::MapVector<std::string, SmallVector<Operation *>, std::map<std::string, unsigned>>;

  ForwardPart(func::FuncOp train, StageOf stageOf) : stageOf(stageOf), train(train), forward(reportedOps(train)) {
    Operation *loss = nullptr;
    for (auto [i, value] : llvm::enumerate(train.getBody().front().getTerminator()->getOperands()))
      if (auto report = train.getResultAttrOfType<DictionaryAttr>(i, graph::names::result))
        if (report.getAs<StringAttr>("kind").getValue() == "loss")
          loss = value.getDefiningOp();
    bool before = loss != nullptr;
    for (Operation &op : train.getBody().front().without_terminator()) {
      if (before)
        early.insert(&op);
      before &= &op != loss;
      if (!forward.contains(&op) || llvm::none_of(op.getOperands(), [&](Value value) { return isOfBatch(value); }))
        continue;
      auto [it, fresh] = nodes.try_emplace(graph::pathOf(&op));
      it->second.push_back(&op);
      numbers[&op] = it - nodes.begin();
    }
  }

  /// Whether a value is an input, or computed from one in the forward pass.
  bool isOfBatch(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? (bool)train.getArgAttr(argument.getArgNumber(), graph::names::input)
                    : numbers.contains(value.getDefiningOp());
  }
  /// Whether an operation belongs to the backward pass or the update.
  bool isLate(Operation *user) const {
    return !early.empty() && !user->hasTrait<OpTrait::IsTerminator>() && !forward.contains(user) &&
           !early.contains(user);
  }
  bool isReadLate(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *op) { return isLate(op); });
  }
  /// The number of the node that computes a value from the batch; -1: none does.
  int nodeOf(Value value) const {
    auto it = numbers.find(value.getDefiningOp());
    return it == numbers.end() ? -1 : it->second;
  }
  const SmallVector<Operation *> &operationsOf(int node) const { return (nodes.begin() + node)->second; }
  /// The stage of a node's first operation.
  int stageOfNode(int node) const { return stageOf(operationsOf(node).front()); }
  int numberOf(const std::string &name) const {
    auto it = nodes.find(name);
    return it == nodes.end() ? -1 : it - nodes.begin();
  }

  Nodes nodes;
  StageOf stageOf;

private:
  mutable func::FuncOp train;                 // MLIR's methods of functions are not const
  llvm::DenseSet<Operation *> forward, early; // what reports depend on; what precedes the loss
  llvm::DenseMap<Operation *, int> numbers;   // of nodes, by operation that depends on the batch
};

/// The operations of one segment that are recomputed, and the values that are not kept.
class Rematerialization {
public:
  Rematerialization(const ForwardPart &part, int begin, int end)
      : part(part), begin(begin), end(end), stage(part.stageOfNode(begin)) {
    for (int i = begin; i < end; ++i)
      for (Operation *op : part.operationsOf(i))
        if (part.stageOf(op) == stage)
          operations.push_back(op);
    int64_t largest = 0;
    for (Operation *op : operations)
      for (Value value : op->getResults())
        if (part.isReadLate(value) && !isReadByLaterNodes(value)) {
          wanted.push_back(value);
          largest = std::max(largest, graph::bytesOf(value.getType()));
        }
    llvm::erase_if(wanted, [&](Value value) { return graph::bytesOf(value.getType()) * smallest <= largest; });
    findNeeded();
  }

  RematEffect effect() const {
    RematEffect result{stage, wanted, {}, {}};
    llvm::SmallSetVector<Value, 8> from;
    for (Operation *op : operations)
      if (needed.contains(op)) {
        result.again.push_back(op);
        for (Value operand : op->getOperands())
          if (part.nodeOf(operand) >= 0 && !needed.contains(operand.getDefiningOp()))
            from.insert(operand);
      }
    result.from.append(from.begin(), from.end());
    return result;
  }

  /// Clones the needed operations before the first operation of the backward pass that reads one of the values.
  void apply() {
    Operation *before = nullptr;
    for (Value value : wanted)
      for (Operation *user : value.getUsers())
        if (part.isLate(user) && (!before || user->isBeforeInBlock(before)))
          before = user;
    if (!before)
      return;
    llvm::sort(operations, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    OpBuilder builder(before);
    dist::StageListener stages;
    builder.setListener(&stages);
    for (Operation *op : operations)
      if (needed.contains(op)) {
        stages.follow(op);
        cloneOf(op, builder);
      }
    for (Value value : wanted)
      value.replaceUsesWithIf(mapping.lookup(value), [&](OpOperand &use) {
        return part.isLate(use.getOwner()) && use.getOwner() != barriers.lookup(value);
      });
  }

private:
  bool isInside(Value value) const {
    int node = part.nodeOf(value);
    return begin <= node && node < end && part.stageOf(value.getDefiningOp()) == stage;
  }
  bool isReadByLaterNodes(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return !part.isLate(user) &&
             llvm::any_of(user->getResults(), [&](Value made) { return part.nodeOf(made) >= 0 && !isInside(made); });
    });
  }

  /// Finds the operations that recompute the wanted values from values that the backward pass has anyway.
  void findNeeded() {
    llvm::DenseSet<Value> dropped(wanted.begin(), wanted.end());
    SmallVector<Value> work(wanted);
    while (!work.empty()) {
      Operation *op = work.pop_back_val().getDefiningOp();
      if (!needed.insert(op).second)
        continue;
      for (Value operand : op->getOperands())
        if (isInside(operand) &&
            (dropped.contains(operand) || (!part.isReadLate(operand) && !isReadByLaterNodes(operand))))
          work.push_back(operand);
    }
  }

  void cloneOf(Operation *op, OpBuilder &builder) {
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand) && part.isOfBatch(operand)) {
        auto barrier = graph::ReshapeOp::create(builder, op->getLoc(), operand.getType(), operand, /*barrier=*/true);
        barriers[operand] = barrier;
        mapping.map(operand, barrier.getResult());
      }
    Operation *copy = builder.clone(*op, mapping);
    copy->setLoc(graph::withRole(op->getLoc(), "recomputed"));
  }

  const ForwardPart &part;
  const int begin, end, stage;
  SmallVector<Operation *> operations;
  SmallVector<Value> wanted; // values that the backward pass reads and that are not kept
  llvm::DenseSet<Operation *> needed;
  llvm::DenseMap<Value, Operation *> barriers;
  IRMapping mapping;
};

/// The segments that save memory, best first.
std::vector<RematSegment> segmentsOf(const ForwardPart &part) {
  std::vector<RematNode> nodes(part.nodes.size());
  std::vector<double> change(nodes.size() + 1, 0); // change of the live bytes
  for (auto [i, node] : llvm::enumerate(part.nodes))
    for (Operation *op : node.second) {
      nodes[i].seconds += nominalSeconds(op);
      for (Value value : op->getResults()) {
        double bytes = graph::bytesOf(value.getType());
        if (part.isReadLate(value))
          nodes[i].kept += bytes;
        int last = i;
        for (Operation *user : value.getUsers())
          for (Value made : user->getResults())
            last = std::max(last, part.nodeOf(made));
        change[i + 1] += bytes;
        change[last + 1] -= bytes;
      }
    }
  double crossing = 0;
  for (auto [i, node] : llvm::enumerate(nodes))
    node.crossing = crossing += change[i];
  std::vector<RematSegment> segments;
  for (int begin = 0, end = 0; begin < (int)nodes.size(); begin = end) { // a cut is never inside of a pipeline's stage
    while (end < (int)nodes.size() && part.stageOfNode(end) == part.stageOfNode(begin))
      ++end;
    for (RematSegment segment :
         segmentsForRemat({nodes.begin() + begin, nodes.begin() + end}, /*thenBackward=*/end == (int)nodes.size())) {
      segment.begin += begin, segment.end += begin;
      segments.push_back(segment);
    }
  }
  llvm::stable_sort(segments, isWorthMore);
  return segments;
}

int stageByAttribute(Operation *op) { return dist::stageOf(op); }
} // namespace

std::vector<NamedRemat> planning::rematSegments(ModuleOp module) {
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (!train)
    return {};
  ForwardPart part(train, stageByAttribute);
  std::vector<NamedRemat> result;
  for (const RematSegment &segment : segmentsOf(part))
    result.push_back({(part.nodes.begin() + segment.begin)->first, (part.nodes.begin() + segment.end - 1)->first});
  return result;
}

std::vector<RematEffect> planning::rematEffects(func::FuncOp train, StageOf stageOf) {
  ForwardPart part(train, stageOf);
  std::vector<RematEffect> result;
  for (const RematSegment &segment : segmentsOf(part))
    result.push_back(Rematerialization(part, segment.begin, segment.end).effect());
  return result;
}

llvm::Error planning::rematerialize(ModuleOp module, ArrayRef<NamedRemat> segments) {
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (!train)
    return llvm::createStringError("there is no function @train");
  ForwardPart part(train, stageByAttribute); // operations that it does not know count as the backward pass
  for (const NamedRemat &segment : segments) {
    int begin = part.numberOf(segment.first), last = part.numberOf(segment.last);
    std::string wrong;
    if (begin < 0 || last < 0)
      wrong = "there is no node '" + (begin < 0 ? segment.first : segment.last) +
              "' in the forward pass that computes anything from the inputs";
    else if (last < begin)
      wrong = "'" + segment.last + "' comes before '" + segment.first + "'";
    else if (part.stageOfNode(begin) != part.stageOfNode(last))
      wrong = "'" + segment.first + "' and '" + segment.last + "' are in different stages";
    else
      Rematerialization(part, begin, last + 1).apply();
    if (!wrong.empty())
      return llvm::createStringError(wrong);
  }
  graph::nameNodes(train);
  return llvm::Error::success();
}

void planning::warnOfNoParts(ModuleOp module) {
  emitWarning(UnknownLoc::get(module.getContext())) << "no segment of the forward pass is recomputed: none saves "
                                                       "memory, or the operations have no graph.node";
}

std::vector<NamedRemat> planning::rematerializeBest(ModuleOp module, int64_t count) {
  std::vector<NamedRemat> segments = count > 0 ? rematSegments(module) : std::vector<NamedRemat>();
  if (count > 0 && segments.empty())
    warnOfNoParts(module);
  segments.resize(std::min<size_t>(segments.size(), std::max<int64_t>(0, count)));
  if (!segments.empty())
    llvm::cantFail(rematerialize(module, segments)); // the nodes exist
  return segments;
}

namespace divisi::planning {
#define GEN_PASS_DEF_REMATERIALIZEPASS
#include "passes/Planning/Passes.h.inc"

namespace {
struct RematerializePass : impl::RematerializePassBase<RematerializePass> {
  using RematerializePassBase::RematerializePassBase;

  void runOnOperation() final { rematerializeBest(getOperation(), count); }
};
} // namespace
} // namespace divisi::planning
