#include "divisi/PipeDream.h"
#include "passes/Planning/Cost/Quantity.h"
#include "passes/Planning/Pipeline/PipeDreamReport.h"

#include "llvm/Support/FormatVariadic.h"

using namespace divisi;
using namespace divisi::planning;

namespace {

/// Puts `what` in front of an error.
llvm::Error within(const char *what, llvm::Error error) {
  return llvm::createStringError(what + (": " + llvm::toString(std::move(error))));
}

/// The levels of the devices for which to plan; fails if the flags do not define them.
llvm::Expected<std::vector<PipeLevel>> levelsOf(const tools::PipeDreamFlags &flags) {
  if (!flags.cluster.empty()) {
    if (!flags.bandwidth.empty())
      return llvm::createStringError("--bandwidth and --cluster exclude each other");
    auto cluster = parseCluster(flags.cluster, thisMachine());
    if (!cluster)
      return within("--cluster", cluster.takeError());
    auto levels = pipeLevels(*cluster, flags.devices ? flags.devices : cluster->devices());
    if (!levels)
      return within("--devices", levels.takeError());
    return levels;
  }
  if (flags.devices < 1 || flags.devices > Cluster::mostDevices || flags.bandwidth.empty())
    return llvm::createStringError("--objective pipedream needs --cluster, or --devices (1 to " +
                                   std::to_string(Cluster::mostDevices) + ") and --bandwidth");
  auto bandwidth = parseQuantity(flags.bandwidth, Unit::bytesPerSecond);
  if (!bandwidth || !inRange(Unit::bytesPerSecond, *bandwidth))
    return llvm::createStringError("--bandwidth: expected " + expectation(Unit::bytesPerSecond).str());
  return std::vector<PipeLevel>{{flags.devices, *bandwidth}};
}

} // namespace

int tools::planPipeDream(const PipeDreamFlags &flags) {
  auto fail = [](const std::string &message, int code) {
    llvm::errs() << "error: " << message << "\n";
    return code;
  };
  auto levels = levelsOf(flags);
  if (!levels)
    return fail(llvm::toString(levels.takeError()), 2);
  auto profile = readLayerProfile(flags.profile);
  if (!profile)
    return fail(llvm::toString(profile.takeError()), 1);
  PipeDreamPlan plan =
      planning::planPipeDream(*profile, *levels, flags.cost == "code" ? PipeCost::code : PipeCost::paper);
  int64_t devices = 1;
  for (const PipeLevel &level : *levels)
    devices *= level.size;
  if (flags.json)
    llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(pipeDreamJson(plan, *profile, devices))) << "\n";
  else
    printPipeDream(plan, *profile, devices, llvm::outs());
  return 0;
}
