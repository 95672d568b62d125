// Every plan computes the same: random models under random plans, with threads as devices, compared with one device.
#include "test/execute/PlanTest.h"
#include "codegen/Kernels/Passes.h"
#include "passes/Planning/ApplyPlan.h"
#include "test/execute/RandomModel.h"
#include "test/execute/RandomPlan.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/Passes.h"

#include <fstream>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::test;

namespace {

/// Losses: sums of some hundred numbers in another order.
constexpr double lossTolerance = 1e-5;
/// States and norms, relative to the largest element: gradients are differences of numbers that may be much larger.
constexpr double stateTolerance = 2e-4;
/// Options of the optimizer. With a small epsilon, Adam would make steps from gradients that are zero except for
/// rounding.
TrainOptions randomOptions(Draw &draw) {
  TrainOptions options;
  options.optimizer = draw.of<const char *>({"sgd", "adamw"});
  options.momentum = draw.of<double>({0, 0.9});
  options.nesterov = draw.chance(0.3);
  options.weightDecay = draw.of<double>({0, 0.01});
  options.clipNorm = draw.of<double>({0, 0, 0.5});
  options.eps = 1e-2;
  return options;
}

/// Whole values of the arguments of a program for one device: states, or inputs and scalars.
Tensors randomArguments(const JitProgram &program, Draw &draw, bool states) {
  Tensors result;
  for (const auto &[name, place] : program.arguments) {
    auto state = place.attributes.getAs<DictionaryAttr>(graph::names::state);
    if (states != (bool)state)
      continue;
    double low = -1, high = 1;
    if (state) {
      StringRef role = state.getAs<StringAttr>("role").getValue();
      if (role == "moment" || role == "step")
        low = high = 0;
      else if (role == "seed")
        low = 0, high = 1e9;
      else if (role == "buffer")
        low = 0.5;
    } else if (auto range = place.attributes.getAs<DenseI64ArrayAttr>("graph.range")) {
      low = (double)range[0], high = (double)range[1];
    } else if (name == "learning_rate") {
      low = high = 0.1;
    } else if (name == "rows") {
      low = 1, high = 5;
    }
    result[name] = randomBytes(draw, place.type, low, high);
  }
  return result;
}

/// The first difference; after a wrong loss everything is wrong.
std::string compareAll(const JitProgram &program, const std::vector<Outcome> &expected,
                       const std::vector<Outcome> &got) {
  for (size_t turn = 0; turn < expected.size(); ++turn) {
    auto firstOf = [&](const Tensors &left, const Tensors &right, const auto &places, double tolerance) {
      for (const auto &[name, bytes] : left) {
        auto it = right.find(name);
        std::string wrong = it == right.end()
                                ? "missing"
                                : difference(bytes, it->second, places.at(name).type.getElementType(),
                                             StringRef(name).contains("norm") ? stateTolerance : tolerance);
        if (!wrong.empty())
          return "'" + name + "' in turn " + std::to_string(turn) + ": " + wrong;
      }
      return std::string();
    };
    std::string wrong = firstOf(expected[turn].reports, got[turn].reports, program.results, lossTolerance);
    if (wrong.empty())
      wrong = firstOf(expected[turn].states, got[turn].states, program.arguments, stateTolerance);
    if (!wrong.empty())
      return wrong;
  }
  return "";
}

class Plans : public PlanTest {
protected:
  /// Plans the module by a strategy.
  bool planByStrategy(ModuleOp module, Draw &draw) {
    std::string mesh =
        draw.of<const char *>({"data=2", "data=4", "data=3", "data=2,model=2", "data=2,model=4", "data=4,model=2",
                               "model=2", "model=4", "model=3", "data=1,model=2", "data=8"});
    return planByStrategy(module, mesh, (int)draw.below(4));
  }

  bool planByStrategy(ModuleOp module, const std::string &mesh, int zero) {
    PlanOptions options;
    options.mesh = mesh;
    options.zero = zero;
    how = options.mesh + " zero " + std::to_string(options.zero);
    return runPasses(module, [&](PassManager &pm) { addPlanPipeline(pm, options); });
  }

  bool planAtRandom(ModuleOp module, Draw &draw) {
    bool simplified = runPasses(module, [&](PassManager &pm) {
      OpPassManager &function = pm.nest<func::FuncOp>();
      function.addPass(codegen::createDecomposePass());
      function.addPass(createCanonicalizerPass());
      function.addPass(createCSEPass());
    });
    auto problem = planning::ModuleProblem::build(module);
    if (!simplified || failed(problem))
      return false;
    dist::Mesh mesh = randomMesh(draw);
    planning::applyPlan(module, *problem, randomPlan(problem->problem, mesh, draw), mesh);
    how = "at random";
    return succeeded(verify(module));
  }

  /// Compares @loss of a module on one device and under a plan.
  void check(OwningOpRef<ModuleOp> module, Draw &draw, llvm::function_ref<bool(ModuleOp)> plan) {
    int before = failures();
    ASSERT_TRUE(module && succeeded(verify(*module)));
    TrainOptions train = randomOptions(draw);
    ASSERT_TRUE(runPasses(*module, [&](PassManager &pm) { addTrainPipeline(pm, train); }));
    OwningOpRef<ModuleOp> copy = module->clone();
    auto single = compile(*copy);
    ASSERT_TRUE(single);
    shown = module->clone();
    ASSERT_TRUE(plan(*module));
    shown = module->clone();
    dist::Mesh mesh = meshOf(*module);
    PlanOptions options;
    options.bucketBytes = draw.of<int64_t>({1, 64, 1024, 1 << 20});
    ASSERT_TRUE(runPasses(*module, [&](PassManager &pm) { addDistPipeline(pm, options); }));
    auto many = compile(*module);
    ASSERT_TRUE(many);
    Tensors states = randomArguments(*single, draw, true);
    std::vector<Turn> turns;
    for (bool training : {true, true, false})
      turns.push_back({training, randomArguments(*single, draw, false)});
    auto expected = runTurns(*single, {}, states, turns);
    auto got = runTurns(*many, mesh, states, turns);
    if (failures() > before)
      return;
    std::string wrong = compareAll(*single, expected, got);
    if (!wrong.empty())
      ADD_FAILURE() << wrong;
  }

