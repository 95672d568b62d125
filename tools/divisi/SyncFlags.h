#pragma once
#include "dialects/Dist/Sync.h"

#include <CLI/CLI.hpp>

namespace divisi::tools {

/// The flags of `divisi compile` for how replicas are kept in step.
struct SyncFlags {
  dist::Sync sync;
  std::optional<dist::Sync> ofDump; // what the dump that is compiled says: flags may say the same

  void addTo(CLI::App &command);
  /// Completes `sync` from the given flags. Returns an error text, or "".
  std::string finish(const CLI::App &command);
  /// The first of these flags that was given, and changes what is computed; "" if none was.
  static std::string first(const CLI::App &command);
  bool given() const { return sync.mode != dist::Sync::Mode::allReduce; }
  /// "--sync local", for messages.
  std::string text() const { return textOf(sync); }
  static std::string textOf(const dist::Sync &sync) { return "--sync " + dist::Sync::nameOf(sync.mode).str(); }

private:
  std::string complete(const CLI::App &command);

  std::string mode = "all-reduce", outer = "mean", topology = "ring", servers, staleness;
};

} // namespace divisi::tools
