#include "ModelMaker.h"

using namespace divisi::compiler;

// Chains of operators that exporters write for one operation.

class RaiseTest : public ImportTest {
protected:
  RaiseTest() { m.input("a", {4, 6}).weight("w", {6, 6}).weight("scale", {6}).output("loss"); }

  void number(const std::string &name, float value) {
    auto &node = m.node("Constant", {}, {name});
    attribute(node, "value_float", onnx::AttributeProto::FLOAT).set_f(value);
  }
  std::string finish() {
    setInteger(m.node("ReduceSum", {"y"}, {"loss"}), "keepdims", 0);
    return text(m);
  }
  ModelMaker m;
};

TEST_F(RaiseTest, geluByErf) {
  number("root", std::sqrt(2.f)), number("one", 1), number("half", 0.5);
  m.node("MatMul", {"a", "w"}, {"x"});
  m.node("Div", {"x", "root"}, {"d"});
  m.node("Erf", {"d"}, {"e"});
  m.node("Add", {"e", "one"}, {"f"});
  m.node("Mul", {"x", "f"}, {"g"});
  m.node("Mul", {"g", "half"}, {"y"});
  std::string ir = finish();
  EXPECT_HAS(ir, "graph.gelu");
  EXPECT_LACKS(ir, "graph.erf");
}
TEST_F(RaiseTest, geluByTanh) {
  number("three", 3), number("cubic", 0.044715f), number("k", 0.7978845608f), number("one", 1), number("half", 0.5);
  m.node("MatMul", {"a", "w"}, {"x"});
  m.node("Pow", {"x", "three"}, {"p"});
  m.node("Mul", {"cubic", "p"}, {"c"});
  m.node("Add", {"x", "c"}, {"s"});
  m.node("Mul", {"s", "k"}, {"u"});
  m.node("Tanh", {"u"}, {"t"});
  m.node("Add", {"one", "t"}, {"f"});
  m.node("Mul", {"half", "x"}, {"h"});
  m.node("Mul", {"h", "f"}, {"y"});
  std::string ir = finish();
  EXPECT_HAS(ir, "graph.gelu %");
  EXPECT_LACKS(ir, "graph.tanh");
}
TEST_F(RaiseTest, otherConstantsAreNoGelu) {
  number("root", 1.5f), number("one", 1), number("half", 0.5);
  m.node("MatMul", {"a", "w"}, {"x"});
  m.node("Div", {"x", "root"}, {"d"});
  m.node("Erf", {"d"}, {"e"});
  m.node("Add", {"e", "one"}, {"f"});
  m.node("Mul", {"x", "f"}, {"g"});
  m.node("Mul", {"g", "half"}, {"y"});
  EXPECT_LACKS(finish(), "graph.gelu");
}
TEST_F(RaiseTest, rmsNormalization) {
  number("two", 2), number("eps", 1e-5f);
  m.node("MatMul", {"a", "w"}, {"x"});
  m.node("Pow", {"x", "two"}, {"p"});
  auto &mean = m.node("ReduceMean", {"p"}, {"mean"});
  setIntegers(mean, "axes", {-1});
  m.node("Add", {"mean", "eps"}, {"v"});
  m.node("Sqrt", {"v"}, {"r"});
  m.node("Div", {"x", "r"}, {"n"});
  m.node("Mul", {"n", "scale"}, {"y"});
  std::string ir = finish();
  EXPECT_HAS(ir, "graph.rms_norm %");
  EXPECT_LACKS(ir, "graph.sqrt");
}

// Where(IsNaN(p), 0, p), as exporters write attention whose masks may remove all keys of a query.
class NanSoftmaxTest : public RaiseTest {
protected:
  std::string replacedBy(float value) {
    number("value", value);
    m.node("MatMul", {"a", "w"}, {"x"});
    m.node("Softmax", {"x"}, {"p"});
    m.node("IsNaN", {"p"}, {"nan"});
    m.node("Where", {"nan", "value", "p"}, {"y"});
    return finish();
  }
};
TEST_F(NanSoftmaxTest, zeroIsSafe) {
  std::string ir = replacedBy(0);
  EXPECT_HAS(ir, "graph.softmax %");
  EXPECT_HAS(ir, ", safe}");
  EXPECT_HAS(ir, "graph.is_nan"); // of scores that are NaN
}
TEST_F(NanSoftmaxTest, otherNumbersAreNot) { EXPECT_LACKS(replacedBy(1), "safe"); }

// PyTorch's _safe_softmax; `negated` asks whether a key is left, and then nothing changes.
class SafeSoftmaxTest : public RaiseTest {
protected:
  std::string rows(bool negated) {
    number("zero", 0), number("lowest", -std::numeric_limits<float>::infinity());
    m.node("MatMul", {"a", "w"}, {"x"});
    m.node("Softmax", {"x"}, {"p"});
    m.node("Equal", {"x", "lowest"}, {"masked"});
    setInteger(m.node("Cast", {"masked"}, {"numbers"}), "to", onnx::TensorProto::INT64);
    setIntegers(m.node("ReduceMin", {"numbers"}, {"least"}), "axes", {-1});
    setInteger(m.node("Cast", {"least"}, {"all"}), "to", onnx::TensorProto::BOOL);
    if (negated)
      m.node("Not", {"all"}, {"some"});
    m.node("Where", {negated ? "some" : "all", "zero", "p"}, {"y"});
    return finish();
  }
};
TEST_F(SafeSoftmaxTest, safe) {
  std::string ir = rows(false);
  EXPECT_HAS(ir, ", safe}");
  EXPECT_HAS(ir, "graph.select"); // by the file's own condition
  EXPECT_LACKS(ir, "graph.is_nan");
}
TEST_F(SafeSoftmaxTest, negated) { EXPECT_LACKS(rows(true), "safe"); }
