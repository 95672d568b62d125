#pragma once
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace divisi::planning {

/// Stands between the names of a cut's nodes.
inline constexpr llvm::StringLiteral joinsCuts = " + ";

/// The stages of a pipeline, first to last.
struct FoundStages {
  /// Of each stage its first layer in the order of the profile; or, if layers of the stages alternate in this order, the
  /// layers "a + b" that begin the stage together with all that depend on them.
  std::vector<std::string> first;
  std::vector<int64_t> replicas;   ///< its devices

  /// Reads what `divisi plan --objective pipedream --json` has printed. The text may be anything; fails with one line if it
  /// is something else.
  static llvm::Expected<FoundStages> parse(llvm::StringRef text, llvm::StringRef file);
  /// The same from disk.
  static llvm::Expected<FoundStages> read(const std::string &file);
};

} // namespace divisi::planning
