//===- Staging.h - communication of an accelerator --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_STAGING_H
#define DIVISI_RUNTIME_COMM_STAGING_H

#include "runtime/comm/Communicator.h"
#include "runtime/core/Accelerator.h"

namespace divisi::runtime {

/// Copies operands of collectives and messages from an accelerator's arena to this processor's arena, where the
/// communicator reads them, and copies results back when they are awaited. Both arenas have the same layout.
class Staging : public Exchange {
public:
  Staging(Communicator &ranks, Accelerator &device, char *arena) : ranks(ranks), device(device), host(arena) {}

  Status start(const DivisiCollective *params, void *const *buffers) override;
  Status send(const DivisiTransfer &params, const void *data) override;
  Status receive(const DivisiTransfer &params, void *data) override;
  Status await(int64_t id) override;

private:
  struct Piece {
    uint64_t offset;
    size_t bytes;
  };
  uint64_t offsetOf(const void *address) const;
  /// Copies to this processor's arena; returns the place there.
  char *fetch(const void *address, size_t bytes);

  Communicator &ranks;
  Accelerator &device;
  char *host;
  std::map<int64_t, std::vector<Piece>> arriving; ///< by id: results to copy back
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_STAGING_H
