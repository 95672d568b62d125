#include "runtime/devices/cuda/Blas.h"
#include "runtime/core/DataType.h"
#include "runtime/core/Epilogue.h"
#include "runtime/devices/cuda/Library.h"

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
// Values of cuBLASLt's enumerations (cublasLt.h, library_types.h).
constexpr int compute32 = 68, compute64 = 70, computeTf32 = 77;
constexpr int real32 = 0, real64 = 1, real16 = 2, brain16 = 14;
constexpr int transposeA = 3, transposeB = 4, batchCount = 5, batchStride = 6, maxWorkspace = 1;
constexpr int epilogueOf = 7, biasPointer = 8, auxPointer = 11, auxStride = 12;
constexpr int leastAlignment = 5; // of a; those of b, c and d follow it
/// The alignment of every tensor in an arena.
constexpr int64_t arenaAlignment = 64;

int typeOf(int64_t type) {
  switch (type) {
  case DIVISI_F64:
    return real64;
  case DIVISI_F16:
    return real16;
  case DIVISI_BF16:
    return brain16;
  default:
    return real32;
  }
}

/// cublasLtMatmulHeuristicResult_t.
struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

/// The value of cublasLtEpilogue_t. Its first operand is our second one: BGRADA sums b.
int32_t epilogueCode(const DivisiGemmEpilogue &p) {
  constexpr int32_t relu = 2, bias = 4, gelu = 32, geluGrad = 64, aux = 128, biasGradA = 256, biasGradB = 512;
  int32_t forward = (p.has_operand ? bias : 0) | (p.has_second ? aux : 0);
  switch (p.epilogue) {
  case DIVISI_EPILOGUE_BIAS:
    return bias;
  case DIVISI_EPILOGUE_RELU:
    return relu | forward;
  case DIVISI_EPILOGUE_GELU:
    return gelu | forward;
  case DIVISI_EPILOGUE_GELU_GRAD:
    return geluGrad | aux;
  default:
    return p.epilogue == DIVISI_EPILOGUE_SUM_A ? biasGradB : biasGradA;
  }
}

/// Merges rows of consecutive matrices with the same b into one matrix, and two batch dimensions with a common stride
/// into one.
DivisiGemm merged(DivisiGemm g) {
  if (!g.transpose_a && g.batch1 > 1 && g.b1 == 0 && g.a1 == g.m * g.lda && g.c1 == g.m * g.ldc) {
    g.m *= g.batch1;
    g.batch1 = 1;
  }
  if (g.batch1 == 1) {
    g.batch1 = g.batch0;
    g.a1 = g.a0, g.b1 = g.b0, g.c1 = g.c0;
    g.batch0 = 1;
    if (!g.transpose_a && g.batch1 > 1 && g.b1 == 0 && g.a1 == g.m * g.lda && g.c1 == g.m * g.ldc) {
      g.m *= g.batch1;
      g.batch1 = 1;
    }
  } else if (g.a0 == g.batch1 * g.a1 && g.b0 == g.batch1 * g.b1 && g.c0 == g.batch1 * g.c1) {
    g.batch1 *= g.batch0;
    g.batch0 = 1;
  }
  return g;
}
} // namespace

struct Blas::Functions {
  int (*create)(void **);
  int (*destroy)(void *);
  int (*descCreate)(void **, int, int);
  int (*descDestroy)(void *);
  int (*descSet)(void *, int, const void *, size_t);
  int (*layoutCreate)(void **, int, uint64_t, uint64_t, int64_t);
  int (*layoutDestroy)(void *);
  int (*layoutSet)(void *, int, const void *, size_t);
  int (*preferenceCreate)(void **);
  int (*preferenceDestroy)(void *);
  int (*preferenceSet)(void *, int, const void *, size_t);
  int (*heuristic)(void *, void *, void *, void *, void *, void *, void *, int, Heuristic *, int *);
  int (*matmul)(void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *,
                void *, void *, void *, const uint64_t *, void *, size_t, Stream);

