//===- Gemm.cpp - matmuls by OpenBLAS and oneDNN --------------------------===//
#include "runtime/core/SmallWork.h"
#include "runtime/devices/cpu/Blas.h"
#include "runtime/devices/cpu/Convert.h"
#include "runtime/devices/cpu/MatmulPlan.h"
#include "runtime/devices/cpu/OneThread.h"
#include "runtime/devices/cpu/Subnormals.h"

#include <array>
#include <climits>
#include <stdexcept>

using namespace divisi::runtime;

namespace {
/// Below this number of multiplications a second thread does not pay, which takes microseconds to begin and to end.
constexpr int64_t parallelWork = 1 << 17;
/// Above this number OpenBLAS would compute with a team (its GEMM_MULTITHREAD_THRESHOLD of 4 times 65,536).
constexpr int64_t teamWork = 1 << 18;
/// Up to this number one thread is used, which is at most a fifth slower than a team that is awake. OpenBLAS may have other kernels
/// for these (SMALL_MATRIX_OPT), whose sums are others.
constexpr int64_t smallWork = 100 * 100 * 100;
/// Rows of a part, at least, if there are very many parts: each thread arranges the whole other operand for itself.
constexpr int64_t leastPart = 128;
/// Rows of a tile of OpenBLAS' kernels for x86: in parts of whole tiles a sum has the same bits.
constexpr int64_t rowTile = 24;
/// Columns: whole vectors; and those of a part, at least. The work of such a part, at least.
constexpr int64_t columnTile = 16, leastColumns = 4 * columnTile, leastPartWork = 1 << 18;
/// From this number on a team that sleeps pays, too.
constexpr int64_t surelyLarge = 1 << 23;
constexpr int matmulService = 100, batchSites = 102, partSites = 103; // beside the kinds of convolutions, and kernels
/// Numbers that a thread converts, at least.
constexpr int64_t conversionsPerThread = 1 << 15;

/// The matrices of one operand: `rows` x `cols`, one for each (i, j) of the batch.
struct Matrices {
  char *data;
  int64_t type, rows, cols, ld, stride0, stride1;

  char *at(int64_t i, int64_t j) const { return data + (i * stride0 + j * stride1) * widthOfType(type); }
  int64_t size0(int64_t batch0) const { return stride0 == 0 ? 1 : batch0; }
  int64_t size1(int64_t batch1) const { return stride1 == 0 ? 1 : batch1; }
};

/// One GEMM with its operands.
struct Product {
  DivisiGemm g;
  Matrices a, b, c;

  void check();
  void mergeBatch();
  void run(DivisiContext *context, const void *site) const;
  void runOne(int64_t index, bool alone = false) const;
  bool runInParts(DivisiContext *context, const void *site, int64_t index) const;
};

/// Checks sizes, because OpenBLAS takes ints and reports errors only on stderr.
void Product::check() {
  for (Matrices *x : {&a, &b, &c}) {
    if (x->rows <= 1)
      x->ld = std::max(x->ld, x->cols);
    x->ld = std::max<int64_t>(x->ld, 1);
    if (x->ld < x->cols || x->ld > INT_MAX || x->rows > INT_MAX)
      throw std::runtime_error(
          concat("a matrix of ", x->rows, " x ", x->cols, " with rows ", x->ld, " elements apart is not supported"));
  }
}

/// Merges rows of consecutive matrices with the same b into one matrix.
void Product::mergeBatch() {
  auto follows = [&](const Matrices &x, int64_t stride) { return stride == x.rows * x.ld; };
  if (g.batch0 * g.batch1 > INT_MAX / g.m)
    return;
  if (!g.transpose_a && g.batch1 > 1 && g.b1 == 0 && follows(a, a.stride1) && follows(c, c.stride1)) {
    g.m *= g.batch1;
    a.rows = c.rows = g.m;
    g.batch1 = 1;
  }
  if (!g.transpose_a && g.batch1 == 1 && g.batch0 > 1 && g.b0 == 0 && follows(a, a.stride0) && follows(c, c.stride0)) {
    g.m *= g.batch0;
    a.rows = c.rows = g.m;
    g.batch0 = 1;
  }
}

void Product::runOne(int64_t index, bool alone) const {
  const int64_t work = g.m * g.n * g.k;
  const WithoutSubnormals flushed(a.type == DIVISI_F32);
  OneThread one((alone || (work > teamWork && work <= smallWork)) && !divisi_team_inside());
  int64_t i = index / g.batch1, j = index % g.batch1;
  auto ta = g.transpose_a ? CblasTrans : CblasNoTrans, tb = g.transpose_b ? CblasTrans : CblasNoTrans;
  auto m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k);
  auto lda = static_cast<int>(a.ld), ldb = static_cast<int>(b.ld), ldc = static_cast<int>(c.ld);
  auto multiply = [&](auto gemm, auto zero) {
    using T = decltype(zero);
    // By columns, so that the transposes are multiplied: for some row-major calls OpenBLAS has other kernels (SGEMM_DIRECT).
    gemm(CblasColMajor, tb, ta, n, m, k, T(1), reinterpret_cast<const T *>(b.at(i, j)), ldb,
         reinterpret_cast<const T *>(a.at(i, j)), lda, T(g.accumulate ? 1 : 0), reinterpret_cast<T *>(c.at(i, j)), ldc);
  };
  if (a.type == DIVISI_F64)
    multiply(cblas_dgemm, double());
  else
    multiply(cblas_sgemm, float());
}

