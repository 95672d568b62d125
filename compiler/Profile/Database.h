#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace divisi::compiler {

/// The setting of a run: the number of ranks that share the machine, and the threads of each. The times of calls depend
/// on both.
struct RunSetting {
  int64_t ranks = 1, threads = 1;
  std::string text() const { return "ranks " + std::to_string(ranks) + " threads " + std::to_string(threads) + ": "; }
  bool operator==(const RunSetting &) const = default;
};

/// The key of the time in which a step loads its batch of `inputBytes`.
inline std::string feedKey(int64_t inputBytes) { return "feed " + std::to_string(inputBytes); }

/// Measured times of kernels, library calls and collectives, by what they compute and the setting. A JSON file:
/// {"divisi_profile": 1, "microseconds": {"ranks 2 threads 1: gemm 1 1 ...": [12.3, 11.9], ...}}. The last five
/// measurements of each are kept, and their median is used, because machines have slow minutes.
class ProfileDatabase {
public:
  /// An empty database if there is no file; an error if it cannot be read as one.
  static llvm::Expected<ProfileDatabase> read(const std::string &file);
  /// Writes the file atomically.
  llvm::Error write(const std::string &file) const;
  /// $DIVISI_PROFILE, or profile.json in the user's cache folder (XDG_CACHE_HOME/divisi).
  static std::string defaultFile();

  /// Adds the measurements that a program's --profile wrote.
  llvm::Error fold(const std::string &runFile);

  std::optional<double> microseconds(const RunSetting &setting, llvm::StringRef key) const;
  /// The settings that times are of, each once.
  std::vector<RunSetting> settings() const;
  bool empty() const { return entries.empty(); }
  size_t size() const { return entries.size(); }

private:
  static constexpr size_t kept = 5;
  std::map<std::string, std::vector<double>> entries; // oldest first
};

} // namespace divisi::compiler
