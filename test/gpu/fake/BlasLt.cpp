// A cuBLASLt for a GPU that is not there: what it is asked, computed plainly and by its own definition: column-major
// matrices, d = alpha op(a) op(b) + beta c. It refuses what the library refuses: leading dimensions below the rows,
// operands that do not match, addresses that are less aligned than its algorithm was asked for.
#include "test/gpu/fake/Log.h"
#include "test/gpu/fake/Numbers.h"

#include <cstdint>
#include <cstring>

namespace {
constexpr int success = 0, invalidValue = 7, notSupported = 15;
constexpr int real32 = 0, real64 = 1, brain16 = 14, compute32 = 68, compute64 = 70, computeTf32 = 77;

struct Desc {
  int compute, scale, transposeA = 0, transposeB = 0;
};
struct Layout {
  int type;
  uint64_t rows, cols;
  int64_t ld;
  int32_t batch = 1;
  int64_t stride = 0;
  size_t width() const { return type == real64 ? 8 : type == real32 ? 4 : 2; }
};

struct Preference {
  size_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256}; // of a, b, c, d
};

Kind kindOf(int type) {
  return type == real64 ? Kind::Double : type == real32 ? Kind::Float : type == brain16 ? Kind::Brain : Kind::Half;
}
int64_t placeOf(const Layout &m, uint64_t row, uint64_t col, int64_t batch) {
  return batch * m.stride + (int64_t)col * m.ld + (int64_t)row;
}
double load(const Layout &m, const void *data, uint64_t row, uint64_t col, int64_t batch) {
  return number(kindOf(m.type), data, placeOf(m, row, col, batch));
}
void store(const Layout &m, void *data, uint64_t row, uint64_t col, int64_t batch, double value) {
  setNumber(kindOf(m.type), data, placeOf(m, row, col, batch), value);
}

bool matches(const Desc &desc, const Layout &a, const Layout &b, const Layout &c) {
  uint64_t m = desc.transposeA ? a.cols : a.rows, k = desc.transposeA ? a.rows : a.cols;
  uint64_t kb = desc.transposeB ? b.cols : b.rows, n = desc.transposeB ? b.rows : b.cols;
  for (const Layout *x : {&a, &b, &c})
    if (x->ld < (int64_t)x->rows || x->rows == 0 || x->cols == 0 || x->batch != c.batch)
      return false;
  return k == kb && m == c.rows && n == c.cols && a.type == b.type &&
         (a.type == real64) == (desc.compute == compute64) &&
         (desc.compute == compute32 || desc.compute == compute64 || (desc.compute == computeTf32 && a.type == real32));
}
} // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API cublasLtCreate(void **handle) {
  *handle = new int;
  return success;
}
API cublasLtDestroy(void *handle) {
  delete (int *)handle;
  return success;
}
API cublasLtMatmulDescCreate(void **desc, int compute, int scale) {
  *desc = new Desc{compute, scale};
  return success;
}
API cublasLtMatmulDescDestroy(void *desc) {
  delete (Desc *)desc;
  return success;
}
API cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes) {
  if (bytes != 4 || (attribute != 3 && attribute != 4))
    return invalidValue;
  int32_t transpose;
  std::memcpy(&transpose, value, 4);
  (attribute == 3 ? ((Desc *)desc)->transposeA : ((Desc *)desc)->transposeB) = transpose;
  return success;
}
API cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = new Layout{type, rows, cols, ld};
  return success;
}
API cublasLtMatrixLayoutDestroy(void *layout) {
  delete (Layout *)layout;
  return success;
}
API cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes) {
  if (attribute == 5 && bytes == 4)
    std::memcpy(&((Layout *)layout)->batch, value, 4);
  else if (attribute == 6 && bytes == 8)
    std::memcpy(&((Layout *)layout)->stride, value, 8);
  else
    return invalidValue;
  return success;
}
API cublasLtMatmulPreferenceCreate(void **preference) {
  *preference = new Preference;
  return success;
}
API cublasLtMatmulPreferenceDestroy(void *preference) {
  delete (Preference *)preference;
  return success;
}
API cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes) {
  auto *of = (Preference *)preference;
  if (attribute == 1 && bytes == 8)
    std::memcpy(&of->workspace, value, 8);
  else if (attribute >= 5 && attribute <= 8 && bytes == 4)
    std::memcpy(&of->alignment[attribute - 5], value, 4);
  else
    return invalidValue;
  return success;
}
API cublasLtMatmulAlgoGetHeuristic(void *, Desc *desc, Layout *a, Layout *b, Layout *c, Layout *d,
                                   Preference *preference, int, void *results, int *count) {
  *count = 0;
  if (!matches(*desc, *a, *b, *c) || c != d)
    return notSupported;
  std::memset(results, 0, 96);
  std::memcpy(results, preference->alignment, sizeof preference->alignment);
  *count = 1;
  return success;
}
API cublasLtMatmul(void *, Desc *desc, const void *alpha, const void *a, Layout *la, const void *b, Layout *lb,
                   const void *beta, const void *c, Layout *lc, void *d, Layout *ld, const uint64_t *algorithm, void *,
                   size_t, void *stream) {
  if (!matches(*desc, *la, *lb, *ld) || c != d || lc != ld)
    return invalidValue;
  const void *addresses[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if ((uintptr_t)addresses[i] % ((const uint32_t *)algorithm)[i] != 0)
      return invalidValue;
  uint64_t m = ld->rows, n = ld->cols, k = desc->transposeA ? la->rows : la->cols;
  bool wide = desc->scale == real64;
  double scale = wide ? *(const double *)alpha : *(const float *)alpha;
  double keep = wide ? *(const double *)beta : *(const float *)beta;
  record("matmul %lu x %lu x %lu batch %d", (unsigned long)m, (unsigned long)n, (unsigned long)k, ld->batch);
  Desc how = *desc;
  Layout first = *la, second = *lb, result = *ld;
  return enqueueOn(
      stream,
      [=] {
        for (int64_t i = 0; i < result.batch; ++i)
          for (uint64_t col = 0; col < n; ++col)
            for (uint64_t row = 0; row < m; ++row) {
              double sum = 0;
              for (uint64_t p = 0; p < k; ++p)
                sum += (how.transposeA ? load(first, a, p, row, i) : load(first, a, row, p, i)) *
                       (how.transposeB ? load(second, b, col, p, i) : load(second, b, p, col, i));
              store(result, d, row, col, i, scale * sum + (keep != 0 ? keep * load(result, d, row, col, i) : 0));
            }
        return success;
      },
      notSupported);
}
