#include "divisi/PipeDream.h"
#include "passes/Planning/Cost/Quantity.h"
#include "passes/Planning/Pipeline/PipeDreamReport.h"

#include "llvm/Support/FormatVariadic.h"

using namespace divisi;
using namespace divisi::planning;

namespace {

/// What the plan is for; nothing but an error if the flags do not say it.
std::optional<std::vector<PipeLevel>> levelsOf(const tools::PipeDreamFlags &flags, std::string &error) {
  if (!flags.cluster.empty()) {
    if (!flags.bandwidth.empty()) {
      error = "--bandwidth and --cluster exclude each other";
      return std::nullopt;
    }
    auto cluster = parseCluster(flags.cluster, thisMachine(), error);
    if (!cluster) {
      error = "--cluster: " + error;
      return std::nullopt;
    }
    auto levels = pipeLevels(*cluster, flags.devices ? flags.devices : cluster->devices(), error);
    if (!levels)
      error = "--devices: " + error;
    return levels;
  }
  if (flags.devices < 1 || flags.devices > Cluster::mostDevices || flags.bandwidth.empty()) {
    error = "--objective pipedream needs --cluster, or --devices (1 to " + std::to_string(Cluster::mostDevices) +
            ") and --bandwidth";
    return std::nullopt;
  }
  auto bandwidth = parseQuantity(flags.bandwidth, Unit::bytesPerSecond);
  if (!bandwidth || !inRange(Unit::bytesPerSecond, *bandwidth)) {
    error = "--bandwidth: expected " + expectation(Unit::bytesPerSecond).str();
    return std::nullopt;
  }
  return std::vector<PipeLevel>{{flags.devices, *bandwidth}};
}

} // namespace

int tools::planPipeDream(const PipeDreamFlags &flags) {
  auto fail = [](const std::string &message, int code) {
    llvm::errs() << "error: " << message << "\n";
    return code;
  };
  std::string error;
  auto levels = levelsOf(flags, error);
  if (!levels)
    return fail(error, 2);
  auto profile = readLayerProfile(flags.profile, error);
  if (!profile)
    return fail(error, 1);
  auto plan = planning::planPipeDream(*profile, *levels, error);
  if (!plan)
    return fail(flags.profile + ": " + error, 1);
  int64_t devices = 1;
  for (const PipeLevel &level : *levels)
    devices *= level.size;
  if (flags.json)
    llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(pipeDreamJson(*plan, *profile, devices))) << "\n";
  else
    printPipeDream(*plan, *profile, devices, llvm::outs());
  return 0;
}
