//===- Ranges.h - named ranges for profilers --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_RANGES_H
#define DIVISI_RUNTIME_CORE_RANGES_H

#include "runtime/core/Manifest.h"
#include "runtime/core/Nvtx.h"

namespace divisi::runtime {

/// Names ranges for the tool of `nvtx::attach`: the tasks of a rank, and within each task its calls.
class Ranges {
public:
  /// Of one rank's manifest.
  explicit Ranges(const Manifest &manifest);

  /// Begins a task, with its name and microbatch.
  void begin(const Row &row);
  /// Begins the next call of the task, with the name of its layer; a call that the manifest does not list is named
  /// `service`.
  void begin(const char *service);
  /// The next call is not in the manifest.
  void expectUnlisted() { unlisted = true; }

private:
  const Manifest &manifest;
  bool microbatches;
  std::vector<size_t> first; ///< by task: its first call
  int64_t task = 0;          ///< the current task
  size_t next = 0;           ///< the next call
  bool unlisted = false;
};

/// A range for its own lifetime; without `ranges` it does nothing.
class Range {
public:
  template <typename What> Range(Ranges *ranges, const What &what) : open(ranges != nullptr) {
    if (open)
      ranges->begin(what);
  }
  ~Range() {
    if (open)
      nvtx::pop();
  }
  Range(const Range &) = delete;
  Range &operator=(const Range &) = delete;

private:
  bool open;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_RANGES_H
