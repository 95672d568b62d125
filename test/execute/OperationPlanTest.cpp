// Every factor of every operation is sharded over two devices, and every pair of factors over four: the results are
// those of one device.
#include "passes/Planning/ApplyPlan.h"
#include "test/codegen/Samples.h"
#include "test/execute/PlanTest.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::test;

namespace {

class OperationPlans : public PlanTest {
protected:
  /// @evaluate around the operation, which reports all its results.
  OwningOpRef<ModuleOp> build(const Sample &sample) {
    auto module = parseSourceString<ModuleOp>(
        "func.func @evaluate(" + sample.arguments + ") {\n" + sample.operation + "\nreturn\n}", &context);
    if (!module)
      return {};
    auto function = module->lookupSymbol<func::FuncOp>("evaluate");
    Block &block = function.getBody().front();
    ValueRange results = block.front().getResults();
    block.getTerminator()->setOperands(results);
    Builder builder(&context);
    function.setType(builder.getFunctionType(function.getArgumentTypes(), TypeRange(results)));
    auto text = [&](size_t i) { return builder.getStringAttr("x" + std::to_string(i)); };
    for (size_t i = 0; i < function.getNumArguments(); ++i)
      function.setArgAttr(i, graph::names::input, text(i));
    for (size_t i = 0; i < results.size(); ++i)
      function.setResultAttr(i, graph::names::result,
                             builder.getDictionaryAttr({builder.getNamedAttr("kind", builder.getStringAttr("result")),
                                                        builder.getNamedAttr("name", text(i))}));
    return module;
  }

  static planning::Plan planOf(const planning::Problem &problem, const dist::FactorAxes &factors) {
    planning::Plan plan;
    for (const auto &tensor : problem.tensors)
      plan.tensors.emplace_back(tensor.shape.size());
    plan.ops = {factors};
    return plan;
  }

  static Turn argumentsOf(const compiler::JitProgram &program) {
    Draw draw(1);
    Turn turn{false, {}};
    for (const auto &[name, place] : program.arguments)
      turn.inputs[name] = randomArgument(draw, place.type);
    return turn;
  }

  void check(const Sample &sample, const dist::FactorAxes &factors, const dist::Mesh &mesh,
             const std::vector<Outcome> &expected, const Turn &turn) {
    auto module = build(sample);
    auto problem = planning::ModuleProblem::build(*module);
    planning::applyPlan(*module, *problem, planOf(problem->problem, factors), mesh);
    ASSERT_TRUE(succeeded(verify(*module))) << messages;
    ASSERT_TRUE(runPasses(*module, [](PassManager &pm) { compiler::addDistPipeline(pm, {}); })) << messages;
    auto program = compile(*module);
    ASSERT_TRUE(program) << messages;
    auto got = runTurns(*program, mesh, {}, {turn});
    for (const auto &[name, bytes] : expected[0].reports)
      EXPECT_EQ(difference(bytes, got[0].reports[name], program->results.at(name).type.getElementType(), 1e-6), "")
          << name;
  }
};

TEST_F(OperationPlans, EveryFactor) {
  const dist::Mesh two{{{"data", 2}}}, four{{{"data", 2}, {"model", 2}}};
  int split = 0;
  for (const Sample &sample : samples()) {
    SCOPED_TRACE(sample.operation);
    auto module = build(sample);
    ASSERT_TRUE(module) << messages;
    auto problem = planning::ModuleProblem::build(*module);
    ASSERT_TRUE(succeeded(problem));
    auto rule = problem->problem.ops[0].rule;
    auto single = compile(*module);
    ASSERT_TRUE(single) << messages;
    Turn turn = argumentsOf(*single);
    auto expected = runTurns(*single, {}, {}, {turn});
    dist::FactorAxes before(rule.factors.size());
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      SCOPED_TRACE("factor " + rule.factors[f].name);
      dist::FactorAxes factors(rule.factors.size());
      factors[f] = {0};
      if (!dist::isValid(two, rule, factors))
        continue;
      ++split;
      check(sample, factors, two, expected, turn);
      factors[f] = {1};
      factors[f ? f - 1 : 0].push_back(0);
      if (dist::isValid(four, rule, factors))
        check(sample, factors, four, expected, turn);
    }
  }
  EXPECT_GT(split, 150);
}
} // namespace
