#include "passes/Planning/ProblemBlock.h"

#include <map>
#include <set>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using graph::Form;

namespace {

/// The `when` bits of outputs that only some steps need.
constexpr int64_t someSteps = 1;

using Shape = llvm::SmallVector<int64_t, 4>;

class Describer {
public:
  Describer(const Problem &problem, bool evaluation, const LocalStep *local, ProblemBlock &result)
      : problem(problem), local(local), result(result),
        valueOf(local ? local->all.versions.size() : problem.tensors.size(), -1) {
    std::vector<Node> nodes;
    if (local) {
      std::vector<bool> enters(problem.tensors.size()); // arguments of this part
      for (const Problem::Op &op : problem.ops)
        if (op.forward == evaluation)
          for (int t : op.operands)
            enters[t] = true;
      for (const Problem::Op &op : problem.ops)
        for (int t : op.results)
          enters[t] = false;
      stepsOf.resize(valueOf.size());
      findFollowers();
      for (auto [v, version] : llvm::enumerate(local->all.versions))
        if (version.source < 0 && enters[version.tensor])
          follow(v, nodes);
    }
    for (auto [number, op] : llvm::enumerate(problem.ops))
      if (op.forward == evaluation)
        for (int t : op.results)
          makerOf[t] = number;
    for (int op = 0; op < (int)problem.ops.size(); ++op)
      if (problem.ops[op].forward == evaluation) {
        if (local)
          communicate(op, nodes);
        make(op, nodes);
      }
    if (local && local->collectives.anyCombined())
      sort(nodes);
    for (Node &node : nodes)
      node.op >= 0 ? add(node.op) : addParts(node);
    for (auto [i, output] : llvm::enumerate(problem.outputs)) {
      const int value = valueOf[local ? local->all.outputs[i] : output.tensor];
      result.outputs.push_back(value);
      if (value >= 0)
        result.block.addOutput(value, output.seldom ? someSteps : 0);
    }
  }

private:
  using Part = ProblemBlock::Part;
  /// An operation, or parts of reshards that run together.
  struct Node {
    int op = -1;
    llvm::SmallVector<Part, 1> parts = {};
    int bucket = -1;
  };

  /// The operation, and what is resharded behind it, unless they are there.
  void make(int op, std::vector<Node> &nodes) {
    if (!made.insert(op).second)
      return;
    nodes.push_back({op});
    if (local)
      for (int t : problem.ops[op].results)
        follow(local->all.produced[t], nodes);
  }
  /// What makes a value that is gathered ahead of its use.
  void makeAhead(int tensor, std::vector<Node> &nodes) {
    auto maker = makerOf.find(tensor);
    if (maker == makerOf.end() || made.count(maker->second))
      return;
    for (int operand : problem.ops[maker->second].operands)
      makeAhead(operand, nodes);
    make(maker->second, nodes);
  }

  /// What communicates before an operation, for it.
  void communicate(int op, std::vector<Node> &nodes) {
    auto fetches = local->collectives.fetches();
    for (; fetched < fetches.size() && fetches[fetched].start <= op; ++fetched) {
      makeAhead(local->all.versions[fetches[fetched].version].tensor, nodes);
      reshard(fetches[fetched].version, nodes);
    }
    for (int version : local->all.operands[op])
      if (local->all.versions[version].user == op)
        reshard(version, nodes);
  }
  /// What is resharded behind the source.
  void follow(int version, std::vector<Node> &nodes) {
    for (int next : followers[version]) {
      reshard(next, nodes);
      follow(next, nodes);
    }
  }
  void findFollowers() {
    followers.resize(valueOf.size());
    for (auto [v, version] : llvm::enumerate(local->all.versions))
      if (version.source >= 0 && version.user < 0)
        followers[version.source].push_back(v);
  }
  void reshard(int version, std::vector<Node> &nodes) {
    if (local->all.versions[version].source < 0 || !seen.insert(version).second)
      return;
    auto entries = local->collectives.needed[version] ? local->collectives.of(version)
                                                      : llvm::ArrayRef<StepCollectives::Entry>();
    std::vector<ReshardStep> steps = local->collectives.stepsOf(version);
    int entry = 0;
    for (int step = 0; step < (int)steps.size(); ++step) {
      Part part{version, step};
      part.axes = steps[step].axes;
      Node node;
      if (steps[step].kind != ReshardStep::Kind::slice && entry < (int)entries.size()) {
        node.bucket = entries[entry].bucket;
        part.entry = entry++;
      }
      node.parts.push_back(part);
      nodes.push_back(std::move(node));
    }
    stepsOf[version] = std::move(steps);
  }

