#pragma once
#include <cstdint>
#include <string>

namespace divisi::tools {

/// divisi plan --profile FILE --objective pipedream
struct PipeDreamFlags {
  std::string profile;   // the path of a layer profile
  std::string cost;      // paper or code
  std::string bandwidth; // between any two devices: "1.25GB/s", "10Gb/s"; empty: that of the cluster
  std::string cluster;   // as --cluster; empty: one level of `devices`
  int64_t devices = 0;   // 0: all devices of the cluster
  bool json = false;
};

/// Prints the plan. Returns the exit code: 0; 1 for a profile that cannot be planned; 2 for wrong flags. Errors are
/// printed.
int planPipeDream(const PipeDreamFlags &flags);

} // namespace divisi::tools
