// A cuBLASLt for a fake GPU. It computes what is requested plainly and by the library's definition: column-major
// matrices, d = alpha op(a) op(b) + beta c. It refuses what the library refuses: leading dimensions below the rows,
// operands that do not match, addresses that are less aligned than the algorithm requires, workspaces that are not at
// multiples of 256 bytes in the GPU's memory or smaller than an algorithm needs, vectors of epilogues that are not
// wholly in the GPU's memory. It is built as the libraries of CUDA 12 and 13, of which the latter needs a driver of 13.
// DIVISI_FAKE_CUBLASLT_EPILOGUES=none: it has no algorithms with an epilogue.
#include "test/gpu/fake/Log.h"
#include "test/gpu/fake/Numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {
constexpr int success = 0, notInitialized = 1, invalidValue = 7, notSupported = 15;
/// Of the fastest algorithms; with less they are slower.
constexpr size_t wantedWorkspace = 32 << 20;
constexpr int real32 = 0, real64 = 1, brain16 = 14, compute32 = 68, compute64 = 70, computeTf32 = 77;

// cublasLtEpilogue_t: bits, of which some combinations exist. Those that no program asks for (relu with a mask,
// gradients of relu, gradients with sums) are refused.
constexpr int relu = 2, bias = 4, gelu = 32, geluGrad = 64, auxiliary = 128, biasGradA = 256, biasGradB = 512;
constexpr int combinations[] = {1,
                                bias,
                                relu,
                                relu | bias,
                                gelu,
                                gelu | auxiliary,
                                gelu | bias,
                                gelu | auxiliary | bias,
                                geluGrad | auxiliary,
                                biasGradA,
                                biasGradB};

