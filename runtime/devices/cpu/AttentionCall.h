//===- AttentionCall.h - attention by blocks of queries ---------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONCALL_H
#define DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONCALL_H

#include "runtime/core/Context.h"

#include <vector>

namespace divisi::runtime {

/// How divisi_attention or divisi_attention_grad computes one shape: the scores of some queries of one head at a time, which stay in
/// the caches. A head is a pair of a batch entry and a head, numbered batch-major: [0, batch * heads). Threads divide the blocks of all
/// heads among themselves, in the gradient the heads, whose blocks add to the same sums.
class AttentionCall : public CacheEntry {
public:
  /// Throws std::runtime_error for unsupported parameters.
  AttentionCall(AttentionKind kind, const DivisiAttention &params);

  /// `buffers` are listed in abi.h. Throws std::runtime_error.
  void run(DivisiContext *context, void *const *buffers);

private:
  /// Some queries, with the keys that are not masked for all of them, and their GEMMs.
  struct Block {
    int64_t rows, keys;
    DivisiGemm scores; ///< s = q k^T; dp = do v^T
    DivisiGemm values; ///< o = p v; dq = ds k
    DivisiGemm sums;   ///< dv += p^T do; dk += ds^T q
  };
  struct Operands;
  struct Memory;

  DivisiGemm dense(int64_t m, int64_t n, int64_t k) const;
  Block blockOf(int64_t first) const;
  const Block &blockAt(int64_t first) const;
  void gradientOfHead(DivisiContext *thread, const Operands &operands, const Memory &m, int64_t head) const;
  void forward(DivisiContext *thread, const Operands &operands, const Memory &m, int64_t head, int64_t first) const;
  void backward(DivisiContext *thread, const Operands &operands, const Memory &m, int64_t head, int64_t first) const;
  int64_t at(int64_t extent, int64_t head, int64_t row) const;
  const float *biasOf(const Operands &operands, int64_t head, int64_t query) const;
  /// The number of keys that are not masked for a query.
  int64_t kept(int64_t query) const { return p.causal ? std::min(p.keys, query + 1) : p.keys; }

  AttentionKind kind;
  DivisiAttention p;
  float scale;
  std::vector<Block> blocks; ///< without a causal mask: the first, and the last if it is smaller
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONCALL_H
