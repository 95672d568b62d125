//===- GemmEpilogue.cpp - products with a bias, an activation or sums -----===//
#include "runtime/devices/cpu/GemmEpilogue.h"
#include "runtime/core/Launch.h"
#include "runtime/devices/cpu/Blas.h"
#include "runtime/devices/cpu/Convert.h"
#include "runtime/devices/cpu/Vectors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

using namespace divisi::runtime;

namespace {
constexpr int64_t chunkColumns = 256;
constexpr int64_t elementsPerThread = 1 << 13;
using Chunk = std::array<float, chunkColumns>;

/// A dense row-major matrix of an element type.
struct Elements {
  char *data;
  int64_t type, columns;

  char *at(int64_t row, int64_t column) const { return data + (row * columns + column) * widthOfType(type); }
  void read(int64_t row, int64_t column, int64_t count, Chunk &to) const {
    convertToFloat(at(row, column), type, to.data(), count);
  }
  void write(int64_t row, int64_t column, int64_t count, const Chunk &from) const {
    convertFromFloat(from.data(), at(row, column), type, count);
  }
};

// The tanh approximation of gelu, with sqrt(2/pi) and 0.044715 (arXiv 1606.08415): x (1 + tanh u) / 2 = x s(2 u), where
// s is the logistic function.
constexpr float geluScale = 2 * 0.7978845608F, geluCubic = 0.044715F;

// Beyond 60 the result does not change, and numbers near the smallest floats would be slow.
inline float logisticOf(float x) {
  return 1 / (1 + expOf(std::max(std::min(-geluScale * x * (1 + geluCubic * x * x), 60.F), -60.F)));
}
inline float geluSlope(float x) {
  float s = logisticOf(x);
  return s + x * s * (1 - s) * geluScale * (1 + 3 * geluCubic * x * x);
}

/// The epilogue of a GEMM, whose rounded result is in c.
struct EpilogueCall {
  const DivisiGemmEpilogue &p;
  Elements c;
  char *operand, *second;
  int threads;

  Elements like(char *data) const { return {data, p.type, p.n}; }

  void forward(int64_t row, int64_t column, int64_t count) const {
    Chunk x{}, y{};
    c.read(row, column, count, x);
    if (p.has_operand) {
      like(operand).read(0, column, count, y);
      for (int64_t i = 0; i < count; ++i)
        x[i] += y[i];
    }
    if (second)
      like(second).write(row, column, count, x);
    if (p.epilogue == DIVISI_EPILOGUE_GELU)
      for (int64_t i = 0; i < count; ++i)
        x[i] *= logisticOf(x[i]);
    if (p.epilogue == DIVISI_EPILOGUE_RELU)
      for (int64_t i = 0; i < count; ++i)
        x[i] = x[i] < 0 ? 0 : x[i];
    c.write(row, column, count, x);
  }

  void backward(int64_t row, int64_t column, int64_t count) const {
    Chunk g{}, x{};
    c.read(row, column, count, g);
    like(operand).read(row, column, count, x);
    for (int64_t i = 0; i < count; ++i)
      g[i] *= geluSlope(x[i]);
    c.write(row, column, count, g);
  }

  /// The sum of a matrix's rows.
  void sumRows(const Elements &x, int64_t rows) const {
    forEachPiece(x.columns, chunkColumns, threads, [&](int64_t begin, int64_t end) {
      for (int64_t column = begin; column < end; column += chunkColumns) {
        int64_t count = std::min(chunkColumns, end - column);
        Chunk sum{}, row{};
        for (int64_t r = 0; r < rows; ++r) {
          x.read(r, column, count, row);
          for (int64_t i = 0; i < count; ++i)
            sum[i] += row[i];
        }
        Elements{second, p.type, x.columns}.write(0, column, count, sum);
      }
    });
  }
  /// The sum of a matrix's columns.
  void sumColumns(const Elements &x, int64_t rows) const {
    forEachPiece(rows, elementsPerThread / std::max<int64_t>(x.columns, 1) + 1, threads,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r) {
                     Chunk sum{}, row{};
                     for (int64_t column = 0; column < x.columns; column += chunkColumns) {
                       int64_t count = std::min(chunkColumns, x.columns - column);
                       x.read(r, column, count, row);
                       for (int64_t i = 0; i < count; ++i)
                         sum[0] += row[i];
                     }
                     Elements{second, p.type, 1}.write(r, 0, 1, sum);
                   }
                 });
  }

  void run(char *a, char *b) const {
    bool sumsA = p.epilogue == DIVISI_EPILOGUE_SUM_A, sumsB = p.epilogue == DIVISI_EPILOGUE_SUM_B;
    if (sumsA)
      return p.transpose_a ? sumRows({a, p.type, p.m}, p.k) : sumColumns({a, p.type, p.k}, p.m);
    if (sumsB)
      return p.transpose_b ? sumColumns({b, p.type, p.k}, p.n) : sumRows({b, p.type, p.n}, p.k);
    bool gradient = p.epilogue == DIVISI_EPILOGUE_GELU_GRAD;
    forEachPiece(p.m, elementsPerThread / p.n + 1, threads, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        for (int64_t column = 0; column < p.n; column += chunkColumns) {
          int64_t count = std::min(chunkColumns, p.n - column);
          gradient ? backward(row, column, count) : forward(row, column, count);
        }
    });
  }
};

} // namespace

std::vector<size_t> divisi::runtime::sizesAfterProduct(const DivisiGemmEpilogue &p) {
  int64_t width = widthOfType(p.type), matrix = p.m * p.n * width;
  bool sumsA = p.epilogue == DIVISI_EPILOGUE_SUM_A, sumsB = p.epilogue == DIVISI_EPILOGUE_SUM_B;
  std::vector<int64_t> sizes = {sumsA ? p.m * p.k * width : 0, sumsB ? p.k * p.n * width : 0};
  if (p.has_operand)
    sizes.push_back(p.epilogue == DIVISI_EPILOGUE_GELU_GRAD ? matrix : p.n * width);
  sizes.push_back(matrix);
  if (p.has_second)
    sizes.push_back(sumsA ? p.m * width : sumsB ? p.n * width : matrix);
  return {sizes.begin(), sizes.end()};
}

void divisi::runtime::finishEpilogue(const DivisiGemmEpilogue &p, void *const *buffers, int threads) {
  void *const *results = buffers + (p.has_operand ? 3 : 2);
  auto bytes = [](void *address) { return static_cast<char *>(address); };
  EpilogueCall call{p,
                    {bytes(results[0]), p.type, p.n},
                    p.has_operand ? bytes(buffers[2]) : nullptr,
                    p.has_second ? bytes(results[1]) : nullptr,
                    threads};
  call.run(bytes(buffers[0]), bytes(buffers[1]));
}

void divisi_gemm_epilogue(DivisiContext *context, const DivisiGemmEpilogue *params, void *const *buffers) {
  guarded(context, "matrix product", [&] {
    const DivisiGemmEpilogue &p = *params;
    if (p.type == DIVISI_F64)
      throw std::runtime_error("a product in double precision has no epilogue");
    if (context->accelerator)
      return context->accelerator->gemm_epilogue(p, buffers);
    void *const operands[] = {buffers[0], buffers[1], buffers[p.has_operand ? 3 : 2]};
    multiplyOnCpu(context, productOf(p), operands, params);
    if (p.m > 0 && p.n > 0)
      finishEpilogue(p, buffers, context->threads);
  });
}
