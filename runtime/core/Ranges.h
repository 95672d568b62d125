//===- Ranges.h - tasks and calls under the model's names -------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_RANGES_H
#define DIVISI_RUNTIME_CORE_RANGES_H

#include "runtime/core/Manifest.h"
#include "runtime/core/Nvtx.h"

namespace divisi::runtime {

/// Names ranges for the tool of `nvtx::attach`: what a rank runs, and within each task the calls that it makes.
class Ranges {
public:
  /// Of one rank's manifest.
  explicit Ranges(const Manifest &manifest);

  /// A run of a task, under its name and microbatch.
  void begin(const Row &row);
  /// The next call of the task, under the name of its layer; of one that the manifest does not list: `service`.
  void begin(const char *service);
  /// The manifest does not list the next call.
  void expectUnlisted() { unlisted = true; }

private:
  const Manifest &manifest;
  bool microbatches;
  std::vector<size_t> first; ///< by task: its first call
  int64_t task = 0;          ///< that runs
  size_t next = 0;           ///< call
  bool unlisted = false;
};

/// A range while it lives; nothing if nobody wants ranges.
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
