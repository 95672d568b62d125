//===- TopK.cpp - the largest or smallest of each run ---------------------===//
#include "runtime/core/Context.h"
#include "runtime/core/Launch.h"

#include <bit>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <vector>

using namespace divisi::runtime;

namespace {
enum Kind { Float = 0, Signed = 1, Unsigned = 2 };

/// An integer with the same order as elements of type `kind` with these bits. NaN is the largest float; -0 equals 0.
template <typename Bits> uint64_t keyOf(Bits bits, int64_t kind) {
  constexpr int width = sizeof(Bits) * 8;
  constexpr Bits sign = Bits(Bits(1) << (width - 1));
  if (kind == Unsigned)
    return bits;
  if (kind == Signed)
    return Bits(bits ^ sign);
  if constexpr (width >= 32) {
    using Number = std::conditional_t<width == 64, double, float>;
    if (auto value = std::bit_cast<Number>(bits); value != value)
      return Bits(~Bits(0));
  }
  if (bits == sign)
    bits = 0;
  return Bits(bits & sign ? ~bits : bits | sign);
}

struct Entry {
  uint64_t key;
  int64_t index;
  bool operator<(const Entry &other) const { return key != other.key ? key < other.key : index < other.index; }
};

template <typename Bits> void topK(const DivisiContext *context, const DivisiTopK &p, void *const *buffers) {
  const auto *x = static_cast<const Bits *>(buffers[0]);
  auto *values = static_cast<Bits *>(buffers[1]);
  auto *indices = static_cast<int64_t *>(buffers[2]);
  int64_t grain = 4096 / std::max<int64_t>(p.extent, 1) + 1;
  forEachPiece(p.outer * p.inner, grain, context->threads, [&](int64_t begin, int64_t end) {
    static thread_local std::vector<Entry> run;
    run.resize(static_cast<size_t>(p.extent));
    for (int64_t r = begin; r < end; ++r) {
      const Bits *from = x + r / p.inner * p.extent * p.inner + r % p.inner;
      int64_t to = r / p.inner * p.k * p.inner + r % p.inner;
      for (int64_t i = 0; i < p.extent; ++i) {
        uint64_t key = keyOf(from[i * p.inner], p.kind);
        run[static_cast<size_t>(i)] = {p.largest ? ~key : key, i};
      }
      std::partial_sort(run.begin(), run.begin() + p.k, run.end());
      for (int64_t i = 0; i < p.k; ++i) {
        int64_t index = run[static_cast<size_t>(i)].index;
        values[to + i * p.inner] = from[index * p.inner];
        indices[to + i * p.inner] = index;
      }
    }
  });
}
} // namespace

void divisi_top_k(DivisiContext *context, const DivisiTopK *params, void *const *buffers) {
  guarded(context, "top-k", [&] {
    if (params->k < 0 || params->k > params->extent)
      throw std::runtime_error(concat("cannot take ", params->k, " of ", params->extent, " values"));
    if (context->accelerator)
      return context->accelerator->top_k(*params, buffers);
    switch (params->width) {
    case 1:
      return topK<uint8_t>(context, *params, buffers);
    case 2:
      return topK<uint16_t>(context, *params, buffers);
    case 4:
      return topK<uint32_t>(context, *params, buffers);
    case 8:
      return topK<uint64_t>(context, *params, buffers);
    default:
      throw std::runtime_error(concat("elements of ", params->width, " bytes are not supported"));
    }
  });
}
