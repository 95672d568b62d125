//===- Context.h - shared state of services ---------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_CONTEXT_H
#define DIVISI_RUNTIME_CORE_CONTEXT_H

#include "divisi/abi.h"
#include "runtime/core/Accelerator.h"
#include "runtime/core/Ranges.h"
#include "runtime/core/Recorder.h"
#include "runtime/core/Scratch.h"
#include "runtime/core/Status.h"
#include "runtime/core/Teamwork.h"

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <utility>

namespace divisi::runtime {

class Exchange;

/// What a service caches for one parameter block.
struct CacheEntry {
  virtual ~CacheEntry() = default;
};

/// Sets the size of the OpenMP pool; `threads` < 1 stands for OMP_NUM_THREADS or the number of cores that this process
/// may use. Returns the size, which is smaller where OpenMP grants fewer.
int configureThreads(int threads);

} // namespace divisi::runtime

/// Tasks run one after another on one thread; only that thread uses the context.
struct DivisiContext {
  explicit DivisiContext(int threads) : threads(threads) {}

  bool failed() const { return !error.ok(); }
  /// Records a failure; only the first one is kept.
  void fail(std::string message) {
    if (!failed())
      error = divisi::runtime::Status::failure(std::move(message));
  }

  /// Forgets what is known of calls by their addresses, whose code is freed.
  void forgetCalls() { cache.clear(); }

  int threads;
  /// A member of a team computes with it, whatever the number of members.
  bool isMember = false;
  uint32_t wants = 0; ///< bits of DivisiWhen
  divisi::runtime::Status error;
  divisi::runtime::Scratch scratch;
  /// Keyed by the kind of service and the address of its parameter block.
  std::map<std::pair<int, const void *>, std::unique_ptr<divisi::runtime::CacheEntry>> cache;
  /// Of the task that runs (SmallWork.h).
  divisi::runtime::SmallCalls smallCalls = divisi::runtime::SmallCalls::byChoice;
  /// Set by the first GEMM, when the BLAS library has been told the number of threads.
  bool blasReady = false;
  /// Runs collectives and transfers; null in a program for one device. Not owned.
  divisi::runtime::Exchange *exchange = nullptr;
  /// Computes instead of this processor; null: none. Not owned.
  divisi::runtime::Accelerator *accelerator = nullptr;
  /// Records the times of a task's calls; null: none. Not owned.
  divisi::runtime::Recorder *recorder = nullptr;
  /// Names a task's calls for a profiler; null: none. Not owned.
  divisi::runtime::Ranges *ranges = nullptr;
};

namespace divisi::runtime {

/// Shows one call to the recorder and the profiler during its lifetime.
class ObservedCall {
public:
  ObservedCall(const DivisiContext *context, const char *service)
      : range(context->ranges, service), recorded(context->recorder) {}

private:
  Range range;
  RecordedCall recorded;
};

/// Runs the body of a service: not after an earlier failure; exceptions become failures.
template <typename Body> void guarded(DivisiContext *context, const char *service, Body body) {
  if (context->failed())
    return;
  ObservedCall observed(context, service);
  try {
    body();
  } catch (const std::exception &e) {
    context->fail(concat(service, ": ", e.what()));
  } catch (...) {
    context->fail(concat(service, ": unknown failure"));
  }
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_CONTEXT_H
