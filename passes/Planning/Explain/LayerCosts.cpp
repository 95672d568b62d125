#include "passes/Planning/Explain/LayerCosts.h"

#include "llvm/ADT/StringSet.h"

#include <map>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using Kind = ReshardStep::Kind;

std::string planning::layerOf(const std::string &node) {
  std::string first = node.substr(0, node.find(' '));
  size_t slash = first.rfind('/');
  return slash == std::string::npos || slash == 0 ? first : first.substr(0, slash);
}

namespace {
class Layers {
public:
  Layers(const Problem &problem, const Candidate &candidate) : problem(problem), candidate(candidate) {}

  std::vector<LayerCost> run() {
    Groups groups(problem, /*evaluation=*/false);
    std::vector<int> place(problem.ops.size(), -1);
    std::map<int, bool> seen;
    std::map<int, std::vector<int>> from; // by tensor that is made of parameters alone: which ones
    llvm::StringSet<> parameters;
    for (const auto &tensor : problem.tensors)
      if (tensor.role == Problem::Role::parameter)
        parameters.insert(tensor.name);
    for (auto [i, op] : llvm::enumerate(problem.ops)) {
      if (groups.groupOf[i] < 0)
        continue;
      // Norms of gradients are named after their parameters.
      bool isUpdate = groups.late[i] || op.name == "update" || ((int)i > groups.loss && parameters.contains(op.name));
      place[i] = layer(isUpdate ? "" : layerOf(op.name));
      LayerCost &cost = result[place[i]];
      ((int)i <= groups.loss ? cost.forward : cost.backward) += candidate.prediction.operations[i] * op.repeats;
      for (int operand : op.operands) {
        const bool direct = problem.tensors[operand].role == Problem::Role::parameter;
        for (int t : direct ? std::vector<int>{operand} : from[operand]) {
          if (parameters.contains(op.name)) { // a parameter is cut or laid out for its layer
            for (int result : op.results)
              from[result].push_back(t);
          } else if ((int)i <= groups.loss && !seen[t]) {
            seen[t] = true;
            cost.weights.push_back(t);
            cost.parameters += localBytes(problem.tensors[t], candidate.mesh, candidate.plan.tensors[t]);
          }
        }
      }
    }
    for (auto [c, collective] : llvm::enumerate(candidate.prediction.collectives)) {
      int op = collective.operation;
      LayerCost &cost = result[op >= 0 && place[op] >= 0 ? place[op] : layer("")];
      cost.shown += collective.waited * collective.times;
      cost.hidden += (collective.seconds - collective.waited) * collective.times;
      cost.collectives.push_back(c);
    }
    return std::move(result);
  }

private:
  int layer(const std::string &name) {
    auto [it, fresh] = numbers.try_emplace(name, result.size());
    if (fresh)
      result.emplace_back().name = name;
    return it->second;
  }

  const Problem &problem;
  const Candidate &candidate;
  std::vector<LayerCost> result;
  std::map<std::string, int> numbers;
};
} // namespace

std::vector<LayerCost> planning::layerCosts(const Problem &problem, const Candidate &candidate) {
  return Layers(problem, candidate).run();
}

static std::string reasonOnce(const Problem &problem, const Candidate &candidate,
                              const Prediction::Collective &collective) {
  std::string axes;
  for (int axis : collective.step.axes)
    axes += (axes.empty() ? "" : "+") + candidate.mesh.axes[axis].name;
  std::string of = "an argument";
  const std::string kept = collective.step.kind == Kind::reduceScatter ? ", each device keeps its shard" : "";
  if (collective.operation >= 0) {
    const Problem::Op &op = problem.ops[collective.operation];
    const bool ofParameter = llvm::any_of(problem.tensors, [&](const Problem::Tensor &tensor) {
      return tensor.role == Problem::Role::parameter && tensor.name == op.name;
    });
    of = op.kind + (op.name.empty() ? "" : (ofParameter ? " of the parameter " : " ") + op.name);
    if (collective.step.kind == Kind::allReduce || collective.step.kind == Kind::reduceScatter)
      for (auto [factor, list] : llvm::zip(op.rule.factors, candidate.plan.ops[collective.operation]))
        if (factor.reduction &&
            llvm::any_of(list, [&](int a) { return llvm::is_contained(collective.step.axes, a); })) {
          const char *partials = *factor.reduction == Reduction::sum ? "partial sums are added over "
                                 : *factor.reduction == Reduction::max
                                     ? "of partial maxima the largest is taken over "
                                     : "of partial minima the smallest is taken over ";
          of += " is sharded along " + factor.name + ", which it reduces: ";
          return of + partials + axes + kept;
        }
  }
  switch (collective.step.kind) {
  case Kind::allReduce:
  case Kind::reduceScatter:
    return "partial sums of " + of + " are added over " + axes + kept;
  case Kind::allGather:
    return of + " is sharded over " + axes + ", its use needs all of it";
  case Kind::allToAll:
    return of + " is sharded along another dimension than its use needs";
  case Kind::slice:
    break;
  }
  return "";
}

std::string planning::reasonOf(const Problem &problem, const Candidate &candidate,
                               const Prediction::Collective &collective) {
  std::string reason = reasonOnce(problem, candidate, collective);
  if (collective.together > 1)
    reason += ", together with " + std::to_string(collective.together - 1) + " others";
  return collective.times > 1 ? reason + "; in each of " + std::to_string((int64_t)collective.times) + " microbatches"
                              : reason;
}