  explicit Functions(void *&handle) {
    openLibrary({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}, "cuBLASLt", [&](void *library) {
      bindAll(library);
      checkStart(create(&handle));
    });
  }

private:
  void bindAll(void *library) {
    bind(library, "cublasLtCreate", create);
    bind(library, "cublasLtDestroy", destroy);
    bind(library, "cublasLtMatmulDescCreate", descCreate);
    bind(library, "cublasLtMatmulDescDestroy", descDestroy);
    bind(library, "cublasLtMatmulDescSetAttribute", descSet);
    bind(library, "cublasLtMatrixLayoutCreate", layoutCreate);
    bind(library, "cublasLtMatrixLayoutDestroy", layoutDestroy);
    bind(library, "cublasLtMatrixLayoutSetAttribute", layoutSet);
    bind(library, "cublasLtMatmulPreferenceCreate", preferenceCreate);
    bind(library, "cublasLtMatmulPreferenceDestroy", preferenceDestroy);
    bind(library, "cublasLtMatmulPreferenceSetAttribute", preferenceSet);
    bind(library, "cublasLtMatmulAlgoGetHeuristic", heuristic);
    bind(library, "cublasLtMatmul", matmul);
  }
};

/// cuBLASLt's matrices are column-major: c^T = op(b)^T op(a)^T, so that its first operand is b.
struct Blas::Plan {
  DivisiGemm g;
  const Functions &lt;
  void *desc = nullptr, *first = nullptr, *second = nullptr, *result = nullptr;
  Heuristic choice{};
  bool none = false; ///< there is no algorithm

  Plan(const DivisiGemm &g, const Functions &lt);
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;
  ~Plan() {
    if (desc)
      lt.descDestroy(desc);
    for (void *layout : {first, second, result})
      if (layout)
        lt.layoutDestroy(layout);
  }
  /// Whether matrices of the batch have the same result, to which they are added: they are computed one after another.
  bool oneByOne() const { return g.batch1 > 1 && g.c1 == 0; }
  void check(int code, const char *what) const {
    if (code != 0)
      throw std::runtime_error(concat("cuBLASLt cannot ", what, " a product of ", g.m, " x ", g.k, " and ", g.k, " x ",
                                      g.n, " (status ", code, ")"));
  }
  template <typename T> void set(int attribute, T value) const {
    check(lt.descSet(desc, attribute, &value, sizeof value), "describe");
  }
};

Blas::Blas(Stream stream) : stream(stream), lt(std::make_unique<Functions>(handle)) {}

Blas::~Blas() {
  plans.clear();
  epiloguePlans.clear();
  lt->destroy(handle);
}

Blas::Plan::Plan(const DivisiGemm &given, const Functions &lt) : g(merged(given)), lt(lt) {
  bool wide = g.type == DIVISI_F64;
  int compute = wide ? compute64 : g.tf32 && g.type == DIVISI_F32 ? computeTf32 : compute32;
  check(lt.descCreate(&desc, compute, wide ? real64 : real32), "describe");
  set(transposeA, int32_t(g.transpose_b != 0));
  set(transposeB, int32_t(g.transpose_a != 0));
  auto layout = [&](void *&matrix, int64_t type, int64_t rows, int64_t columns, int64_t ld, int64_t stride) {
    ld = std::max(ld, columns); // row-major; with one row it may have any value
    check(lt.layoutCreate(&matrix, typeOf(type), uint64_t(columns), uint64_t(rows), ld), "lay out");
    if (g.batch1 == 1 || oneByOne())
      return;
    auto count = static_cast<int32_t>(g.batch1);
    check(lt.layoutSet(matrix, batchCount, &count, sizeof count), "lay out");
    check(lt.layoutSet(matrix, batchStride, &stride, sizeof stride), "lay out");
  };
  layout(first, g.type, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, g.ldb, g.b1);
  layout(second, g.type, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, g.lda, g.a1);
  layout(result, g.result_type, g.m, g.n, g.ldc, g.c1);
}

int Blas::choose(Plan &plan) const {
  const DivisiGemm &g = plan.g;
  void *preference = nullptr;
  plan.check(lt->preferenceCreate(&preference), "plan");
  auto bytes = static_cast<size_t>(g.workspace);
  int found = 0, code = lt->preferenceSet(preference, maxWorkspace, &bytes, sizeof bytes);
  // Matrices that are computed one after another begin where the previous ones end.
  auto aligned = [&](int64_t outer, int64_t inner, int64_t type) {
    int64_t steps = arenaAlignment | (g.batch0 > 1 ? outer : 0) * widthOfType(type) |
                    (plan.oneByOne() ? inner : 0) * widthOfType(type);
    return static_cast<uint32_t>(steps & -steps);
  };
  uint32_t result = aligned(g.c0, g.c1, g.result_type);
  uint32_t alignments[] = {aligned(g.b0, g.b1, g.type), aligned(g.a0, g.a1, g.type), result, result};
  for (int i = 0; i < 4 && code == 0; ++i)
    code = lt->preferenceSet(preference, leastAlignment + i, &alignments[i], sizeof alignments[i]);
  if (code == 0)
    code = lt->heuristic(handle, plan.desc, plan.first, plan.second, plan.result, plan.result, preference, 1,
                         &plan.choice, &found);
  lt->preferenceDestroy(preference);
  return code != 0 ? code : found == 0 || plan.choice.status != 0 ? -1 : 0;
}

