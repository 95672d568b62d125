#include "passes/Planning/Remat/Rematerialize.h"

#include "dialects/Dist/Tasks.h"
#include "passes/Planning/Cost/Nominal.h"
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Remat/Segments.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::planning;

/// Values that are so many times smaller than the largest of their part are kept: rows' statistics, counts.
static constexpr int64_t smallest = 32;

namespace {

/// The forward part of a training step by nodes.
class ForwardPart {
public:
  explicit ForwardPart(func::FuncOp train) : train(train), forward(reportedOps(train)) {
    for (auto [i, value] : llvm::enumerate(train.getBody().front().getTerminator()->getOperands()))
      if (auto report = train.getResultAttrOfType<DictionaryAttr>(i, graph::names::result))
        if (report.getAs<StringAttr>("kind").getValue() == "loss")
          last = value.getDefiningOp();
    for (Operation &op : train.getBody().front().without_terminator()) {
      if (!forward.contains(&op))
        continue;
      bool reads = llvm::any_of(op.getOperands(), [&](Value value) { return isOfBatch(value); });
      if (!reads)
        continue;
      ofBatch.insert(&op);
      nodes[nameOfLocation(op.getLoc())].push_back(&op);
    }
  }

  /// Whether a value is an input, or computed from one in the forward part.
  bool isOfBatch(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? (bool)train.getArgAttr(argument.getArgNumber(), graph::names::input)
                    : ofBatch.contains(value.getDefiningOp());
  }
  /// Whether an operation is of the backward part, or of the update.
  bool isLate(Operation *user) const {
    return last && !user->hasTrait<OpTrait::IsTerminator>() && !forward.contains(user) && last->isBeforeInBlock(user);
  }
  bool isReadLate(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *op) { return isLate(op); });
  }
  /// The number of the node that made a value from the batch; -1: none.
  int nodeOf(Value value) const {
    Operation *op = value.getDefiningOp();
    return op && ofBatch.contains(op) ? numberOf(nameOfLocation(op->getLoc())) : -1;
  }
  /// Where a node's first operation is.
  int stageOf(int node) const { return dist::stageOf((nodes.begin() + node)->second.front()); }
  int numberOf(const std::string &name) const {
    auto it = nodes.find(name);
    return it == nodes.end() ? -1 : it - nodes.begin();
  }

  llvm::MapVector<std::string, SmallVector<Operation *>, std::map<std::string, unsigned>> nodes;

private:
  mutable func::FuncOp train; // (whose methods are not const)
  llvm::DenseSet<Operation *> forward, ofBatch;
  Operation *last = nullptr; // the loss
};

/// Clones what the backward part needs of a part of the forward part.
class Rematerialization {
public:
  Rematerialization(const ForwardPart &part, int begin, int end) : part(part), begin(begin), end(end) {}

