//===- AttentionCall.h - attention, one head at a time ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONCALL_H
#define DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONCALL_H

#include "runtime/core/Accelerator.h"

#include <cstddef>
#include <cstdint>

namespace divisi::runtime {

/// One call of divisi_attention or divisi_attention_grad. A head is a pair of a batch entry and a head, numbered
/// batch-major: [0, batch * heads). Different heads write different elements, so that threads can share a call.
class AttentionCall {
public:
  /// `buffers` are listed in abi.h. Throws std::runtime_error for unsupported parameters.
  AttentionCall(AttentionKind kind, const DivisiAttention &params, void *const *buffers);

  /// Bytes of scratch memory for each thread: k and v of one head in F32, and the scores of some queries.
  size_t scratchBytes() const;
  /// Computes one head. `scratch` has the alignment Scratch::alignment.
  void run(int64_t head, char *scratch) const;

private:
  struct Matrix;
  struct Memory;
  struct Block;

  int64_t at(int64_t extent, int64_t head, int64_t row) const;
  void load(const uint16_t *x, int64_t extent, int64_t head, int64_t first, Matrix to) const;
  void store(Matrix from, uint16_t *x, int64_t extent, int64_t head, int64_t first) const;
  void score(const Memory &m, const Block &block) const;
  void forward(const Memory &m, const Block &block) const;
  void backward(const Memory &m, const Block &block) const;

  AttentionKind kind;
  const DivisiAttention &p;
  float scale;
  const uint16_t *q, *k, *v, *grad = nullptr;
  const float *bias;
  uint16_t *o, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  float *stats;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONCALL_H