void Blas::gemm(const DivisiGemm &params, void *const *buffers) {
  if (params.batch0 <= 0 || params.batch1 <= 0 || params.m <= 0 || params.n <= 0)
    return;
  if ((params.type == DIVISI_F64) != (params.result_type == DIVISI_F64))
    throw std::runtime_error("double precision does not mix with other types");
  if (params.k == 0 && params.accumulate)
    return;
  auto &plan = plans[params];
  if (!plan) {
    auto fresh = std::make_unique<Plan>(params, *lt);
    fresh->check(choose(*fresh), "find an algorithm for");
    plan = std::move(fresh);
  }
  const DivisiGemm &g = plan->g;
  int64_t width = static_cast<int64_t>(widthOfType(g.type)),
          resultWidth = static_cast<int64_t>(widthOfType(g.result_type));
  double one64 = 1, zero64 = 0;
  float one32 = 1, zero32 = 0;
  bool wide = g.type == DIVISI_F64;
  const void *one = wide ? static_cast<const void *>(&one64) : &one32;
  const void *zero = wide ? static_cast<const void *>(&zero64) : &zero32;
  for (int64_t i = 0; i < g.batch0; ++i)
    for (int64_t j = 0; j < (plan->oneByOne() ? g.batch1 : 1); ++j) {
      const char *a = static_cast<const char *>(buffers[0]) + (i * g.a0 + j * g.a1) * width;
      const char *b = static_cast<const char *>(buffers[1]) + (i * g.b0 + j * g.b1) * width;
      char *c = static_cast<char *>(buffers[2]) + (i * g.c0 + j * g.c1) * resultWidth;
      plan->check(lt->matmul(handle, plan->desc, one, b, plan->first, a, plan->second, g.accumulate ? one : zero, c,
                             plan->result, c, plan->result, plan->choice.algorithm,
                             g.workspace > 0 ? buffers[3] : nullptr, static_cast<size_t>(g.workspace), stream),
                  "compute");
    }
}

bool Blas::gemmEpilogue(const DivisiGemmEpilogue &params, void *const *buffers) {
  if (params.m <= 0 || params.n <= 0)
    return true;
  void *const *next = buffers + 2;
  void *operand = params.has_operand ? *next++ : nullptr, *c = *next++;
  void *second = params.has_second ? *next++ : nullptr, *workspace = params.workspace > 0 ? *next : nullptr;
  bool gradient = params.epilogue == DIVISI_EPILOGUE_GELU_GRAD;
  bool sums = params.epilogue == DIVISI_EPILOGUE_SUM_A || params.epilogue == DIVISI_EPILOGUE_SUM_B;
  void *bias = sums ? second : gradient ? nullptr : operand, *aux = gradient ? operand : sums ? nullptr : second;

  auto &plan = epiloguePlans[params];
  if (plan && plan->none)
    return false;
  std::unique_ptr<Plan> fresh;
  if (!plan) {
    fresh = std::make_unique<Plan>(productOf(params), *lt);
    fresh->set(epilogueOf, epilogueCode(params));
    if (aux)
      fresh->set(auxStride, params.n);
  }
  Plan &used = fresh ? *fresh : *plan;
  if (bias)
    used.set(biasPointer, bias);
  if (aux)
    used.set(auxPointer, aux);
  if (fresh) {
    used.none = choose(used) != 0;
    plan = std::move(fresh);
  }
  if (used.none)
    return false;
  float one = 1, zero = 0;
  used.check(lt->matmul(handle, used.desc, &one, buffers[1], used.first, buffers[0], used.second, &zero, c, used.result,
                        c, used.result, used.choice.algorithm, workspace, static_cast<size_t>(params.workspace),
                        stream),
             "compute");
  return true;
}