  std::string how;
  OwningOpRef<ModuleOp> shown; // the module that a failure is about
};

/// The number of draws and the first one: DIVISI_PLAN_DRAWS=120, or =17:1 for the 17th only.
std::pair<uint64_t, uint64_t> drawsWanted() {
  const char *text = std::getenv("DIVISI_PLAN_DRAWS");
  unsigned long long first = 0, count = 120;
  if (text && sscanf(text, "%llu:%llu", &first, &count) != 2) {
    count = first;
    first = 0;
  }
  return {first, count};
}

/// A minimal example of a former fault.
TEST_F(Plans, PaddedRowsOfAProductAreNotZeroBecauseWhatIsSummedIs) {
  Draw draw(1);
  auto module = parseSourceString<ModuleOp>(R"(
    func.func @loss(%x: tensor<5x8xf32> {graph.input = "x"}, %w: tensor<8xf32> {graph.parameter = "w"}) -> (tensor<f32> {graph.loss}) {
      %0 = graph.matmul %x, %x {transpose_rhs} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x5xf32>
      %1 = graph.softmax %0 {dim = 1 : i64} : (tensor<5x5xf32>) -> tensor<5x5xf32>
      %2 = graph.matmul %1, %x : (tensor<5x5xf32>, tensor<5x8xf32>) -> tensor<5x8xf32>
      %3 = graph.reduce_sum %2 {dims = array<i64: 0>} : (tensor<5x8xf32>) -> tensor<8xf32>
      %4 = graph.mul %3, %w : tensor<8xf32>
      %5 = graph.reduce_sum %4 {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
      return %5 : tensor<f32>
    })",
                                            &context);
  check(std::move(module), draw, [&](ModuleOp planned) { return planByStrategy(planned, "data=2", 0); });
  EXPECT_EQ(messages, "");
}

TEST_F(Plans, OnlyZerosAreAddedToInParts) {
  for (uint64_t number = 0; number < 6; ++number) {
    Draw draw(number);
    auto module = parseSourceString<ModuleOp>(R"(
      func.func @loss(%x: tensor<4x8xf32> {graph.parameter = "x"}, %u: tensor<8x8xf32> {graph.parameter = "u"},
                      %i: tensor<8xi64> {graph.input = "i", graph.range = array<i64: 0, 4>}) -> (tensor<f32> {graph.loss}) {
        %0 = graph.scatter_add %x, %i, %u {dim = 0 : i64} : (tensor<4x8xf32>, tensor<8xi64>, tensor<8x8xf32>) -> tensor<4x8xf32>
        %1 = graph.tanh %0 : tensor<4x8xf32>
        %2 = graph.reduce_sum %1 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
        return %2 : tensor<f32>
      })",
                                              &context);
    check(std::move(module), draw, [&](ModuleOp planned) { return planAtRandom(planned, draw); });
    EXPECT_EQ(messages, "");
  }
}

/// A type cannot express which of two factors an axis of size 1 shards.
TEST_F(Plans, TypesSayWhatAFactorIsSplitOver) {
  dist::Mesh mesh{{{"data", 2}, {"model", 1}}};
  dist::ShardingRule rule;
  rule.addFactor("g", 1);
  rule.addFactor("i", 4);
  rule.operands = {{{0, 1}}};
  rule.results = rule.operands;
  EXPECT_TRUE(dist::isValid(mesh, rule, {{}, {0}}));
  EXPECT_TRUE(dist::isValid(mesh, rule, {{1}, {0}}));
  EXPECT_FALSE(dist::isValid(mesh, rule, {{}, {1}}));
}

/// The parameter selects every fourth draw, so that the test runner can run several in parallel.
class RandomPlans : public Plans, public testing::WithParamInterface<int> {};

TEST_P(RandomPlans, ComputeTheSame) {
  auto [first, count] = drawsWanted();
  for (uint64_t number = first; number < first + count; ++number) {
    if ((int)(number % 4) != GetParam())
      continue;
    SCOPED_TRACE("draw " + std::to_string(number));
    int before = failures();
    messages.clear();
    how.clear();
    Draw draw(number);
    check(RandomModel(&context, draw).build(), draw, [&](ModuleOp module) {
      return draw.chance(0.4) ? planByStrategy(module, draw) : planAtRandom(module, draw);
    });
    if (failures() == before)
      continue;
    std::string file = testing::TempDir() + "plan_draw_" + std::to_string(number) + ".mlir", text;
    llvm::raw_string_ostream stream(text);
    if (shown)
      shown->print(stream);
    std::ofstream(file) << text;
    ADD_FAILURE() << how << "; the module is in " << file << "\n" << messages;
  }
}
INSTANTIATE_TEST_SUITE_P(Quarter, RandomPlans, testing::Range(0, 4));
} // namespace
