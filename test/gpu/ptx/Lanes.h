#pragma once
#include "test/gpu/ptx/Machine.h"
#include "test/gpu/ptx/Table.h"

#include <initializer_list>
#include <utility>

namespace divisi::test::ptx {

/// Stores results of all lanes in a register, for the active ones.
template <typename T> void store(Warp &warp, uint32_t slot, const T *results) {
  T *to = warp.at<T>(slot);
  if (warp.active == allLanes) {
    for (unsigned i = 0; i < warpSize; ++i)
      to[i] = results[i];
    return;
  }
  for (unsigned i = 0; i < warpSize; ++i)
    to[i] = warp.active >> i & 1 ? results[i] : to[i];
}

inline void storePredicate(Warp &warp, uint32_t slot, uint32_t results) {
  uint32_t &to = warp.predicate(slot);
  to = (to & ~warp.active) | (results & warp.active);
}

template <typename F, typename D, typename A> void unary(Warp &warp, const Code &code) {
  const A *a = warp.at<A>(code.a);
  D results[warpSize];
  for (unsigned i = 0; i < warpSize; ++i)
    results[i] = F()(a[i]);
  store(warp, code.d, results);
}
template <typename F, typename D, typename A, typename B> void binary(Warp &warp, const Code &code) {
  const A *a = warp.at<A>(code.a);
  const B *b = warp.at<B>(code.b);
  D results[warpSize];
  for (unsigned i = 0; i < warpSize; ++i)
    results[i] = F()(a[i], b[i]);
  store(warp, code.d, results);
}
template <typename F, typename D, typename A, typename B, typename C> void ternary(Warp &warp, const Code &code) {
  const A *a = warp.at<A>(code.a);
  const B *b = warp.at<B>(code.b);
  const C *c = warp.at<C>(code.c);
  D results[warpSize];
  for (unsigned i = 0; i < warpSize; ++i)
    results[i] = F()(a[i], b[i], c[i]);
  store(warp, code.d, results);
}
/// A predicate of two numbers.
template <typename F, typename A> void comparison(Warp &warp, const Code &code) {
  const A *a = warp.at<A>(code.a), *b = warp.at<A>(code.b);
  uint32_t results = 0;
  for (unsigned i = 0; i < warpSize; ++i)
    results |= (uint32_t)F()(a[i], b[i]) << i;
  storePredicate(warp, code.d, results);
}

using Names = std::initializer_list<std::string>;
/// The same for each lane: a result of type D from numbers of types S.
template <typename D, typename... S, typename F> void add(Table &table, Names names, F) {
  Run run;
  if constexpr (sizeof...(S) == 1)
    run = unary<F, D, S...>;
  else if constexpr (sizeof...(S) == 2)
    run = binary<F, D, S...>;
  else
    run = ternary<F, D, S...>;
  for (const std::string &name : names)
    table.insert_or_assign(name, Entry{run, {sizeof(D), sizeof(S)...}});
}
template <typename A, typename F> void addComparison(Table &table, const std::string &name, F) {
  table[name] = {comparison<F, A>, {0, sizeof(A), sizeof(A)}};
}

} // namespace divisi::test::ptx
