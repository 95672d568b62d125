//===- Exchange.h - how the values of tasks travel between ranks -*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_EXCHANGE_H
#define DIVISI_RUNTIME_COMM_EXCHANGE_H

#include "divisi/abi.h"
#include "runtime/core/Status.h"

namespace divisi::runtime {

/// Collectives and messages as tasks ask for them: what the services of abi.h call. Buffers are addresses of the device
/// that computes. A failure names the rank, the step and the collective or transfer.
class Exchange {
public:
  virtual ~Exchange() = default;
  virtual Status start(const DivisiCollective *params, void *const *buffers) = 0;
  virtual Status send(const DivisiTransfer &params, const void *data) = 0;
  virtual Status receive(const DivisiTransfer &params, void *data) = 0;
  virtual Status await(int64_t id) = 0;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_EXCHANGE_H
