//===- LocalJob.h - jobs of this host ----------------------------*- C++ -*-===//
#ifndef DIVISI_TOOLS_DIVISI_LOCALJOB_H
#define DIVISI_TOOLS_DIVISI_LOCALJOB_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace divisi::tools {

/// What `divisi run` is asked for by --min-devices and the flags beside it, and by --restarts.
struct LocalJobRequest {
  std::optional<int64_t> least, most, growAfter; // ranks, ranks, seconds
  std::optional<int64_t> restarts;               // after which it does not go on; nothing: as long as enough are left
  /// By the number of ranks of a program: the ranks below this one, but for the first, may be lost while the others go on.
  std::map<int64_t, int64_t> spared;

  bool isElastic() const { return least || most || growAfter; }
};

/// Runs a program, which has its arguments behind it, that is for each of the `sizes`, ascending, on this host. If the
/// request has no bounds, there is one size, and all ranks are started again when one is lost, without --restarts never.
/// Returns the exit code.
int runLocalJob(const LocalJobRequest &request, std::vector<std::string> words, const std::vector<int64_t> &sizes);

} // namespace divisi::tools

#endif // DIVISI_TOOLS_DIVISI_LOCALJOB_H