  void run() {
    SmallVector<Value> wanted;
    int64_t largest = 0;
    for (Operation *op : operations())
      for (Value value : op->getResults())
        if (part.isReadLate(value) && !isReadByLaterNodes(value)) {
          wanted.push_back(value);
          largest = std::max(largest, graph::bytesOf(value.getType()));
        }
    llvm::erase_if(wanted, [&](Value value) { return graph::bytesOf(value.getType()) * smallest <= largest; });
    Operation *before = nullptr;
    for (Value value : wanted)
      for (Operation *user : value.getUsers())
        if (part.isLate(user) && (!before || user->isBeforeInBlock(before)))
          before = user;
    if (!before)
      return;
    again.insert(wanted.begin(), wanted.end());
    OpBuilder builder(before);
    for (Operation *op : slice(wanted))
      cloneOf(op, builder);
    for (Value value : wanted)
      value.replaceUsesWithIf(mapping.lookup(value), [&](OpOperand &use) {
        return part.isLate(use.getOwner()) && use.getOwner() != barriers.lookup(value);
      });
  }

private:
  /// Of the nodes, in program order.
  SmallVector<Operation *> operations() const {
    SmallVector<Operation *> result;
    for (int i = begin; i < end; ++i)
      for (Operation *op : (part.nodes.begin() + i)->second)
        if (dist::stageOf(op) == part.stageOf(begin))
          result.push_back(op);
    llvm::sort(result, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return result;
  }
  bool isInside(Value value) const {
    int node = part.nodeOf(value);
    return begin <= node && node < end && dist::stageOf(value.getDefiningOp()) == part.stageOf(begin);
  }
  bool isReadByLaterNodes(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return !part.isLate(user) &&
             llvm::any_of(user->getResults(), [&](Value made) { return part.nodeOf(made) >= 0 && !isInside(made); });
    });
  }
  /// Whether a value of these nodes is there in the backward part anyway.
  bool isKept(Value value) const {
    return !again.contains(value) && (part.isReadLate(value) || isReadByLaterNodes(value));
  }

  /// What the values are computed with, in program order, from what is kept.
  SmallVector<Operation *> slice(ArrayRef<Value> values) const {
    llvm::DenseSet<Operation *> needed;
    SmallVector<Value> work(values);
    while (!work.empty()) {
      Operation *op = work.pop_back_val().getDefiningOp();
      if (!needed.insert(op).second)
        continue;
      for (Value operand : op->getOperands())
        if (isInside(operand) && !isKept(operand))
          work.push_back(operand);
    }
    return llvm::filter_to_vector(operations(), [&](Operation *op) { return needed.contains(op); });
  }

  void cloneOf(Operation *op, OpBuilder &builder) {
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand) && part.isOfBatch(operand)) {
        auto barrier = graph::ReshapeOp::create(builder, op->getLoc(), operand.getType(), operand, /*barrier=*/true);
        if (Attribute stage = op->getAttr(dist::names::stage))
          barrier->setAttr(dist::names::stage, stage);
        barriers[operand] = barrier;
        mapping.map(operand, barrier.getResult());
      }
    builder.clone(*op, mapping);
  }
  const ForwardPart &part;
  const int begin, end;
  llvm::DenseSet<Value> again;
  llvm::DenseMap<Value, Operation *> barriers;
  IRMapping mapping;
};
} // namespace

std::vector<NamedRemat> planning::rematSegments(ModuleOp module) {
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (!train)
    return {};
  ForwardPart part(train);
  std::vector<RematNode> nodes(part.nodes.size());
  std::vector<double> change(nodes.size() + 1, 0); // of what crosses
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
  for (int begin = 0, end = 0; begin < (int)nodes.size(); begin = end) { // the stages of a pipeline
    while (end < (int)nodes.size() && part.stageOf(end) == part.stageOf(begin))
      ++end;
    for (RematSegment segment :
         segmentsForRemat({nodes.begin() + begin, nodes.begin() + end}, /*thenBackward=*/end == (int)nodes.size())) {
      segment.begin += begin, segment.end += begin;
      segments.push_back(segment);
    }
  }
  llvm::stable_sort(segments, isWorthMore);
  std::vector<NamedRemat> result;
  for (const RematSegment &segment : segments)
    result.push_back({(part.nodes.begin() + segment.begin)->first, (part.nodes.begin() + segment.end - 1)->first});
  return result;
}

LogicalResult planning::rematerialize(ModuleOp module, const NamedRemat &segment, std::string &error) {
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (!train) {
    error = "there is no function @train";
    return failure();
  }
  ForwardPart part(train);
  int begin = part.numberOf(segment.first), last = part.numberOf(segment.last);
  if (begin < 0 || last < 0) {
    error = "there is no node '" + (begin < 0 ? segment.first : segment.last) + "' in the forward part";
    return failure();
  }
  if (last < begin) {
    error = "'" + segment.last + "' comes before '" + segment.first + "'";
    return failure();
  }
  if (part.stageOf(begin) != part.stageOf(last)) {
    error = "'" + segment.first + "' and '" + segment.last + "' are in different stages";
    return failure();
  }
  Rematerialization(part, begin, last + 1).run();
  return success();
}

std::vector<NamedRemat> planning::rematerializeBest(ModuleOp module, int64_t count) {
  std::vector<NamedRemat> segments = count > 0 ? rematSegments(module) : std::vector<NamedRemat>();
  segments.resize(std::min<size_t>(segments.size(), std::max<int64_t>(0, count)));
  std::string none;
  for (const NamedRemat &segment : segments)
    (void)rematerialize(module, segment, none); // whose nodes there are
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
