// Every graph operation has its five facets: types, gradient, sharding rule, cost and lowering.
#include "Samples.h"

#include "codegen/Evaluate.h"
#include "codegen/Lowering/ScalarBuilder.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"

#include <set>

using namespace mlir;
using namespace divisi;
using namespace divisi::test;

namespace {

class Facets : public SampleTest {
protected:
  void forEachSample(llvm::function_ref<void(Operation *)> visit) {
    for (const Sample &sample : samples()) {
      SCOPED_TRACE(sample.operation);
      Operation *op = parse(sample);
      ASSERT_TRUE(op);
      visit(op);
    }
  }
  static bool isFloat(Value value) { return isa<FloatType>(graph::tensorType(value).getElementType()); }
};

std::string name(Operation *op) { return op->getName().stripDialect().str(); }

/// Operations whose results are piecewise constant, and those whose gradient is not needed.
const std::set<std::string> flat = {"floor",     "ceil",           "round",          "sign",          "not",
                                    "is_nan",    "is_inf",         "compare",        "and",           "or",
                                    "xor",       "shift_left",     "shift_right",    "argmax",        "argmin",
                                    "constant",  "iota",           "random_uniform", "max_pool_grad", "attention_grad",
                                    "gelu_grad", "matmul_epilogue", "bitcast"};

/// Operations of the step's structure, which passes remove: they have no code.
bool isStructure(RegisteredOperationName op) { return op.getTypeID() == TypeID::get<graph::AccumulateOp>(); }

TEST_F(Facets, EveryRegisteredOperationDeclaresAll) {
  int count = 0;
  for (RegisteredOperationName op : context.getRegisteredOperationsByDialect("graph")) {
    SCOPED_TRACE(op.getStringRef().str());
    ++count;
    EXPECT_TRUE(op.hasInterface<dist::ShardingRuleInterface>()) << "no sharding rule";
    EXPECT_TRUE(op.hasInterface<graph::CostInterface>()) << "no cost";
    EXPECT_TRUE(op.hasInterface<graph::GradientInterface>()) << "no gradient";
    bool lowered = op.hasInterface<codegen::LoopInterface>() || op.hasInterface<codegen::SerialInterface>() ||
                   op.hasInterface<codegen::LibraryInterface>() || op.hasInterface<graph::DecomposeInterface>() ||
                   op.getTypeID() == TypeID::get<graph::ConstantOp>() || isStructure(op);
    EXPECT_TRUE(lowered) << "neither lowering nor decomposition";
    EXPECT_TRUE(op.hasTrait<OpTrait::AlwaysSpeculatableImplTrait>()) << "not pure";
  }
  EXPECT_GT(count, 80);
}

TEST_F(Facets, EveryRegisteredOperationHasASample) {
  std::set<std::string> sampled;
  forEachSample([&](Operation *op) { sampled.insert(name(op)); });
  for (RegisteredOperationName op : context.getRegisteredOperationsByDialect("graph"))
    EXPECT_TRUE(isStructure(op) || sampled.count(op.stripDialect().str()))
        << "no sample of " << op.getStringRef().str();
}

/// The first element of an elementwise operation's result where its operands are these numbers; nothing if it cannot be evaluated.
std::optional<double> valueAt(Operation *op, ArrayRef<double> numbers) {
  OpBuilder builder(op);
  graph::GraphBuilder b(builder, op->getLoc());
  IRMapping mapping;
  for (auto [operand, number] : llvm::zip(op->getOperands(), numbers))
    mapping.map(operand, b.splatLike(operand, number));
  Operation *copy = builder.clone(*op, mapping);
  int64_t budget = 1 << 12;
  auto value = codegen::evaluate(copy->getResult(0), budget);
  copy->erase();
  if (failed(value))
    return std::nullopt;
  return (*value->getValues<APFloat>().begin()).convertToDouble();
}

/// Padding relies on it.
TEST_F(Facets, ZerosAndPolesAreWhereTheyAreSaidToBe) {
  std::set<std::string> poles, zeros;
  forEachSample([&](Operation *op) {
    auto isLike = [&](Value value) { return value.getType() == op->getResult(0).getType() && isFloat(value); };
    if (!isa<codegen::LoopInterface>(op) || !llvm::all_of(op->getOperands(), isLike) || op->getNumOperands() == 0 || op->getNumOperands() > 2)
      return;
    auto rule = cast<dist::ShardingRuleInterface>(op);
    const size_t operands = op->getNumOperands();
    if (!valueAt(op, SmallVector<double>(operands, 0.75)))
      return;
    auto none = valueAt(op, SmallVector<double>(operands, 0.0));
    const bool linear = rule.getShardingRule().linear != dist::Linear::no;
    EXPECT_EQ(linear || rule.getZeros() != dist::Zeros::unknown, none == 0.0) << "at zero";
    if (none == 0.0)
      zeros.insert(name(op));
    if (rule.getZeros() == dist::Zeros::any)
      EXPECT_TRUE(valueAt(op, {0, 1.5}) == 0.0 && valueAt(op, {-1.5, 0}) == 0.0);
    bool pole = false;
    for (double x : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0})
      for (double y : {-2.0, -0.5, 0.0, 1.5}) {
        auto value = valueAt(op, ArrayRef({x, y}).take_front(operands));
        pole |= !value || !std::isfinite(*value); // (logarithms of negative numbers are not evaluated)
      }
    EXPECT_EQ(rule.getPole() >= 0, pole) << "a pole";
    if (pole)
      poles.insert(name(op));
  });
  EXPECT_GT(zeros.size(), 10u);
  EXPECT_GT(poles.size(), 5u);
}

