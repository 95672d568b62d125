#pragma once
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace divisi::planning {

/// The stages of a pipeline, first to last.
struct FoundStages {
  std::vector<std::string> first;  ///< of each stage the name of its first layer, in the order of the profile
  std::vector<int64_t> replicas;   ///< its devices

  /// Reads what `divisi plan --objective pipedream --json` has printed. The text may be anything; fails with one line if it
  /// is something else, or if the layers of two stages alternate in the profile's order: a model is cut in that order.
  static llvm::Expected<FoundStages> parse(llvm::StringRef text, llvm::StringRef file);
  /// The same from disk.
  static llvm::Expected<FoundStages> read(const std::string &file);
};

} // namespace divisi::planning