/// Computes one matrix of the result in parts of its rows or columns, one for each thread; false if there would be too little in each.
/// OpenBLAS' own threads wait for each other and share what they arrange: on cores with different caches they reach half as much.
bool Product::runInParts(DivisiContext *context, const void *site, int64_t index) const {
  if (divisi_team_inside())
    return false;
  const int threads = context->threads;
  auto runParts = [&](int64_t extent, int64_t grain, const auto &body) {
    if (g.m * g.n * g.k < surelyLarge)
      forEachPieceIfFaster(context, partSites, site, extent, grain, body);
    else
      forEachPiece(extent, grain, threads, body);
  };
  const int64_t tiles = (g.m + rowTile - 1) / rowTile;
  const int64_t least = tiles / threads * rowTile - (tiles * rowTile - g.m); // of a part
  if (g.m >= leastPart * (threads - 1) && least * g.n * g.k > smallWork) {
    runParts(tiles, tiles / threads, [&](int64_t begin, int64_t end) {
      Product part = *this;
      begin *= rowTile;
      part.g.m = std::min(end * rowTile, g.m) - begin;
      part.a.data += begin * (g.transpose_a ? 1 : a.ld) * widthOfType(a.type);
      part.c.data += begin * c.ld * widthOfType(c.type);
      part.runOne(index, /*alone=*/true);
    });
    return true;
  }
  const int64_t parts = std::min<int64_t>(threads, g.m * g.n * g.k / leastPartWork);
  if (parts < 2 || g.n < parts * leastColumns)
    return false;
  runParts(parts, 1, [&](int64_t begin, int64_t end) { // the same parts on one thread: their sums may depend on where they end
    for (int64_t i = begin; i < end; ++i) {
      auto [from, to] = pieceOf(g.n / columnTile, i, parts);
      Product part = *this;
      part.g.n = (i + 1 == parts ? g.n : to * columnTile) - from * columnTile;
      part.b.data += from * columnTile * (g.transpose_b ? b.ld : 1) * widthOfType(b.type);
      part.c.data += from * columnTile * widthOfType(c.type);
      part.runOne(index, /*alone=*/true);
    }
  });
  return true;
}

void Product::run(DivisiContext *context, const void *site) const {
  const int threads = context->threads;
  int64_t batch = g.batch0 * g.batch1, each = g.m * g.n * g.k;
  // Several matrices of the batch may be added to the same result: then their order matters.
  bool shared = (g.batch0 > 1 && c.stride0 == 0) || (g.batch1 > 1 && c.stride1 == 0);
  auto runSome = [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index)
      runOne(index);
  };
  if (batch < threads || batch == 1 || shared || each * batch <= parallelWork) {
    if (threads == 1 || each <= smallWork) {
      runSome(0, batch);
      if (each > teamWork)
        keepAwake(context);
      return;
    }
    for (int64_t index = 0; index < batch; ++index)
      if (!runInParts(context, site, index)) {
        const TeamWithoutSubnormals flushed(divisi_team_inside() ? 1 : threads, a.type == DIVISI_F32);
        runOne(index);
        divisi_team_ended();
      }
    return;
  }
  // Within a parallel region OpenBLAS stays on the calling thread. Outside it divides GEMMs of twice parallelWork and more
  // among threads, and their sums are others then: only smaller ones may be computed either way.
  if (each <= parallelWork)
    return forEachPieceIfFaster(context, batchSites, site, batch, parallelWork / each + 1, runSome);
  forEachPiece(batch, 1, threads, runSome);
}

/// Calls body(wide, narrow row, narrow matrix) for rows of `x` and their places in the dense floats `wide`.
template <typename Body>
void forEachRow(const Matrices &x, const Matrices &wide, int64_t batch0, int64_t batch1, int threads,
                const Body &body) {
  int64_t n1 = x.size1(batch1), rows = x.size0(batch0) * n1 * x.rows;
  forEachPiece(rows, conversionsPerThread / std::max<int64_t>(x.cols, 1) + 1, threads, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t matrix = row / x.rows, i = matrix / n1, j = matrix % n1, r = row % x.rows;
      body(x.at(i, j) + r * x.ld * widthOfType(x.type), reinterpret_cast<float *>(wide.at(i, j)) + r * wide.ld);
    }
  });
}

/// Dense floats with the batch structure of `x`, in scratch memory that starts at `data`.
Matrices widened(const Matrices &x, int64_t batch1, char *data) {
  Matrices wide = x;
  wide.data = data;
  wide.type = DIVISI_F32;
  wide.ld = std::max<int64_t>(x.cols, 1);
  wide.stride1 = x.stride1 == 0 ? 0 : x.rows * wide.ld;
  wide.stride0 = x.stride0 == 0 ? 0 : x.rows * wide.ld * x.size1(batch1);
  return wide;
}

