// A value that several kernels compute has the same bits in all of them, whatever layout and loops they have, because
// other kernels compare it. Gradients of extrema are compared with a closed formula.
#include "runtime/core/Context.h"
#include "test/execute/JitContext.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::test;

namespace {

using Shape = std::vector<int64_t>;

std::string tensor(const Shape &shape, const char *element = "f32") {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}
std::string list(const Shape &values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}
int64_t product(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// The extremum, along some dimensions, of x * w + b with its dimensions in another order. w and b have x's last
/// dimension.
struct Case {
  Shape shape, permutation, reduced;

  Shape turned() const {
    Shape result;
    for (int64_t d : permutation)
      result.push_back(shape[d]);
    return result;
  }
  bool isReduced(int64_t d) const { return std::find(reduced.begin(), reduced.end(), d) != reduced.end(); }
  Shape kept() const {
    Shape result;
    for (int64_t d = 0; d < (int64_t)shape.size(); ++d)
      if (!isReduced(d))
        result.push_back(d);
    return result;
  }
  Shape result() const {
    Shape sizes;
    for (int64_t d : kept())
      sizes.push_back(turned()[d]);
    return sizes;
  }
  /// The element of the result with which an element of x is compared.
  int64_t resultOf(int64_t element) const {
    Shape index(shape.size());
    for (int64_t d = shape.size() - 1; d >= 0; element /= shape[d--])
      index[d] = element % shape[d];
    int64_t linear = 0;
    for (int64_t d : kept())
      linear = linear * turned()[d] + index[permutation[d]];
    return linear;
  }

  std::string text(const std::string &op, bool counts) const {
    Shape last = {shape.back()};
    std::string x = tensor(shape), v = tensor(last), t = tensor(turned()), r = tensor(result());
    std::string along = "{dims = array<i64: " + std::to_string(shape.size() - 1) + ">}";
    std::string text =
        "func.func @forward(%x: " + x + ", %w: " + v + ", %b: " + v + ") -> " + r + " {\n" +             //
        "  %0 = graph.broadcast %w " + along + " : (" + v + ") -> " + x + "\n" +                         //
        "  %1 = graph.broadcast %b " + along + " : (" + v + ") -> " + x + "\n" +                         //
        "  %2 = graph.mul %x, %0 : " + x + "\n  %3 = graph.add %2, %1 : " + x + "\n" +                   //
        "  %4 = graph.transpose %3 {permutation = array<i64: " + list(permutation) + ">} : (" + x + ") -> " + t + "\n" +
        "  %5 = graph." + op + " %4 {dims = array<i64: " + list(reduced) + ">} : (" + t + ") -> " + r + "\n";
    if (!counts)
      return text + "  return %5 : " + r + "\n}";
    std::string hit = tensor(turned(), "i1");
    return text + "  %6 = graph.broadcast %5 {dims = array<i64: " + list(kept()) + ">} : (" + r + ") -> " + t + "\n" +
           "  %7 = graph.compare eq %4, %6 : (" + t + ", " + t + ") -> " + hit + "\n" +
           "  %8 = graph.cast %7 : (" + hit + ") -> " + t + "\n" +
           "  %9 = graph.reduce_sum %8 {dims = array<i64: " + list(reduced) + ">} : (" + t + ") -> " + r + "\n" +
           "  return %9 : " + r + "\n}";
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Shape &shape :
       {Shape{2, 3, 4, 8}, Shape{4, 8, 6, 16}, Shape{3, 5, 7, 8}, Shape{2, 4, 4, 4}, Shape{2, 4, 8, 8}})
    for (const Shape &permutation : {Shape{0, 2, 1, 3}, Shape{0, 2, 3, 1}, Shape{3, 1, 2, 0}, Shape{0, 1, 3, 2}})
      for (const Shape &reduced : {Shape{1, 3}, Shape{3}, Shape{1}})
        all.push_back({shape, permutation, reduced});
  return all;
}

class RecomputationTest : public testing::TestWithParam<Case> {
protected:
  void fill(JitFunction &f) {
    uint64_t seed = 0;
    for (auto &input : f.inputs) {
      std::vector<float> values(cast<RankedTensorType>(input.type).getNumElements());
      for (float &value : values)
        value = (float)(2 * number(seed++) - 1);
      input.bytes.assign((const char *)values.data(), (const char *)(values.data() + values.size()));
    }
  }
  static std::vector<float> valuesOf(const JitFunction::Tensor &tensor) {
    return {(const float *)tensor.bytes.data(), (const float *)(tensor.bytes.data() + tensor.bytes.size())};
  }

  JitContext context;
  DivisiContext runtime{runtime::configureThreads(1)};
};

TEST_P(RecomputationTest, AnExtremumIsFoundAgain) {
  auto compiled = context.compile(GetParam().text("reduce_max", /*counts=*/true), /*gradients=*/false);
  ASSERT_TRUE((bool)compiled) << llvm::toString(compiled.takeError());
  JitFunction &f = **compiled;
  fill(f);
  f.run(&runtime);
  for (float count : valuesOf(f.outputs[0]))
    EXPECT_EQ(count, 1);
}

TEST_P(RecomputationTest, ItsGradientGoesToThatElement) {
  const Case &c = GetParam();
  for (bool largest : {true, false}) {
    auto compiled = context.compile(c.text(largest ? "reduce_max" : "reduce_min", /*counts=*/false), true);
    ASSERT_TRUE((bool)compiled) << llvm::toString(compiled.takeError());
    JitFunction &f = **compiled;
    fill(f);
    f.run(&runtime);
    std::vector<float> x = valuesOf(f.inputs[0]), w = valuesOf(f.inputs[1]), b = valuesOf(f.inputs[2]);
    std::vector<double> best(product(c.result()), -std::numeric_limits<double>::infinity()), dx(x.size());
    std::vector<double> dw(w.size()), db(b.size());
    std::vector<int64_t> where(best.size());
    for (size_t i = 0; i < x.size(); ++i) {
      size_t channel = i % w.size(), r = c.resultOf(i);
      double value = ((double)x[i] * w[channel] + b[channel]) * (largest ? 1 : -1);
      if (value > best[r])
        best[r] = value, where[r] = i;
    }
    for (size_t r = 0; r < where.size(); ++r) {
      size_t i = where[r], channel = i % w.size();
      double weight = number(1000 + r) - 0.3; // as in addGradients
      dx[i] += weight * w[channel], dw[channel] += weight * x[i], db[channel] += weight;
    }
    const std::vector<double> *expected[] = {&dx, &dw, &db};
    for (size_t k = 0; k < 3; ++k) {
      std::vector<float> found = valuesOf(f.outputs[1 + k]);
      ASSERT_EQ(found.size(), expected[k]->size());
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], (*expected[k])[i], 1e-4) << "argument " << k << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, RecomputationTest, testing::ValuesIn(cases()));
} // namespace
