//===- EpilogueReference.h - what follows a matrix product ------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_DEVICES_EPILOGUEREFERENCE_H
#define DIVISI_TEST_RUNTIME_DEVICES_EPILOGUEREFERENCE_H

#include "divisi/abi.h"
#include "test/runtime/Util.h"

#include <cstring>
#include <memory>

namespace divisi::test {

/// A call on tensors as in an arena, whose matmul results are whole numbers that all types represent exactly.
class EpilogueSample {
public:
  using Numbers = std::vector<double>;

  EpilogueSample(int64_t epilogue, int64_t type, std::array<int64_t, 3> sizes, bool transposeA, bool transposeB)
      : random(epilogue * 7 + type) {
    p.m = sizes[0], p.n = sizes[1], p.k = sizes[2];
    p.transpose_a = transposeA, p.transpose_b = transposeB;
    p.type = type, p.epilogue = epilogue;
    a = whole(p.m * p.k), b = whole(p.k * p.n);
  }

  bool isGradient() const { return p.epilogue == DIVISI_EPILOGUE_GELU_GRAD; }
  bool sumsA() const { return p.epilogue == DIVISI_EPILOGUE_SUM_A; }
  bool sumsB() const { return p.epilogue == DIVISI_EPILOGUE_SUM_B; }

  double elementA(int64_t i, int64_t l) const { return a[p.transpose_a ? l * p.m + i : i * p.k + l]; }
  double elementB(int64_t l, int64_t j) const { return b[p.transpose_b ? j * p.k + l : l * p.n + j]; }
  /// The matmul, with a bias before an activation.
  Numbers products() const {
    Numbers x;
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = p.has_operand && !isGradient() ? operand[j] : 0;
        for (int64_t l = 0; l < p.k; ++l)
          sum += elementA(i, l) * elementB(l, j);
        x.push_back(sum);
      }
    return x;
  }

  // The tanh approximation of gelu, and its slope by a central difference.
  static double gelu(double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
  static double slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

  /// Runs the call and compares its results. `arguments` are those of the gelu whose gradient it computes.
  template <typename Run> void check(const Run &run, const Numbers &arguments = {}) {
    SCOPED_TRACE(testing::Message() << "epilogue " << p.epilogue << " type " << p.type << " of " << p.m << " x " << p.n
                                    << " x " << p.k << " transposed " << p.transpose_a << p.transpose_b
                                    << (p.has_operand ? " operand" : "") << (p.has_second ? " second" : ""));
    int64_t count = sumsB() ? p.n : sumsA() ? p.m : p.m * p.n;
    std::vector<void *> buffers = {put(a), put(b)};
    if (p.has_operand)
      buffers.push_back(put(isGradient() ? arguments : operand));
    void *c = space(p.m * p.n), *second = p.has_second ? space(count) : nullptr;
    buffers.push_back(c);
    if (second)
      buffers.push_back(second);
    if (p.workspace > 0)
      buffers.push_back(space(p.workspace));
    run(p, buffers.data());
    Numbers x = products(), expected;
    bool relus = p.epilogue == DIVISI_EPILOGUE_RELU, gelus = p.epilogue == DIVISI_EPILOGUE_GELU;
    for (size_t i = 0; i < x.size(); ++i)
      expected.push_back(isGradient() ? x[i] * slope(arguments[i])
                         : relus      ? std::fmax(x[i], 0)
                         : gelus      ? gelu(x[i])
                                      : x[i]);
    compare("result", expected, read(c, p.m * p.n));
    if (second && gelus)
      compare("argument", x, read(second, p.m * p.n));
    for (int64_t i = 0; i < count && (sumsA() || sumsB()); ++i) {
      double sum = 0;
      for (int64_t l = 0; l < p.k; ++l)
        sum += sumsA() ? elementA(i, l) : elementB(l, i);
      EXPECT_EQ(read(second, count)[i], sum) << "sum " << i;
    }
  }

  Numbers whole(int64_t count) {
    Numbers numbers(count);
    for (double &x : numbers)
      x = (double)(random() % 5) - 2;
    return numbers;
  }

  DivisiGemmEpilogue p = {};
  Numbers a, b, operand;

private:
  runtime::DataType typeOf() const {
    return p.type == DIVISI_F32    ? runtime::DataType::F32
           : p.type == DIVISI_BF16 ? runtime::DataType::BF16
                                   : runtime::DataType::F16;
  }
  void *space(int64_t elements) {
    size_t bytes = (elements * 4 + DIVISI_ALIGNMENT - 1) / DIVISI_ALIGNMENT * DIVISI_ALIGNMENT;
    memory.emplace_back((char *)std::aligned_alloc(DIVISI_ALIGNMENT, std::max<size_t>(bytes, DIVISI_ALIGNMENT)),
                        &std::free);
    std::memset(memory.back().get(), 0xff, bytes);
    return memory.back().get();
  }
  void *put(const Numbers &numbers) {
    void *at = space(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i)
      runtime::writeNumber((char *)at + i * runtime::widthOfType(p.type), typeOf(), numbers[i]);
    return at;
  }
  Numbers read(const void *at, int64_t count) const {
    Numbers numbers;
    for (int64_t i = 0; i < count; ++i)
      numbers.push_back(runtime::readNumber((const char *)at + i * runtime::widthOfType(p.type), typeOf()));
    return numbers;
  }
  void compare(const char *what, const Numbers &expected, const Numbers &found) const {
    double rounding = p.type == DIVISI_F32 ? 3e-5 : p.type == DIVISI_BF16 ? 0x1p-7 : 0x1p-10, worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      double error = std::fabs(found[i] - expected[i]) / (1 + std::fabs(expected[i]));
      worst = std::isnan(error) ? 1e9 : std::fmax(worst, error);
    }
    EXPECT_LE(worst, rounding) << what;
  }

  std::mt19937 random;
  std::vector<std::unique_ptr<char, decltype(&std::free)>> memory;
};

/// Checks all epilogues with all their options. run(params, buffers) returns when the call has ended.
template <typename Run> void checkEpilogues(int64_t type, int64_t workspace, const Run &run) {
  for (int transposes = 0; transposes < 4; ++transposes)
    for (std::array<int64_t, 3> sizes : {std::array<int64_t, 3>{5, 128, 24}, {40, 384, 8}, {1, 128, 16}, {300, 8, 8}}) {
      auto sample = [&](int64_t epilogue) {
        EpilogueSample s(epilogue, type, sizes, transposes & 1, transposes & 2);
        s.p.workspace = workspace;
        return s;
      };
      for (int64_t epilogue : {DIVISI_EPILOGUE_SUM_A, DIVISI_EPILOGUE_SUM_B}) {
        EpilogueSample s = sample(epilogue);
        s.p.has_second = true;
        s.check(run);
      }
      for (int64_t epilogue : {DIVISI_EPILOGUE_BIAS, DIVISI_EPILOGUE_RELU, DIVISI_EPILOGUE_GELU})
        for (bool bias : {true, false})
          for (bool saves : {true, false}) {
            if ((saves && epilogue != DIVISI_EPILOGUE_GELU) || (!bias && epilogue == DIVISI_EPILOGUE_BIAS))
              continue;
            EpilogueSample s = sample(epilogue);
            s.p.has_operand = bias, s.p.has_second = saves;
            if (bias)
              s.operand = s.whole(s.p.n);
            s.check(run);
            if (!saves)
              continue;
            EpilogueSample g = sample(DIVISI_EPILOGUE_GELU_GRAD);
            g.p.has_operand = true;
            g.check(run, s.products());
          }
    }
}

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_DEVICES_EPILOGUEREFERENCE_H
