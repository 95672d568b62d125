// Of DeviceFlags: whether a search chooses the plan.
#include "divisi/DeviceFlags.h"

#include "compiler/Report/Numbers.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Strategy.h"

using namespace divisi;
using namespace divisi::tools;
using compiler::numbered;

/// Decides whether a search chooses the plan: with --strategy auto, which is the default for --devices and --cluster.
std::string DeviceFlags::chooseSearch() {
  bool onlyPipelines = strategy == "hybrid" || (strategy == "pipeline" && microbatches.cuts.empty());
  bool wanted = strategy == "auto" || onlyPipelines || !cluster.empty() ||
                (strategy.empty() && plan.mesh.empty() && !plan.zero && devices > 1 && batchNormStats == "global" &&
                 !sync.given());
  if (!wanted)
    return "";
  if (sync.given())
    return sync.text() +
           " needs --strategy data, or --mesh without a search (--cluster, --strategy auto): a search plans for all-reduce, and does not "
           "choose other numbers";
  if (!strategy.empty() && strategy != "auto" && !onlyPipelines)
    return "--cluster is for --strategy auto, hybrid or pipeline, which ask what plans cost on it";
  if (onlyPipelines && (!plan.mesh.empty() || !plan.pins.empty()))
    return "--strategy " + strategy +
           " searches for a mesh: leave out --mesh and --pin, or write --mesh stage=N,... alone";
  if (plan.zero)
    return "--zero is for --strategy data, or for --mesh without a search (--cluster, --strategy auto), which chooses it by itself";
  if (batchNormStats == "local")
    return "--batch-norm-stats=local needs --strategy data, or --mesh without a search (--cluster, --strategy auto), which does not choose other numbers";
  std::optional<dist::Mesh> mesh;
  if (!plan.mesh.empty()) {
    auto parsed = planning::parseMesh(plan.mesh);
    if (!parsed)
      return "--mesh: " + llvm::toString(parsed.takeError());
    mesh = std::move(*parsed);
  }
  if (mesh && mesh->find(dist::stageAxis))
    return "--mesh with an axis stage is not searched: leave out --cluster and --strategy auto, or take --strategy "
           "hybrid without --mesh";
  if (cluster.empty() && !devices && !mesh)
    return "--strategy " + (strategy.empty() ? "auto" : strategy) + " needs --devices N, --cluster or --mesh";
  bool given = !cluster.empty();
  if (!given)
    cluster = "cpu:" + std::to_string(mesh ? mesh->devices() : devices);
  auto known = planning::parseCluster(cluster, planning::thisMachine());
  if (!known)
    return "--cluster: " + llvm::toString(known.takeError());
  if (!known->device.programs)
    return "--cluster " + cluster +
           ": programs are written for CPUs and NVIDIA's GPUs; divisi plan and divisi explain "
           "say what a plan would cost on " +
           known->device.name;
  int64_t wants = mesh ? mesh->devices() : devices ? devices : known->devices();
  if (std::string wrong = checkDevices(plan.mesh, wants, devices); !wrong.empty())
    return wrong;
  if (wants > known->devices())
    return "--cluster " + cluster + " has " + numbered(known->devices(), "device") + ", " + std::to_string(wants) +
           " are asked for";
  if (std::string wrong = checkPins(); !wrong.empty())
    return wrong;
  if (onlyPipelines && wants < 2)
    return "--strategy " + strategy + " needs at least 2 devices";
  if (wants > 1 || (given && !mesh)) { // one device of a cluster may need rematerialization
    plan.cluster = cluster;
    plan.devices = wants;
    pipelines = onlyPipelines;
    request.devices = wants;
    request.stages = strategy == "pipeline" ? wants : 0;
  }
  return "";
}
