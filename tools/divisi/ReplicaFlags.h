#pragma once
#include "divisi/SyncFlags.h"
#include "passes/Planning/Simulator/Replicas.h"

namespace divisi::tools {

/// The flags of `divisi simulate` for replicas that are kept in step.
struct ReplicaFlags {
  void addTo(CLI::App &command);
  /// Whether replicas are to be simulated: --sync.
  static bool given(const CLI::App &command);
  /// The first of the other flags that was given; "" if none was.
  static std::string first(const CLI::App &command);
  /// Sets what these flags say. Returns an error text, or "".
  std::string read(const CLI::App &command, planning::pipeline::ReplicaOptions &options);

private:
  SyncFlags sync;
  int workers = 0, steps = 64;
  std::vector<double> compute = {10}; // ms
  double average = 0;
  std::vector<std::string> stragglers;
  double jitter = 0;
  bool noLossSum = false;
  uint64_t seed = 0;
};

} // namespace divisi::tools
