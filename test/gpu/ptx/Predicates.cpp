// Comparisons, selections and moves.
#include "runtime/core/Half.h"
#include "test/gpu/ptx/Lanes.h"

#include <cmath>
#include <type_traits>

using namespace divisi::test::ptx;

namespace {
/// A number whose comparisons are those of floats.
struct Bfloat {
  uint16_t bits;
  operator float() const { return divisi::runtime::bfloatToFloat(bits); }
};

template <typename T> void addOrder(Table &table, const std::string &type) {
  addComparison<T>(table, "setp.lt" + type, [](T a, T b) { return a < b; });
  addComparison<T>(table, "setp.le" + type, [](T a, T b) { return a <= b; });
  addComparison<T>(table, "setp.gt" + type, [](T a, T b) { return a > b; });
  addComparison<T>(table, "setp.ge" + type, [](T a, T b) { return a >= b; });
}
template <typename T> void addEquality(Table &table, const std::string &type) {
  addComparison<T>(table, "setp.eq" + type, [](T a, T b) { return a == b; });
  addComparison<T>(table, "setp.ne" + type, [](T a, T b) { return a != b; });
}
bool unordered(auto a, auto b) { return a != a || b != b; }
/// Without u, the comparison of NaN with anything is false, that for inequality, too.
template <typename T> void addFloatComparisons(Table &table, const std::string &type) {
  addOrder<T>(table, type);
  addComparison<T>(table, "setp.eq" + type, [](T a, T b) { return a == b; });
  addComparison<T>(table, "setp.ne" + type, [](T a, T b) { return a < b || a > b; });
  addComparison<T>(table, "setp.equ" + type, [](T a, T b) { return a == b || unordered(a, b); });
  addComparison<T>(table, "setp.neu" + type, [](T a, T b) { return !(a == b); });
  addComparison<T>(table, "setp.ltu" + type, [](T a, T b) { return !(a >= b); });
  addComparison<T>(table, "setp.leu" + type, [](T a, T b) { return !(a > b); });
  addComparison<T>(table, "setp.gtu" + type, [](T a, T b) { return !(a <= b); });
  addComparison<T>(table, "setp.geu" + type, [](T a, T b) { return !(a < b); });
  addComparison<T>(table, "setp.num" + type, [](T a, T b) { return !unordered(a, b); });
  addComparison<T>(table, "setp.nan" + type, [](T a, T b) { return unordered(a, b); });
}

template <typename T> void select(Warp &warp, const Code &code) {
  const T *a = warp.at<T>(code.a), *b = warp.at<T>(code.b);
  uint32_t which = warp.predicate(code.c);
  T results[warpSize];
  for (unsigned i = 0; i < warpSize; ++i)
    results[i] = which >> i & 1 ? a[i] : b[i];
  store(warp, code.d, results);
}
template <typename T> void move(Warp &warp, const Code &code) { store(warp, code.d, warp.at<T>(code.a)); }

template <typename F> void logic(Warp &warp, const Code &code) {
  storePredicate(warp, code.d, F()(warp.predicate(code.a), warp.predicate(code.b)));
}
template <typename F> void addLogic(Table &table, const std::string &name, F) { table[name] = {logic<F>, {0, 0, 0}}; }
void isInfinite(Warp &warp, const Code &code) {
  const auto *a = warp.at<float>(code.a);
  uint32_t results = 0;
  for (unsigned i = 0; i < warpSize; ++i)
    results |= (uint32_t)std::isinf(a[i]) << i;
  storePredicate(warp, code.d, results);
}
} // namespace

void divisi::test::ptx::addPredicates(Table &table) {
  addOrder<int16_t>(table, ".s16");
  addOrder<uint16_t>(table, ".u16");
  addOrder<int32_t>(table, ".s32");
  addOrder<uint32_t>(table, ".u32");
  addOrder<int64_t>(table, ".s64");
  addOrder<uint64_t>(table, ".u64");
  for (const char *kind : {".b", ".s", ".u"}) {
    addEquality<uint16_t>(table, std::string(kind) + "16");
    addEquality<uint32_t>(table, std::string(kind) + "32");
    addEquality<uint64_t>(table, std::string(kind) + "64");
  }
  addFloatComparisons<_Float16>(table, ".f16");
  addFloatComparisons<Bfloat>(table, ".bf16");
  addFloatComparisons<float>(table, ".f32");
  addFloatComparisons<double>(table, ".f64");
  for (const char *kind : {".b", ".s", ".u", ".f"}) {
    table[std::string("selp") + kind + "16"] = {select<uint16_t>, {2, 2, 2, 0}};
    table[std::string("selp") + kind + "32"] = {select<uint32_t>, {4, 4, 4, 0}};
    table[std::string("selp") + kind + "64"] = {select<uint64_t>, {8, 8, 8, 0}};
    table[std::string("mov") + kind + "16"] = {move<uint16_t>, {2, 2}};
    table[std::string("mov") + kind + "32"] = {move<uint32_t>, {4, 4}};
    table[std::string("mov") + kind + "64"] = {move<uint64_t>, {8, 8}};
  }
  addLogic(table, "and.pred", [](uint32_t a, uint32_t b) { return a & b; });
  addLogic(table, "or.pred", [](uint32_t a, uint32_t b) { return a | b; });
  addLogic(table, "xor.pred", [](uint32_t a, uint32_t b) { return a ^ b; });
  table["not.pred"] = {[](Warp &warp, const Code &code) { storePredicate(warp, code.d, ~warp.predicate(code.a)); },
                       {0, 0}};
  table["mov.pred"] = {[](Warp &warp, const Code &code) { storePredicate(warp, code.d, warp.predicate(code.a)); },
                       {0, 0}};
  table["testp.infinite.f32"] = {isInfinite, {0, 4}};
  // Addresses of global memory are those of this process.
  table["cvta.to.global.u64"] = {move<uint64_t>, {8, 8}};
}
