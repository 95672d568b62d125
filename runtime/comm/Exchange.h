//===- Exchange.h - interface of communication ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_EXCHANGE_H
#define DIVISI_RUNTIME_COMM_EXCHANGE_H

#include "divisi/abi.h"
#include "runtime/core/Status.h"

namespace divisi::runtime {

/// Collectives and messages of tasks: called by the services of abi.h. Buffers are addresses of the computing device. A
/// failure names the rank, the step and the collective or transfer.
class Exchange {
public:
  virtual ~Exchange() = default;
  virtual Status start(const DivisiCollective *params, void *const *buffers) = 0;
  virtual Status send(const DivisiTransfer &params, const void *data) = 0;
  virtual Status receive(const DivisiTransfer &params, void *data) = 0;
  virtual Status await(int64_t id) = 0;
  /// Runs a collective to its end before the first step, if that may be slow or allocate memory when it is first run.
  /// All ranks do it in the same order.
  virtual Status rehearse(const DivisiCollective *params, void *const *buffers) {
    (void)params, (void)buffers;
    return {};
  }
  /// Called before the first step: in a run of a function (with this number) a message is received `times` times from
  /// the rank that sends those of the current turn.
  virtual void expect(const DivisiTransfer &params, int64_t times, int function) {
    (void)params, (void)times, (void)function;
  }
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_EXCHANGE_H