  /// A bucket runs where its last member would, and what reads the others behind it.
  void sort(std::vector<Node> &nodes) {
    std::map<int, int> last; // by bucket: node
    for (auto [n, node] : llvm::enumerate(nodes))
      if (node.bucket >= 0)
        last[node.bucket] = n;
    std::vector<Node> left;
    std::vector<int64_t> positions;
    std::map<int, llvm::SmallVector<Part, 1>> members;
    for (auto [n, node] : llvm::enumerate(nodes)) {
      if (node.bucket >= 0) {
        members[node.bucket].append(node.parts);
        if (last[node.bucket] != (int)n)
          continue;
        node.parts = members[node.bucket];
      }
      positions.push_back(n);
      left.push_back(std::move(node));
    }
    std::map<std::pair<int, int>, int> makers; // by version and step, -1 for what an operation makes: node
    std::vector<llvm::SmallVector<int, 4>> operands(left.size());
    for (auto [n, node] : llvm::enumerate(left)) {
      for (const Part &part : node.parts)
        makers[{part.version, part.step}] = n;
      if (node.op >= 0)
        for (int t : problem.ops[node.op].results)
          makers[{local->all.produced[t], -1}] = n;
    }
    for (auto [n, node] : llvm::enumerate(left)) {
      auto reads = [&, n = n](int version, int step) {
        if (auto maker = makers.find({version, step}); maker != makers.end())
          operands[n].push_back(maker->second);
      };
      auto readsVersion = [&](int version) {
        while (local->all.versions[version].source >= 0 && stepsOf[version].empty())
          version = local->all.versions[version].source;
        reads(version, (int)stepsOf[version].size() - 1);
      };
      for (const Part &part : node.parts)
        part.step > 0 ? reads(part.version, part.step - 1) : readsVersion(local->all.versions[part.version].source);
      if (node.op >= 0)
        for (int version : local->all.operands[node.op])
          readsVersion(version);
    }
    nodes.clear();
    for (int n : step::sortByPosition(positions, operands))
      nodes.push_back(std::move(left[n]));
  }

  /// The dimensions on a device of an operand or result, of an operation.
  Shape shapeOf(int tensor, int version) const {
    Shape shape(problem.tensors[tensor].shape);
    if (local)
      for (auto [size, axes] : llvm::zip(shape, local->all.versions[version].sharding.dims))
        size /= local->mesh.parts(axes);
    return shape;
  }
  int operandVersion(int op, int i) const { return local ? local->all.operands[op][i] : -1; }
  int resultVersion(int tensor) const { return local ? local->all.produced[tensor] : -1; }

  int valueFor(int tensor, int version) {
    if (local)
      version = problem.tensors[tensor].splat ? local->all.produced[tensor] : memoryOf(version);
    int &value = valueOf[local ? version : tensor];
    if (value < 0)
      value = addValue(tensor, version, llvm::product_of(shapeOf(tensor, version)));
    return value;
  }
  int addValue(int tensor, int version, int64_t elements) {
    result.tensorOf.push_back(tensor);
    result.versionOf.push_back(version);
    return result.block.addValue(elements, elements * problem.tensors[tensor].elementBytes);
  }
  /// A version that differs in nothing from its source is the same value.
  int memoryOf(int version) const {
    while (local->all.versions[version].source >= 0 && stepsOf[version].empty())
      version = local->all.versions[version].source;
    return version;
  }

  void add(int number) {
    const Problem::Op &op = problem.ops[number];
    step::Block::Op entry;
    entry.form = op.form;
    entry.flops = op.operands.empty() ? 0 : op.pointFlops;
    for (auto [i, t] : llvm::enumerate(op.operands))
      entry.operands.push_back(valueFor(t, operandVersion(number, i)));
    for (int t : op.results)
      entry.results.push_back(valueFor(t, resultVersion(t)));
    if (!op.results.empty()) {
      dist::ShardingRule rule;
      if (local) {
        rule = op.rule;
        for (auto [factor, axes] : llvm::zip(rule.factors, local->plan.ops[number]))
          factor.size /= local->mesh.parts(axes);
      }
      const Shape shape = shapeOf(op.results[0], resultVersion(op.results[0]));
      iterate(number, shape, entry);
      if (!graph::isCall(op.form) && op.form != Form::constant)
        for (auto [i, t] : llvm::enumerate(op.operands))
          entry.rows.push_back(
              step::rowsThrough(local ? rule : op.rule, i, shapeOf(t, operandVersion(number, i)), shape));
    }
    result.numberOf.push_back(number);
    result.block.addOp(std::move(entry));
  }

