//===- LocalRanks.h - the processes of a job on this host -------*- C++ -*-===//
#ifndef DIVISI_TOOLS_DIVISI_LOCALRANKS_H
#define DIVISI_TOOLS_DIVISI_LOCALRANKS_H

#include "compiler/Elastic.h"

#include <csignal>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace divisi::tools {

/// Starts the ranks of a program on this host without another launcher: they meet over TCP. While the object exists,
/// signals that end a process wait for `run`, which forwards them to the ranks. The ranks end with this process.
class LocalRanks {
public:
  LocalRanks();
  ~LocalRanks();
  LocalRanks(const LocalRanks &) = delete;
  LocalRanks &operator=(const LocalRanks &) = delete;

  /// How the ranks have ended.
  struct Outcome {
    std::vector<compiler::RankEnd> ends;
    int code = 0;            // of the job, if it ends now
    bool wasAsked = false;   // to end, by a signal
    bool wasStopped = false; // after `stopAfter`
  };

  /// Ranks that may be lost while the others go on: those from 1 up to, not including, `end`, as long as `least` ranks
  /// are left.
  struct Spared {
    int64_t end = 0, least = 0;
    std::optional<int64_t> replaceAfter; // seconds after which another one is started; nothing: none is
    std::optional<int64_t> most;         // how often; nothing: always
  };

  /// Runs the program with its arguments as `ranks` ranks until all have ended. After `stopAfter` seconds they are told
  /// to stop, with a checkpoint. When one has failed that is not spared, the others have a few seconds to end.
  Outcome run(const std::vector<std::string> &words, int64_t ranks, std::optional<int64_t> stopAfter,
              const Spared &spared);

private:
  struct Rank;

  sigset_t awaited = {}, before = {};
};

} // namespace divisi::tools

#endif // DIVISI_TOOLS_DIVISI_LOCALRANKS_H