size_t widenedBytes(const Matrices &x, const DivisiGemm &g) {
  int64_t elements = x.size0(g.batch0) * x.size1(g.batch1) * x.rows * std::max<int64_t>(x.cols, 1);
  return Scratch::roundUp(static_cast<size_t>(elements) * sizeof(float));
}

/// GEMMs of types that the library lacks: computed in floats.
void multiplyWidened(DivisiContext *context, const Product &p, const void *site) {
  Product wide = p;
  const std::array<const Matrices *, 3> narrow = {&p.a, &p.b, &p.c};
  const std::array<Matrices *, 3> floats = {&wide.a, &wide.b, &wide.c};
  size_t bytes = 0;
  for (const Matrices *x : narrow)
    bytes += x->type == DIVISI_F32 ? 0 : widenedBytes(*x, p.g);
  char *scratch = context->scratch.reserve(bytes);
  for (size_t i = 0; i < 3; ++i) {
    const Matrices &x = *narrow[i];
    if (x.type == DIVISI_F32)
      continue;
    *floats[i] = widened(x, p.g.batch1, scratch);
    scratch += widenedBytes(x, p.g);
    if (i < 2 || p.g.accumulate)
      forEachRow(x, *floats[i], p.g.batch0, p.g.batch1, context->threads,
                 [&x](char *from, float *to) { convertToFloat(from, x.type, to, x.cols); });
  }
  wide.run(context, site);
  if (p.c.type != DIVISI_F32)
    forEachRow(p.c, wide.c, p.g.batch0, p.g.batch1, context->threads,
               [&p](char *to, float *from) { convertFromFloat(from, to, p.c.type, p.c.cols); });
}

/// The library's plan of one call of BF16 operands; null: there is none.
struct PlannedCall : CacheEntry {
  std::unique_ptr<MatmulPlan> plan;
};
MatmulPlan *planOf(DivisiContext *context, const Product &p, const void *site) {
  auto &entry = context->cache[{matmulService, site}];
  if (!entry) {
    auto made = std::make_unique<PlannedCall>();
    DivisiGemm merged = p.g;
    merged.lda = p.a.ld, merged.ldb = p.b.ld, merged.ldc = p.c.ld;
    made->plan = MatmulPlan::create(merged, context->isMember);
    entry = std::move(made);
  }
  return static_cast<PlannedCall &>(*entry).plan.get();
}

void multiply(DivisiContext *context, const Product &p, const void *site) {
  const int64_t work = p.g.m * p.g.n * p.g.k;
  if (MatmulPlan *plan = p.a.type == DIVISI_BF16 ? planOf(context, p, site) : nullptr) {
    plan->run(context->scratch.reserve(plan->scratchBytes()), {p.a.data, p.b.data, p.c.data});
    if (context->threads > 1 && work > teamWork)
      divisi_team_ended();
    return;
  }
  prepareBlas(context);
  if (p.a.type == p.c.type && (p.a.type == DIVISI_F32 || p.a.type == DIVISI_F64))
    return p.run(context, site);
  if (p.a.type == DIVISI_F64 || p.c.type == DIVISI_F64)
    throw std::runtime_error("double precision does not mix with other types");
  multiplyWidened(context, p, site);
}

/// An empty sum is zero.
void clear(const DivisiGemm &g, const Matrices &c) {
  for (int64_t i = 0; i < g.batch0; ++i)
    for (int64_t j = 0; j < g.batch1; ++j)
      for (int64_t r = 0; r < c.rows; ++r)
        std::fill_n(c.at(i, j) + r * c.ld * widthOfType(c.type), c.cols * widthOfType(c.type), 0);
}
} // namespace

void divisi::runtime::multiplyOnCpu(DivisiContext *context, const DivisiGemm &g, void *const *buffers,
                                    const void *site) {
  auto *a = static_cast<char *>(buffers[0]), *b = static_cast<char *>(buffers[1]), *c = static_cast<char *>(buffers[2]);
  Product p{g,
            {a, g.type, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, g.lda, g.a0, g.a1},
            {b, g.type, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, g.ldb, g.b0, g.b1},
            {c, g.result_type, g.m, g.n, g.ldc, g.c0, g.c1}};
  if (g.batch0 <= 0 || g.batch1 <= 0 || g.m <= 0 || g.n <= 0)
    return;
  p.check();
  p.mergeBatch();
  if (g.k <= 0) {
    if (!g.accumulate)
      clear(p.g, p.c);
    return;
  }
  multiply(context, p, site);
}

void divisi_gemm(DivisiContext *context, const DivisiGemm *params, void *const *buffers) {
  guarded(context, "matrix product", [&] {
    if (context->accelerator)
      return context->accelerator->gemm(*params, buffers);
    multiplyOnCpu(context, *params, buffers, params);
  });
}
