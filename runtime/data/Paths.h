//===- Paths.h - patterns of files ------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_PATHS_H
#define DIVISI_RUNTIME_DATA_PATHS_H

#include "runtime/core/Status.h"

#include <vector>

namespace divisi::runtime {

/// The files that a path stands for: by name those that match its *, ? and [...], or in the order of its {000..123}.
/// A path without these, or of a file that exists, stands for itself.
Result<std::vector<std::string>> expandPattern(const std::string &path);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_PATHS_H
