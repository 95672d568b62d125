// Of DeviceFlags: the mesh that flags give, and the devices of its stages.
#include "divisi/DeviceFlags.h"

#include "compiler/Report/Numbers.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Pipeline/StageFile.h"
#include "passes/Planning/Pipeline/StageMesh.h"
#include "passes/Planning/Strategy.h"

#include "llvm/ADT/StringExtras.h"

using namespace divisi;
using namespace divisi::tools;
using compiler::numbered;

/// The value of --round-robin that takes the numbers from --stages FILE.
static const std::string ofStages = "stages";

/// Sets what a file of stages says, as the flags --mesh, --stage-axes and --cut would.
std::string DeviceFlags::takeStages(const CLI::App &command) {
  for (const char *flag :
       {"--devices", "--strategy", "--cluster", "--mesh", "--stage-axes", "--cut", "--chunks", "--plan"})
    if (command.count(flag))
      return std::string("--stages FILE says which stages there are, and their devices: leave out ") + flag;
  if (!roundRobin.empty() && roundRobin != ofStages)
    return std::string("--stages FILE says how many devices each stage has: --round-robin ") + ofStages +
           " has them take minibatches in turn";
  auto found = planning::FoundStages::read(stages);
  if (!found)
    return "--stages: " + llvm::toString(found.takeError());
  microbatches.cuts.assign(found->first.begin() + 1, found->first.end());
  if (found->first.size() == 1) // nothing overlaps
    microbatches.schedule = compiler::MicrobatchOptions().schedule;
  else if (!command.count("--schedule"))
    microbatches.schedule = "pipedream";
  if (roundRobin == ofStages && found->replicas.size() == 1)
    return "--round-robin stages: " + stages + " has one stage, whose " + numbered(found->replicas[0], "device") +
           " share each batch: leave out --round-robin";
  if (roundRobin == ofStages) {
    plan.mesh = dist::stageAxis.str() + "=" + std::to_string(found->replicas.size());
    microbatches.replicas.assign(found->replicas.begin(), found->replicas.end());
    return "";
  }
  planning::StageMesh made = planning::meshOfStages(found->replicas);
  if (!planning::isReasonable(made.mesh))
    return "--stages: the stages' numbers of devices have too few factors in common: a mesh has at most 6 axes and "
           "4096 places, " +
           planning::nameOf(made.mesh) + " would have more; numbers that divide each other need few";
  plan.mesh = planning::nameOf(made.mesh);
  stageAxes = made.axes;
  return "";
}

/// Reads --round-robin.
std::string DeviceFlags::takeReplicas() {
  if (roundRobin.empty() || !microbatches.replicas.empty())
    return "";
  for (llvm::StringRef entry : llvm::split(roundRobin, ',')) {
    int64_t count;
    if (entry.trim().getAsInteger(10, count) || count < 1 || count > 4096)
      return "--round-robin " + roundRobin + ": expected the number of replicas of each stage, such as 2,1, or " +
             ofStages + " beside --stages FILE";
    microbatches.replicas.push_back(count);
  }
  if (microbatches.stages < 2)
    return "--round-robin is for pipelines: --mesh with an axis stage, or --stages FILE";
  return "";
}

/// Sets the mesh from --devices, --strategy and --mesh.
std::string DeviceFlags::chooseMesh() {
  const int64_t servers = sync.sync.servers;
  if (servers > 0 && plan.mesh.empty() && devices == 0)
    return sync.text() + " needs --devices N, which counts servers, or --mesh data=N";
  if (servers > 0 && plan.mesh.empty() && devices < servers + 2)
    return "--devices " + std::to_string(devices) + ": with " + numbered(servers, "server") + ", at least " + std::to_string(servers + 2) +
           ", of which two compute";
  if (plan.mesh.empty() && devices > 1)
    plan.mesh = (strategy == "operator"   ? "model="
                 : strategy == "pipeline" ? "stage="
                                          : "data=") +
                std::to_string(devices - servers);
  else if (!plan.mesh.empty() && !strategy.empty())
    return "--strategy " + strategy +
           " and --mesh exclude each other: the axis data splits the batch, the axis model the weights, the axis stage "
           "the nodes";
  if (plan.mesh.empty()) {
    if (!plan.pins.empty() || plan.zero || batchNormStats == "local" || (!strategy.empty() && !devices))
      return "--strategy, --pin, --zero and --batch-norm-stats need --devices N or --mesh AXIS=N,...";
    return "";
  }
  auto mesh = planning::parseMesh(plan.mesh);
  if (!mesh)
    return "--mesh: " + llvm::toString(mesh.takeError());
  if (std::string wrong = checkPins(); !wrong.empty())
    return wrong;
  auto data = mesh->find("data");
  if (batchNormStats == "local" && !data)
    return "--batch-norm-stats=local is about the axis data, which the mesh lacks";
  if (plan.zero && !data)
    return "--zero splits over the axis data, which the mesh lacks";
  const std::string given = plan.mesh;
  const int64_t ofServers = sync.sync.serverRanks(*mesh);
  int64_t all = mesh->devices();
  if (auto stage = mesh->find(dist::stageAxis)) { // not an axis of a stage's own mesh
    microbatches.stages = mesh->axes[*stage].size;
    if (!stageAxes.empty())
      microbatches.axes = dist::StageAxes::parse(stageAxes);
    if (std::string wrong = microbatches.axes.invalid(microbatches.stages, *mesh); !wrong.empty())
      return "--stage-axes " + stageAxes + ": " + wrong;
    mesh->axes.erase(mesh->axes.begin() + *stage);
    plan.mesh = planning::nameOf(*mesh);
  }
  if (std::string wrong = takeReplicas(); !wrong.empty())
    return wrong;
  if ((int64_t)microbatches.replicas.size() == microbatches.stages || !microbatches.axes.empty())
    all = microbatches.devices(*mesh);
  all += ofServers;
  microbatches.servedUpdate = servers > 0;
  if (std::string wrong = checkDevices(servers > 0 ? given + " and " + numbered(servers, "server") : given, all, devices); !wrong.empty())
    return wrong;
  if (mesh->devices() == 1)
    plan.mesh.clear();
  return "";
}

dist::Mesh DeviceFlags::meshOfStage() const {
  return plan.mesh.empty() ? dist::Mesh() : llvm::cantFail(planning::parseMesh(plan.mesh));
}