TEST_F(Facets, RulesAreReadFromTheirText) {
  forEachSample([&](Operation *op) {
    auto rule = cast<dist::ShardingRuleInterface>(op).getShardingRule();
    EXPECT_EQ(dist::ShardingRule(rule.str(), op).str(), rule.str());
  });
}

TEST_F(Facets, RulesFitTheirOperations) {
  forEachSample([&](Operation *op) {
    auto rule = cast<dist::ShardingRuleInterface>(op).getShardingRule();
    auto check = [&](ArrayRef<dist::ShardingRule::Dims> list, ValueRange values) {
      ASSERT_EQ(list.size(), values.size());
      for (auto [dims, value] : llvm::zip(list, values)) {
        ArrayRef<int64_t> shape = graph::shapeOf(value);
        ASSERT_EQ(dims.size(), shape.size());
        for (auto [factors, size] : llvm::zip(dims, shape)) {
          int64_t product = 1;
          for (int factor : factors) {
            ASSERT_LT(factor, (int)rule.factors.size());
            product *= rule.factors[factor].size;
          }
          EXPECT_EQ(size % product, 0) << "factors do not divide a dimension of " << size;
        }
      }
    };
    check(rule.operands, op->getOperands());
    check(rule.results, op->getResults());
    for (auto [i, factor] : llvm::enumerate(rule.factors)) {
      auto has = [&](const auto &dims) {
        return llvm::any_of(dims, [&](const auto &factors) { return llvm::is_contained(factors, (int)i); });
      };
      if (factor.reduction) {
        EXPECT_FALSE(llvm::all_of(rule.results, has)) << "factor " << factor.name << " is contracted in no result";
      } else {
        EXPECT_TRUE(llvm::any_of(rule.results, has) || factor.whole) << "factor " << factor.name << " vanishes without a reduction";
      }
    }
  });
}