struct Desc {
  int compute, scale, transposeA = 0, transposeB = 0, epilogue = 1;
  char *vector = nullptr, *aux = nullptr; // a bias or its gradient; the values for a gradient
  int64_t auxStride = 0;
  bool has(int bits) const { return (epilogue & bits) != 0; }
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

/// Whether an epilogue can be computed with the given attributes.
bool fits(const Desc &desc, const Layout &d) {
  if (desc.epilogue == 1)
    return true;
  bool vector = desc.has(bias | biasGradA | biasGradB);
  if (std::ranges::find(combinations, desc.epilogue) == std::end(combinations) || d.type == real64 || d.batch != 1 ||
      (vector && !desc.vector))
    return false;
  return !desc.has(auxiliary) ||
         (desc.aux && (uintptr_t)desc.aux % 16 == 0 && desc.auxStride % 8 == 0 && desc.auxStride >= (int64_t)d.rows);
}

/// Whether a bias, its gradient and the values for a gradient are wholly in the GPU's memory.
bool holdsVectors(const Desc &desc, const Layout &d) {
  uint64_t length = desc.has(biasGradB) ? d.cols : d.rows;
  if (desc.has(bias | biasGradA | biasGradB) && !isOnDevice(desc.vector, length * d.width()))
    return false;
  return !desc.has(auxiliary) || isOnDevice(desc.aux, (size_t)desc.auxStride * d.cols * d.width());
}

bool matches(const Desc &desc, const Layout &a, const Layout &b, const Layout &c) {
  uint64_t m = desc.transposeA ? a.cols : a.rows, k = desc.transposeA ? a.rows : a.cols;
  uint64_t kb = desc.transposeB ? b.cols : b.rows, n = desc.transposeB ? b.rows : b.cols;
  for (const Layout *x : {&a, &b, &c})
    if (x->ld < (int64_t)x->rows || x->rows == 0 || x->cols == 0 || x->batch != c.batch)
      return false;
  return k == kb && m == c.rows && n == c.cols && a.type == b.type &&
         (a.type == real64) == (desc.compute == compute64) && fits(desc, c) &&
         (desc.compute == compute32 || desc.compute == compute64 || (desc.compute == computeTf32 && a.type == real32));
}
double normalCdf(double x) { return std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)) / 2 + 0.5; }
double slopeOfGelu(double x) {
  double t = 2 * normalCdf(x) - 1;
  return normalCdf(x) + x / 2 * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

/// An element of d from that of the matmul, in a column-major matrix whose rows have a bias.
double finish(const Desc &how, const Layout &d, uint64_t row, uint64_t col, double x) {
  int64_t place = (int64_t)col * how.auxStride + (int64_t)row;
  if (how.has(bias))
    x += number(kindOf(d.type), how.vector, (int64_t)row);
  if (how.has(geluGrad))
    return x * slopeOfGelu(number(kindOf(d.type), how.aux, place));
  if (how.has(auxiliary))
    setNumber(kindOf(d.type), how.aux, place, x);
  return how.has(relu) ? std::fmax(x, 0) : how.has(gelu) ? x * normalCdf(x) : x;
}

/// The gradient of a bias: sums of an operand along the contracted dimension.
void sumUp(const Desc &how, const Layout &a, const void *aData, const Layout &b, const void *bData, const Layout &d) {
  uint64_t k = how.transposeA ? a.rows : a.cols;
  auto put = [&](uint64_t i, double sum) { setNumber(kindOf(d.type), how.vector, (int64_t)i, sum); };
  auto sum = [&](auto element) {
    double total = 0;
    for (uint64_t p = 0; p < k; ++p)
      total += element(p);
    return total;
  };
  for (uint64_t row = 0; row < d.rows && how.has(biasGradA); ++row)
    put(row, sum([&](uint64_t p) { return how.transposeA ? load(a, aData, p, row, 0) : load(a, aData, row, p, 0); }));
  for (uint64_t col = 0; col < d.cols && how.has(biasGradB); ++col)
    put(col, sum([&](uint64_t p) { return how.transposeB ? load(b, bData, col, p, 0) : load(b, bData, p, col, 0); }));
}
} // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API cublasLtCreate(void **handle) {
  if (driverVersion() < 1000 * FAKE_CUDA_MAJOR)
    return notInitialized;
  record("cuBLASLt of CUDA %d", FAKE_CUDA_MAJOR);
  *handle = new int;
  return success;
}
extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() { return 10000 * FAKE_CUDA_MAJOR + 100; }
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
  auto *of = (Desc *)desc;
  auto set = [&](auto &field) {
    if (bytes != sizeof field)
      return invalidValue;
    std::memcpy(&field, value, bytes);
    return success;
  };
  switch (attribute) {
  case 3:
    return set(of->transposeA);
  case 4:
    return set(of->transposeB);
  case 7:
    return set(of->epilogue);
  case 8:
    return set(of->vector);
  case 11:
    return set(of->aux);
  case 12:
    return set(of->auxStride);
  default:
    return invalidValue;
  }
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
  if (const char *which = getenv("DIVISI_FAKE_CUBLASLT_EPILOGUES"); desc->epilogue != 1 && which && !strcmp(which, "none"))
    return success; // nothing found
  if (!matches(*desc, *a, *b, *c) || c != d)
    return notSupported;
  std::memset(results, 0, 96);
  std::memcpy(results, preference->alignment, sizeof preference->alignment);
  size_t bytes = std::min(preference->workspace, wantedWorkspace);
  std::memcpy((char *)results + 32, &bytes, sizeof bytes);
  std::memcpy((char *)results + 64, &bytes, sizeof bytes);
  record("algorithm%s for %lu x %lu", bytes < wantedWorkspace ? " with a small workspace" : "", (unsigned long)d->rows,
         (unsigned long)d->cols);
  *count = 1;
  return success;
}
API cublasLtMatmul(void *, Desc *desc, const void *alpha, const void *a, Layout *la, const void *b, Layout *lb,
                   const void *beta, const void *c, Layout *lc, void *d, Layout *ld, const uint64_t *algorithm,
                   void *workspace, size_t bytes, void *stream) {
  if (!matches(*desc, *la, *lb, *ld) || c != d || lc != ld)
    return invalidValue;
  if (bytes < algorithm[4] ||
      (bytes > 0 && (!workspace || (uintptr_t)workspace % 256 != 0 || !isOnDevice(workspace, bytes))))
    return invalidValue;
  if (!holdsVectors(*desc, *ld))
    return invalidValue;
  const void *addresses[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if ((uintptr_t)addresses[i] % ((const uint32_t *)algorithm)[i] != 0)
      return invalidValue;
  uint64_t m = ld->rows, n = ld->cols, k = desc->transposeA ? la->rows : la->cols;
  bool wide = desc->scale == real64;
  double scale = wide ? *(const double *)alpha : *(const float *)alpha;
  double keep = wide ? *(const double *)beta : *(const float *)beta;
  noteFirstUse("a product " + std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k) + " " +
               std::to_string(la->type) + " " + std::to_string(ld->type) + " " + std::to_string(desc->epilogue));
  record("matmul %lu x %lu x %lu batch %d epilogue %d", (unsigned long)m, (unsigned long)n, (unsigned long)k, ld->batch,
         desc->epilogue);
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
              double x = scale * sum + (keep != 0 ? keep * load(result, d, row, col, i) : 0);
              store(result, d, row, col, i, finish(how, result, row, col, x));
            }
        sumUp(how, first, a, second, b, result);
        return success;
      },
      notSupported);
}