  /// A shard is cut out by reading it at its indices; everything else communicates.
  void addParts(Node &node) {
    step::Block::Op entry;
    entry.form = Form::call;
    for (Part &part : node.parts) {
      const auto &made = local->all.versions[part.version];
      const ReshardStep &step = stepsOf[part.version][part.step];
      const int source = part.step > 0 ? between.at(part.version) : valueFor(made.tensor, made.source);
      Shape shape = part.step > 0 ? shapes[part.version] : shapeOf(made.tensor, made.source);
      const int64_t parts = local->mesh.parts(step.axes);
      if (step.kind == ReshardStep::Kind::allGather || step.kind == ReshardStep::Kind::allToAll)
        shape[step.dim] *= parts;
      if (step.kind == ReshardStep::Kind::allToAll)
        shape[step.to] /= parts;
      if (step.kind == ReshardStep::Kind::reduceScatter || step.kind == ReshardStep::Kind::slice)
        shape[step.dim] /= parts;
      shapes[part.version] = shape;
      const bool last = part.step + 1 == (int)stepsOf[part.version].size();
      const int value = last ? valueFor(made.tensor, part.version)
                             : addValue(made.tensor, part.version, llvm::product_of(shape));
      between[part.version] = value;
      entry.operands.push_back(source);
      entry.results.push_back(value);
      if (step.kind == ReshardStep::Kind::slice) {
        part.size = shape[step.dim];
        entry.form = Form::elementwise;
        entry.flops = 1;
        entry.extents = shape;
        entry.reduced.assign(shape.size(), false);
        entry.rows.push_back(step::rowsOfShape(llvm::ArrayRef(shape).take_front(step.dim)));
      }
    }
    result.numberOf.push_back(-1);
    result.partsOf.resize(result.numberOf.size());
    result.partsOf.back() = node.parts;
    result.block.addOp(std::move(entry));
  }

  /// The iteration space: the dimensions of the result, and of a reduction also those that it reduces.
  void iterate(int number, const Shape &shape, step::Block::Op &entry) const {
    const Problem::Op &op = problem.ops[number];
    bool windowed = llvm::any_of(op.rule.factors, [](const auto &factor) { return factor.windowed; });
    if (op.form != Form::reduction || windowed || op.operands.empty()) {
      entry.extents.assign(shape.begin(), shape.end());
      entry.reduced.assign(shape.size(), false);
      if (op.form == Form::reduction) { // windows
        int64_t points = llvm::product_of(entry.extents), flops = op.flops;
        if (local)
          for (const Axes &axes : local->plan.ops[number])
            flops /= local->mesh.parts(axes);
        entry.extents.push_back(std::max<int64_t>(1, flops / std::max<int64_t>(1, points)));
        entry.reduced.push_back(true);
      }
      return;
    }
    std::set<int> free; // factors of the result
    for (const auto &factors : op.rule.results[0])
      free.insert(factors.begin(), factors.end());
    for (auto [factors, size] :
         llvm::zip(op.rule.operands[0], shapeOf(op.operands[0], operandVersion(number, 0)))) {
      entry.extents.push_back(size);
      entry.reduced.push_back(!factors.empty() && !free.count(factors[0]));
    }
  }

  const Problem &problem;
  const LocalStep *local;
  ProblemBlock &result;
  std::vector<int> valueOf; // by tensor or, under a plan, version
  std::vector<llvm::SmallVector<int, 1>> followers; // by version
  std::set<int> seen;                               // versions
  std::vector<std::vector<ReshardStep>> stepsOf;    // by version that was seen
  std::map<int, int> between;                       // by version: the value after the last step
  std::map<int, Shape> shapes;                      // of it
  size_t fetched = 0;
  std::map<int, int> makerOf; // by tensor: the operation
  std::set<int> made;         // operations
};
} // namespace

ProblemBlock::ProblemBlock(const Problem &problem, bool evaluation, const LocalStep *local) {
  Describer(problem, evaluation, local, *this);
}
