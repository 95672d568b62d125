//===- Elastic.h - jobs whose number of ranks changes -----------*- C++ -*-===//
#ifndef DIVISI_TOOLS_DIVISI_ELASTIC_H
#define DIVISI_TOOLS_DIVISI_ELASTIC_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace divisi::tools {

/// What `divisi run --min-devices` and the flags beside it ask for.
struct ElasticRequest {
  std::optional<int64_t> least, most, growAfter; // ranks, ranks, seconds
  std::optional<int64_t> restarts;               // after which it does not go on; nothing: as long as enough are left
  /// By the number of ranks of a program: the ranks below this one, but for the first, may be lost while the others go on.
  std::map<int64_t, int64_t> spared;

  bool isGiven() const { return least || most || growAfter; }
};

/// Runs a program, which has its arguments behind it, that is for each of the `sizes`, ascending. Returns the exit
/// code.
int runElastic(const ElasticRequest &request, std::vector<std::string> words, const std::vector<int64_t> &sizes);

} // namespace divisi::tools

#endif // DIVISI_TOOLS_DIVISI_ELASTIC_H