TEST_F(Facets, CostsAreSensible) {
  forEachSample([&](Operation *op) {
    auto cost = cast<graph::CostInterface>(op);
    EXPECT_GE(cost.getFlops(), 0);
    int64_t bytes = 0;
    for (Value value : op->getOperands())
      bytes += graph::bytesOf(value.getType());
    for (Value value : op->getResults())
      bytes += graph::bytesOf(value.getType());
    EXPECT_EQ(cost.getBytes(), bytes);
  });
  Operation *matmul = parse({"%x: tensor<4x8xf32>, %y: tensor<8x2xf32>",
                             "%0 = graph.matmul %x, %y : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>"});
  EXPECT_EQ(cast<graph::CostInterface>(matmul).getFlops(), 2 * 4 * 8 * 2);
}

/// What planning is told of a lowering is true of it.
TEST_F(Facets, FormsAreThoseOfTheLowerings) {
  using graph::Form;
  forEachSample([&](Operation *op) {
    Form form = cast<graph::CostInterface>(op).getForm();
    if (auto loop = dyn_cast<codegen::LoopInterface>(op)) {
      bool reduces = loop.getLoopDomain().hasReduction();
      EXPECT_EQ(form, reduces                    ? Form::reduction
                      : isa<graph::ReshapeOp>(op) ? Form::view
                                                  : Form::elementwise);
    } else if (auto serial = dyn_cast<codegen::SerialInterface>(op)) {
      EXPECT_EQ(form, serial.readsOnce() ? Form::scan : Form::serial);
    } else if (isa<codegen::LibraryInterface>(op)) {
      EXPECT_TRUE(graph::isCall(form));
    } else {
      EXPECT_EQ(form, isa<graph::ConstantOp>(op) ? Form::constant : Form::elementwise); // what is decomposed
    }
  });
}

TEST_F(Facets, GradientsHaveTheTypesOfTheirOperands) {
  std::set<std::string> without;
  forEachSample([&](Operation *op) {
    OpBuilder builder(op->getBlock()->getTerminator());
    graph::GraphBuilder b(builder, op->getLoc());
    SmallVector<Value> incoming, none(op->getNumResults());
    for (Value result : op->getResults())
      incoming.push_back(isFloat(result) ? b.splatLike(result, 1) : Value());
    auto differentiable = cast<graph::GradientInterface>(op);
    SmallVector<Value> gradients = differentiable.buildGradient(b, incoming);
    ASSERT_EQ(gradients.size(), op->getNumOperands());
    bool any = false;
    for (auto [gradient, operand] : llvm::zip(gradients, op->getOperands()))
      if (gradient) {
        any = true;
        EXPECT_TRUE(isFloat(operand));
        EXPECT_EQ(gradient.getType(), operand.getType());
      }
    // Elementwise samples on integers are of operations that have gradients for floats.
    if (!any)
      without.insert(name(op));
    EXPECT_TRUE(succeeded(verify(*module)));
    SmallVector<Value> nothing = differentiable.buildGradient(b, none);
    EXPECT_EQ(nothing.size(), op->getNumOperands());
    EXPECT_TRUE(llvm::none_of(nothing, [](Value v) { return (bool)v; })) << "a gradient out of nothing";
  });
  EXPECT_EQ(without, flat);
}

TEST_F(Facets, DecompositionsKeepTypesAndEnd) {
  forEachSample([&](Operation *op) {
    auto composite = dyn_cast<graph::DecomposeInterface>(op);
    if (!composite)
      return;
    OpBuilder builder(op);
    graph::GraphBuilder b(builder, op->getLoc());
    SmallVector<Value> values = composite.decompose(b);
    if (values.empty() && isa<codegen::LibraryInterface>(op))
      return;
    ASSERT_EQ(values.size(), op->getNumResults());
    for (auto [value, result] : llvm::zip(values, op->getResults()))
      EXPECT_EQ(value.getType(), result.getType());
    EXPECT_TRUE(succeeded(verify(*module)));
    op->getParentOp()->walk([&](Operation *other) {
      EXPECT_TRUE(other == op || other->getName() != op->getName()) << "decomposes to itself";
    });
  });
}

} // namespace
