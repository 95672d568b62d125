#include "runtime/devices/cpu/AttentionRows.h"
#include "runtime/devices/cpu/Vectors.h"

#include <cmath>
#include <limits>

using namespace divisi::runtime;

namespace {
/// Of numbers below it e^x is taken for zero.
constexpr float least = -87;
constexpr int64_t lanes = 32;
/// Beyond it a norm in F32 has lost too much of log(sum of e^x): all of it where a mask's large number stands for every key.
constexpr float preciseNorm = 1024;

/// e^x for x <= 0, and for what rounding makes a little larger.
__attribute__((always_inline)) inline float probability(float x) { return x < least ? 0 : expOf(x < least ? least : x); }

__attribute__((always_inline)) inline void scaleScores(float *x, const float *bias, float scale, int64_t count) {
  if (bias) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      x[i] = x[i] * scale + bias[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      x[i] *= scale;
  }
}

/// Joins the numbers of a row in `lanes` parts, as vectors do; compilers don't divide sums, nor the search for the largest of numbers
/// of which some may not be numbers.
template <typename Join> __attribute__((always_inline)) inline float joined(const float *x, int64_t count, float start) {
  float parts[lanes];
  std::fill_n(parts, lanes, start);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      parts[lane] = Join::of(parts[lane], x[i + lane]);
  for (; i < count; ++i)
    parts[0] = Join::of(parts[0], x[i]);
  for (int64_t lane = 1; lane < lanes; ++lane)
    parts[0] = Join::of(parts[0], parts[lane]);
  return parts[0];
}
struct Larger {
  DIVISI_LOOP float of(float a, float b) { return b > a ? b : a; }
};
struct Sum {
  DIVISI_LOOP float of(float a, float b) { return a + b; }
};

struct Largest {
  DIVISI_LOOP float run(float *x, const float *bias, float scale, int64_t count) {
    scaleScores(x, bias, scale, count);
    return joined<Larger>(x, count, -std::numeric_limits<float>::infinity());
  }
};

struct Exponentials {
  DIVISI_LOOP float run(float *x, float shift, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      x[i] = probability(x[i] - shift);
    return joined<Sum>(x, count, 0);
  }
};

struct Scaled {
  DIVISI_LOOP void run(float *x, float factor, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      x[i] *= factor;
  }
};

struct Probabilities {
  DIVISI_LOOP void run(float *x, const float *bias, float scale, float norm, int64_t count) {
    scaleScores(x, bias, scale, count);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      x[i] = probability(x[i] - norm);
  }
};

struct Gradient {
  DIVISI_LOOP void run(const float *x, float *grad, float scale, float mean, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      grad[i] = x[i] * (grad[i] - mean) * scale;
  }
};
} // namespace

float divisi::runtime::softmaxOfRow(const ScoreRow &row) {
  const float largest = onVectors<Largest>(row.dots, row.bias, row.scale, row.count);
  const float shift = std::isinf(largest) ? 0 : largest;
  const float sum = onVectors<Exponentials>(row.dots, shift, row.count);
  onVectors<Scaled>(row.dots, 1 / sum, row.count);
  return shift + std::log(sum);
}

void divisi::runtime::softmaxGradOfRow(const ScoreRow &row, float *grad, float norm, float mean) {
  if (std::abs(norm) < preciseNorm)
    onVectors<Probabilities>(row.dots, row.bias, row.scale, norm, row.count);
  else
    softmaxOfRow(row);
  onVectors<Gradient>(row.dots, grad, row.scale, mean, row.count);
}
