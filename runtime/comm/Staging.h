//===- Staging.h - an accelerator's data on its way to other ranks -*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_STAGING_H
#define DIVISI_RUNTIME_COMM_STAGING_H

#include "runtime/comm/Communicator.h"
#include "runtime/core/Accelerator.h"

namespace divisi::runtime {

/// Carries operands of collectives and messages from an accelerator's arena to this processor's, where the communicator
/// reads them, and results back when they are awaited. Both arenas are laid out alike.
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
  /// Where it lies in this processor's arena.
  char *fetch(const void *address, size_t bytes);

  Communicator &ranks;
  Accelerator &device;
  char *host;
  std::map<int64_t, std::vector<Piece>> arriving; ///< by id: what is to be brought back
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_STAGING_H
