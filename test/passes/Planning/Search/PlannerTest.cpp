// Plans for at most n devices, beside every plan for every number of them.
#include "passes/Planning/Search/Planner.h"
#include "passes/Planning/Search/Forms.h"
#include "test/passes/Planning/Search/RandomProblems.h"

#include <gtest/gtest.h>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using test::Random;

namespace {

Problem::Tensor matrix(const char *name, Problem::Role role, int64_t rows, int64_t columns) {
  Problem::Tensor tensor;
  tensor.shape = {rows, columns};
  tensor.role = role;
  tensor.name = name;
  tensor.weight = role == Problem::Role::parameter;
  return tensor;
}

/// A step that renews a state s (m x n) by x (m x k) times w (k x n).
Problem product(int64_t m, int64_t k, int64_t n) {
  Problem problem;
  problem.tensors = {matrix("x", Problem::Role::input, m, k), matrix("w", Problem::Role::parameter, k, n),
                     matrix("s", Problem::Role::other, m, n), matrix("", Problem::Role::transient, m, n)};
  Problem::Op op;
  op.rule.addFactor("m", m);
  op.rule.addFactor("k", k);
  op.rule.addFactor("n", n);
  op.rule.contract("k", Reduction::sum);
  op.rule.operands = {{{0}, {1}}, {{1}, {2}}};
  op.rule.results = {{{0}, {2}}};
  op.rule.linear = Linear::each;
  op.operands = {0, 1};
  op.results = {3};
  op.flops = 2 * m * k * n;
  op.form = graph::Form::product;
  problem.ops = {op};
  problem.outputs = {{3, 2}};
  return problem;
}

/// Calls `use` with every way to give each axis from `axis` on to one of the sizes, which it divides, or to none.
template <class Use>
void forEachSplit(const Mesh &mesh, const std::vector<int64_t> &sizes, FactorAxes &split, const Use &use,
                  size_t axis = 0) {
  if (axis == mesh.axes.size())
    return use();
  forEachSplit(mesh, sizes, split, use, axis + 1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    split[i].push_back((int)axis);
    if (sizes[i] % mesh.parts(split[i]) == 0)
      forEachSplit(mesh, sizes, split, use, axis + 1);
    split[i].pop_back();
  }
}

/// The seconds of the fastest plan on a mesh.
double fastest(const Planner &planner, const Mesh &mesh) {
  double best = std::numeric_limits<double>::infinity();
  const auto &shapes = planner.problem.tensors;
  Plan plan;
  for (const Problem::Tensor &tensor : shapes)
    plan.tensors.emplace_back(tensor.shape.size());
  plan.ops.emplace_back(3);
  auto sizes = [&](size_t t) { return std::vector<int64_t>(shapes[t].shape.begin(), shapes[t].shape.end()); };
  auto lay = [&](size_t t, auto use) {
    FactorAxes split(2);
    forEachSplit(mesh, sizes(t), split, [&] {
      plan.tensors[t].dims.assign(split.begin(), split.end());
      use();
    });
  };
  std::vector<int64_t> factors;
  for (const auto &factor : planner.problem.ops[0].rule.factors)
    factors.push_back(factor.size);
  forEachSplit(mesh, factors, plan.ops[0], [&] {
    lay(0, [&] {
      lay(1, [&] {
        lay(2, [&] { best = std::min(best, planner.price(planner.cluster, mesh, plan, "").prediction.seconds); });
      });
    });
  });
  return best;
}

/// The parallelisms of the product where one factor of it is sharded.
std::vector<std::string> formsOf(const Problem &problem, int factor) {
  Plan plan;
  for (const Problem::Tensor &tensor : problem.tensors)
    plan.tensors.emplace_back(tensor.shape.size());
  plan.ops.emplace_back(3);
  plan.ops[0][factor] = {0};
  return recognize(problem, {{{"axis", 2}}}, plan);
}

/// Few numbers of devices divide these sizes, so that numbers that do not divide all devices may be the fastest.
int64_t randomSize(Random &random) {
  const int64_t factors[] = {3, 5, 7, 15, 21};
  return factors[random.below(5)] << (1 + random.below(9));
}

TEST(Forms, AreNamedAfterWhatIsSharded) {
  Problem problem = product(8, 4, 6);
  EXPECT_EQ(formsOf(problem, 0), std::vector<std::string>{"sequence"});
  EXPECT_EQ(formsOf(problem, 2), std::vector<std::string>{"tensor"});
  problem.ops[0].rule.factors[0].windowed = true; // rows of images
  EXPECT_EQ(formsOf(problem, 0), std::vector<std::string>{"spatial"});
  problem.batchDims = {{0, 0}};
  EXPECT_EQ(formsOf(problem, 0), std::vector<std::string>{"data"});
}

// Beside tensor parallelism of a third of the parameters, ZeRO-1 shards the optimizer state of the others.
TEST(Forms, ZeroBesideTensorParallelism) {
  using Role = Problem::Role;
  Problem problem = product(8, 4, 6);
  problem.tensors.push_back(matrix("v", Role::parameter, 8, 6)); // twice as large as w
  problem.tensors.push_back(matrix("w.moment", Role::moment, 4, 6));
  problem.tensors.push_back(matrix("v.moment", Role::moment, 8, 6));
  Plan plan;
  for (const Problem::Tensor &tensor : problem.tensors)
    plan.tensors.emplace_back(tensor.shape.size());
  plan.ops.emplace_back(3);
  plan.ops[0][2] = {0}; // the columns of w
  for (int t : {1, 5})
    plan.tensors[t].dims[1] = {0};
  const Mesh mesh{{{"axis", 2}}};
  EXPECT_EQ(recognize(problem, mesh, plan), std::vector<std::string>{"tensor"});
  plan.tensors[6].dims[0] = {0};
  EXPECT_EQ(recognize(problem, mesh, plan), (std::vector<std::string>{"ZeRO-1", "tensor"}));
}

// Of plans that take the same time, the one for the fewest devices is chosen, if it fits.
TEST(PlannerTest, PrefersFewerDevices) {
  auto plan = [](double seconds, int64_t devices, bool fits = true) {
    Candidate candidate{"", {{{"axis", devices}}}, {}, {}};
    candidate.prediction.seconds = seconds;
    candidate.fits = fits;
    return candidate;
  };
  auto chosen = [](const std::vector<Candidate> &plans) {
    std::vector<const Candidate *> all;
    for (const Candidate &candidate : plans)
      all.push_back(&candidate);
    return preferred(all);
  };
  EXPECT_EQ(chosen({plan(1, 4), plan(1.004, 2), plan(1.0045, 1)}), 2u);
  EXPECT_EQ(chosen({plan(1, 4), plan(1.004, 2), plan(1.006, 1)}), 1u);
  EXPECT_EQ(chosen({plan(1.006, 1), plan(1, 4), plan(1.004, 2, /*fits=*/false)}), 1u);
}

/// Two products that do not depend on each other.
Problem twoProducts(int64_t m, int64_t k, int64_t n) {
  Problem problem = product(m, k, n);
  const int tensors = (int)problem.tensors.size();
  const Problem more = product(m, k, n);
  for (const Problem::Tensor &tensor : more.tensors)
    problem.tensors.push_back(tensor);
  Problem::Op op = more.ops[0];
  for (auto *list : {&op.operands, &op.results})
    for (int &tensor : *list)
      tensor += tensors;
  problem.ops.push_back(op);
  problem.outputs.push_back({3 + tensors, 2 + tensors});
  return problem;
}

// A collective overlaps with what does not read it, unless the cores that compute also copy what is sent.
TEST(PlannerTest, RanksOfOneMachineOverlapNothing) {
  for (const char *name : {"2xh100", "cpu:2"}) {
    const Planner planner(twoProducts(1024, 4096, 1024), llvm::cantFail(parseCluster(name, {64e9, 2})));
    Plan plan;
    for (const Problem::Tensor &tensor : planner.problem.tensors)
      plan.tensors.emplace_back(tensor.shape.size());
    for (size_t x : {0, 4})
      plan.tensors[x].dims[1] = plan.tensors[x + 1].dims[0] = {0};
    plan.ops = {FactorAxes{{}, {0}, {}}, FactorAxes{{}, {0}, {}}};
    const Prediction step = planner.price(planner.cluster, {{{"axis", 2}}}, plan, "").prediction;
    const double sum = step.compute + step.communication;
    EXPECT_EQ(step.collectives.size(), 2u);
    if (planner.cluster.copies) {
      EXPECT_NEAR(step.seconds, sum, 1e-9 * sum);
      EXPECT_NEAR(step.waited, step.communication, 1e-9 * sum);
    } else {
      EXPECT_LT(step.seconds, sum);
      EXPECT_LT(step.waited, step.communication);
    }
  }
}

// Threads of several processes may reach more together than as one team: the bound knows it.
TEST(PlannerTest, LeastSecondsOfProcessors) {
  Random random(7);
  const Rates core{1e11, 1e10, 0, {{1e5, 1.2e11}, {1e7, 1.5e11}, {1e9, 1.1e11}}, {}, {{1 << 15, 1e11}, {1 << 22, 2e10}}, {{1 << 18, 2e10}}};
  const Rates all{3e11, 2.5e10, 0, {{1e5, 1.2e11}, {1e7, 2e11}, {1e9, 3e11}}, {}, {{1 << 17, 1.1e11}, {1 << 24, 5e10}}, {{1 << 18, 5e9}}};
  for (int round = 0; round < 12; ++round) {
    const auto cluster = llvm::cantFail(parseCluster("cpu:4", {64e9, 4, Calibration{1e12, core, all}}));
    // Also one that is square, without packing, in halves.
    const Planner planner(round ? product(randomSize(random), randomSize(random), randomSize(random)) : product(512, 256, 256), cluster);
    for (int64_t devices : {2, 4})
      for (const Mesh &mesh : enumerateMeshes(cluster, devices))
        EXPECT_GE(fastest(planner, mesh), planner.leastSeconds(devices) * (1 - 1e-9)) << nameOf(mesh);
  }
}

// What `Planner::candidates` promises: of numbers that divide the devices the fastest; others, where those do not pay,
// if they are faster by 5 %.
TEST(PlannerTest, FewerDevices) {
  Random random(24);
  int uneven = 0;
  for (int round = 0; round < 12; ++round) {
    const int64_t all = 5 + random.below(3);
    auto cluster = llvm::cantFail(parseCluster(std::to_string(all) + "xh100", {64e9, 8}));
    const int64_t m = randomSize(random), k = randomSize(random), n = randomSize(random);
    Planner planner(product(m, k, n), cluster);
    const Prediction one = planner.alone().prediction;
    double whole = one.seconds, any = one.seconds;
    for (int64_t devices = 2; devices <= all; ++devices)
      for (const Mesh &mesh : enumerateMeshes(cluster, devices)) {
        double seconds = fastest(planner, mesh);
        EXPECT_GE(seconds, planner.leastSeconds(devices) * (1 - 1e-9)) << nameOf(mesh);
        any = std::min(any, seconds);
        if (all % devices == 0)
          whole = std::min(whole, seconds);
      }
    PlannerOptions options;
    options.meshes = enumerateMeshes(cluster, all);
    options.wider = true;
    auto found = llvm::cantFail(planner.candidates(options));
    const Candidate best = *std::min_element(found.begin(), found.end(), isBetter);
    SCOPED_TRACE(testing::Message() << m << " x " << k << " x " << n << " on " << all << ", " << best.name);
    EXPECT_GE(best.prediction.seconds, any * (1 - 1e-9));
    EXPECT_LE(best.prediction.seconds, whole * (1 + sameTime));
    EXPECT_LE(best.prediction.seconds, any / (1 - 0.05));
    uneven += all % best.mesh.devices() != 0;
  }
  EXPECT_GT(uneven, 0);
}

void expectEqual(const PairwiseProblem &a, const PairwiseProblem &b) {
  ASSERT_EQ(a.variables.size(), b.variables.size());
  for (auto [mine, theirs] : llvm::zip(a.variables, b.variables)) {
    EXPECT_EQ(mine.cost, theirs.cost);
    EXPECT_EQ(mine.memory, theirs.memory);
  }
  ASSERT_EQ(a.edges.size(), b.edges.size());
  for (auto [mine, theirs] : llvm::zip(a.edges, b.edges)) {
    EXPECT_EQ(std::pair(mine.from, mine.to), std::pair(theirs.from, theirs.to));
    EXPECT_EQ(a.matrices[mine.matrix].entries, b.matrices[theirs.matrix].entries);
  }
}

// Searches from pins may share the space that has none, or build their own with what is known there.
TEST(SearchSpaceTest, PlacesAreLikePins) {
  const Problem problem = product(12, 30, 18);
  const Groups groups(problem, /*evaluation=*/false);
  const FusedProblem fused(problem, /*evaluation=*/false, /*forGpu=*/true, groups);
  const GroupKinds kinds(problem, groups, fused);
  Mesh mesh;
  mesh.axes = {{"data", 2}, {"model", 3}};
  const CostModel costs(llvm::cantFail(parseCluster("6xh100", {64e9, 8})), mesh);
  const SearchSpace shared(problem, groups, fused, kinds, costs, {});
  for (int tensor : {0, 1, 2}) {
    FactorAxes split(2);
    forEachSplit(mesh, {problem.tensors[tensor].shape[0], problem.tensors[tensor].shape[1]}, split, [&] {
      Sharding place(2);
      place.dims.assign(split.begin(), split.end());
      auto laid = shared.pairwise(0.5, {{tensor, place}});
      auto pinned = SearchSpace(problem, groups, fused, kinds, costs, {{tensor, place}}).pairwise(0.5, {});
      auto onward = SearchSpace(problem, groups, fused, kinds, costs, {{tensor, place}}, &shared).pairwise(0.5, {});
      ASSERT_TRUE(laid && pinned && onward);
      expectEqual(*laid, *pinned);
      expectEqual(*onward, *pinned);
    });
  }
  Sharding pending(2); // no argument is partial
  pending.pending = {0};
  EXPECT_FALSE(shared.pairwise(0, {{1, pending}}));
}

} // namespace
