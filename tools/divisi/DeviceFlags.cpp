#include "divisi/DeviceFlags.h"

#include "compiler/Report/Numbers.h"
#include "dialects/Dist/Dist.h"
#include "passes/Planning/Cost/Collectives.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Pipeline/StageFile.h"
#include "passes/Planning/Pipeline/StageMesh.h"
#include "passes/Planning/Search/Planner.h"
#include "passes/Planning/Simulator/Schedule.h"
#include "passes/Planning/Strategy.h"

#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace divisi;
using namespace divisi::tools;
using compiler::numbered;

/// The value of --round-robin that takes the numbers from --stages FILE.
static const std::string ofStages = "stages";

std::string tools::checkDevices(const std::string &mesh, int64_t ofMesh, int64_t devices) {
  if (!devices || ofMesh == devices)
    return "";
  return "--mesh " + mesh + " has " + numbered(ofMesh, "device") + ", but --devices says " + std::to_string(devices);
}

std::string DeviceFlags::checkPins() const {
  auto pins = planning::parsePins(plan.pins);
  return pins ? "" : "--pin " + llvm::toString(pins.takeError());
}

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
           " needs --strategy data or --mesh: a search plans for all-reduce, and does not choose other numbers";
  if (!strategy.empty() && strategy != "auto" && !onlyPipelines)
    return "--cluster is for --strategy auto, hybrid or pipeline, which ask what plans cost on it";
  if (onlyPipelines && (!plan.mesh.empty() || !plan.pins.empty()))
    return "--strategy " + strategy +
           " searches for a mesh: leave out --mesh and --pin, or write --mesh stage=N,... alone";
  if (plan.zero)
    return "--zero is for --strategy data or --mesh: a search chooses it by itself";
  if (batchNormStats == "local")
    return "--batch-norm-stats=local needs --strategy data or --mesh: a search does not choose other numbers";
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
  if (std::string wrong = checkDevices(given, all, devices); !wrong.empty())
    return wrong;
  if (mesh->devices() == 1)
    plan.mesh.clear();
  return "";
}

dist::Mesh DeviceFlags::meshOfStage() const {
  return plan.mesh.empty() ? dist::Mesh() : llvm::cantFail(planning::parseMesh(plan.mesh));
}

/// Whether --precision fp16 is given.
static bool isHalf(const CLI::App &command) {
  const CLI::Option *precision = command.get_option_no_throw("--precision");
  return precision && precision->count() && precision->as<std::string>() == "fp16";
}

/// What is wrong with a pipeline of double-buffered weights under these flags; else "".
static std::string whyNotDoubleBuffered(const CLI::App &command) {
  if (isHalf(command))
    return "--precision fp16 skips a step whose gradients overflow, and with --schedule pipedream-2bw no step has all "
           "gradients at once: take --precision bf16, or another schedule";
  return "";
}

/// Sets stages and microbatches.
std::string DeviceFlags::choosePipeline(const CLI::App &command) {
  microbatches.microbatches *= accumulate;
  mayAccumulate = !command.count("--microbatches") && accumulate == 1;
  if (batchNormStats == "microbatch" && (!pipelines || command.count("--microbatches")))
    return "--batch-norm-stats microbatch lets a search choose microbatches: --strategy pipeline or hybrid, without --microbatches";
  if (batchNormStats == "microbatch" && (request.asynchronous || microbatches.schedule == compiler::asynchronousSchedule))
    return "--batch-norm-stats microbatch is for microbatches, which asynchronous pipelines do not have: leave it out";
  if (pipelines) { // the search chooses what is not given
    if (plan.remat && *plan.remat > 0 && *plan.remat < std::numeric_limits<int64_t>::max())
      return "a search for pipelines computes nothing again, or all parts: --remat none, all or auto";
    if (plan.remat)
      request.remat = *plan.remat > 0;
    bool open = microbatches.microbatches == 0 || mayAccumulate;
    request.microbatches = open ? 0 : microbatches.microbatches;
    microbatches.microbatches = std::max<int64_t>(1, microbatches.microbatches);
    if (command.count("--schedule"))
      request.schedule = microbatches.schedule;
    for (const char *flag : {"--chunks", "--cut", "--staleness", "--stage-axes", "--round-robin"})
      if (command.count(flag))
        return std::string(flag) + " is for --mesh with an axis stage: a search chooses it by itself";
    if (microbatches.schedule == compiler::asynchronousSchedule && (request.microbatches || request.remat.value_or(false)))
      return "--schedule pipedream updates the weights with every batch and recomputes nothing: leave out --microbatches, "
             "--accumulate and --remat";
    request.asynchronous |= microbatches.schedule == compiler::asynchronousSchedule;
    return microbatches.schedule == compiler::doubleBufferedSchedule ? whyNotDoubleBuffered(command) : "";
  }
  if (!allowed.empty() && plan.cluster.empty())
    return "--allow asynchronous is for searches: --devices N, or --strategy auto, pipeline or hybrid";
  bool piped = microbatches.stages > 1;
  if (microbatches.microbatches == 0 && (!piped || microbatches.unsplit()))
    return "--microbatches auto is for pipelines: --strategy pipeline or hybrid, or --mesh with an axis stage "
           "(pipedream has none)";
  if (piped && plan.remat.value_or(0) > 0 && microbatches.unsplit())
    return "--remat is not for --schedule pipedream: what is recomputed might have other weights";
  if (piped) // segments are chosen when the stages are known
    microbatches.remat = std::min<int64_t>(std::exchange(plan.remat, 0).value_or(0), microbatches.allParts);
  if (!piped && command.count("--stage-axes"))
    return "--stage-axes is for --mesh with an axis stage of at least 2, and other axes that stages may lack";
  for (const char *flag : {"--schedule", "--staleness", "--chunks", "--cut", "--round-robin"})
    if (!piped && command.count(flag) && !command.count("--stages")) // of which there may be one
      return std::string(flag) + " is for pipelines: --strategy pipeline, or --mesh with an axis stage";
  if (microbatches.schedule == "interleaved" && !command.count("--chunks"))
    microbatches.chunks = 2;
  if (microbatches.chunks > 1 && microbatches.schedule != "interleaved")
    return "--chunks is for --schedule interleaved";
  microbatches.stages *= microbatches.chunks;
  if (!microbatches.cuts.empty() && (int64_t)microbatches.cuts.size() != microbatches.stages - 1)
    return "--cut names the first node of every stage but the first: " + numbered(microbatches.stages - 1, "cut") +
           " for " + std::to_string(microbatches.stages) + " stages, got " + std::to_string(microbatches.cuts.size());
  if (piped && !microbatches.unsplit() && microbatches.microbatches == 1 && !command.count("--microbatches"))
    return std::string("a pipeline needs --microbatches N (or --accumulate N): the batch is split into N microbatches that pass "
                       "through the stages one after the other") +
           (microbatches.doubleBuffered() ? "" : "; with --microbatches 1 stages wait for each other");
  if (microbatches.microbatches > 0) // else they are chosen later
    if (std::string wrong = microbatches.wrongReplicas(meshOfStage()); !wrong.empty())
      return "--round-robin " + roundRobin + ": " + wrong;
  if (command.count("--staleness") && !microbatches.unsplit())
    return "--staleness is for --schedule pipedream: in the others all microbatches of a step have the same weights";
  if (microbatches.doubleBuffered() && microbatches.microbatches > 0 && microbatches.microbatches < microbatches.stages)
    return "--schedule pipedream-2bw has two versions of the weights, which is enough for at least as many microbatches as "
           "stages: --microbatches " +
           std::to_string(microbatches.stages) + " or more, not " + std::to_string(microbatches.microbatches);
  if (microbatches.doubleBuffered() && !microbatches.replicas.empty())
    return "--round-robin is for naive, gpipe, 1f1b and pipedream: leave it out with --schedule pipedream-2bw";
  if (microbatches.unsplit() && microbatches.microbatches > 1)
    return "--schedule pipedream updates the weights with every batch: leave out --microbatches and --accumulate";
  if (microbatches.doubleBuffered())
    if (std::string wrong = whyNotDoubleBuffered(command); !wrong.empty())
      return wrong;
  return "";
}

/// Checks that replicas may be kept in step so under the other flags; servers split the update as ZeRO does.
std::string DeviceFlags::checkSync(const CLI::App &command) {
  if (!sync.given())
    return "";
  dist::Mesh mesh = meshOfStage();
  auto data = mesh.find(dist::replicaAxis);
  if (!data || mesh.axes[*data].size < 2)
    return sync.text() + " needs replicas: an axis data of at least 2 in --mesh, or --strategy data --devices N";
  if (sync.sync.servers > 0) {
    if (isHalf(command))
      return "--precision fp16: servers do not know which steps overflow; take --precision bf16, or --servers colocated";
  }
  if (sync.sync.mode == dist::Sync::Mode::server && sync.sync.servers == 0) {
    if (plan.zero)
      return "--zero: with --sync server the update is split over data already: leave out --zero, or --sync";
    plan.zero = 1;
  } else if (plan.zero)
    return "--zero splits the update over data, and with " + sync.text() +
           (sync.sync.servers > 0 ? " servers make it" : " every replica makes a whole one") + ": leave out --zero, or take --sync all-reduce";
  if (sync.sync.asynchronous && (microbatches.stages > 1 || mesh.axes.size() > 1))
    return "--asynchronous: replicas that gossip so have one device each: --mesh data=N alone, or leave out --asynchronous";
  if (!sync.sync.isApart() && sync.sync.servers == 0)
    return "";
  const std::string mode =
      sync.text() + (sync.sync.isApart() ? "" : " --servers N"); // colocated servers go with all pipelines
  if (!microbatches.axes.empty())
    return "--stage-axes gives stages different numbers of replicas: leave it out with " + mode;
  if (!microbatches.replicas.empty())
    return "--round-robin has replicas that take microbatches in turn: leave it out with " + mode;
  if (microbatches.asynchronous())
    return "--schedule " + microbatches.schedule + " has steps that overlap: take another schedule with " + mode;
  return "";
}

std::vector<int64_t> DeviceFlags::numbers() const {
  std::set<int64_t> once(counts.begin(), counts.end());
  return {once.begin(), once.end()};
}

std::string DeviceFlags::finish(const CLI::App &command) {
  if (std::string flag = SyncFlags::first(command); !plan.file.empty() && !flag.empty())
    return "--plan FILE has all decisions: leave out " + flag;
  if (std::string wrong = sync.finish(command); !wrong.empty())
    return wrong;
  if (command.count("--mesh") && plan.mesh.empty())
    return "--mesh is empty: expected AXIS=SIZE,..., such as data=2,model=4";
  if (command.count("--stage-axes") && stageAxes.empty())
    return "--stage-axes is empty: expected the axes of each stage, or none, such as data,none";
  if (batchNormStats == "microbatch" && !plan.file.empty())
    return "--plan FILE has all decisions: leave out --batch-norm-stats microbatch";
  if (command.count("--round-robin") && roundRobin.empty())
    return "--round-robin is empty: expected the number of replicas of each stage, such as 2,1";
  if (!plan.file.empty()) {
    if (!plan.mesh.empty() || !strategy.empty() || !cluster.empty() || !plan.pins.empty() || plan.zero || devices)
      return "--plan FILE has all decisions: leave out --devices, --cluster, --mesh, --strategy, --pin and --zero";
    for (const char *flag : {"--stages", "--remat", "--microbatches", "--accumulate", "--schedule", "--allow", "--staleness", "--chunks",
                             "--cut", "--stage-axes", "--round-robin"})
      if (command.count(flag))
        return "--plan FILE has all decisions: leave out " + std::string(flag);
    return "";
  }
  if (command.count("--stages"))
    if (std::string wrong = takeStages(command); !wrong.empty())
      return wrong;
  if (std::string wrong = chooseSearch(); !wrong.empty())
    return wrong;
  if (plan.cluster.empty())
    if (std::string wrong = chooseMesh(); !wrong.empty())
      return wrong;
  if (std::string wrong = choosePipeline(command); !wrong.empty())
    return wrong;
  if (sync.sync.isApart() && isHalf(command))
    return "--precision fp16 skips steps in which gradients overflow, and with " + sync.text() +
           " replicas would skip different ones: take --precision bf16";
  return checkSync(command);
}

/// Whether the text is a number of at most five digits.
static bool isCount(const std::string &text) {
  return !text.empty() && text.size() <= 5 && llvm::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// The flag --microbatches N|auto: 0 for auto.
static void addMicrobatches(CLI::App &group, int64_t &count, const std::string &help) {
  auto take = [&count](const std::string &text) { count = text == "auto" ? 0 : std::stoll(text); };
  auto check = [](const std::string &text) -> std::string {
    return text == "auto" || (isCount(text) && std::stoll(text) >= 1 && std::stoll(text) <= 65536)
               ? ""
               : "expected auto or a number from 1 to 65536, got '" + text + "'";
  };
  group.add_option_function<std::string>("--microbatches", take, help)
      ->type_name("N|auto")
      ->check(CLI::Validator(check, ""));
}

void tools::addNoCalibration(CLI::App &group, bool &flag) {
  group.add_flag("--no-calibration", flag,
                 "plan for cpu:N by rough figures of CPUs instead of measuring this machine, once, in about a second");
}

void tools::addRemat(CLI::App &group, std::optional<int64_t> &remat) {
  auto take = [&remat](const std::string &text) {
    remat = text == "auto"   ? std::nullopt
            : text == "none" ? std::optional<int64_t>(0)
            : text == "all"  ? std::optional(std::numeric_limits<int64_t>::max())
                             : std::optional<int64_t>(std::stoll(text));
  };
  auto check = [](const std::string &text) -> std::string {
    return isCount(text) || text == "auto" || text == "none" || text == "all"
               ? ""
               : "expected none, all, auto or a number of parts, got '" + text + "'";
  };
  group
      .add_option_function<std::string>("--remat", take,
                                        "segments of the forward pass that are recomputed in the backward pass "
                                        "(rematerialization): none, all, the N best, or auto "
                                        "(default): as many as a search for a --cluster finds necessary for its memory")
      ->type_name("none|all|N|auto")
      ->check(CLI::Validator(check, ""));
}

void DeviceFlags::addTo(CLI::App &command) {
  sync.addTo(command);
  auto *group = command.add_option_group("Devices");
  group
      ->add_option("--devices", counts,
                   "number of devices: one process each; several (2,3,4): the executable has a program for each number "
                   "of processes that it may be started as")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 4096));
  group
      ->add_option(
          "--strategy", strategy,
          "auto (default) searches for the fastest, data splits the batch, operator the weights, pipeline the nodes; "
          "hybrid searches for a pipeline whose stages may have several devices")
      ->check(CLI::IsMember({"auto", "data", "operator", "pipeline", "hybrid"}));
  group->add_option("--cluster", cluster,
                    "what auto plans for: cpu:4 (this machine, default), 8xh100, 2x8xh100, or a .toml file");
  group->add_option("--mesh", plan.mesh,
                    "a device mesh instead: data=2,model=4; the axis stage makes a pipeline: stage=2,data=2");
  group->add_option("--pin", plan.pins, "a sharding to keep: NAME=AXES,AXES,... such as fc1.weight=_,model")
      ->delimiter('\0');
  group
      ->add_option("--batch-norm-stats", batchNormStats,
                   "statistics of the batch on all devices (global, default) or on each alone (local: other numbers); "
                   "microbatch: a search for pipelines may use those of each microbatch")
      ->check(CLI::IsMember({"global", "local", "microbatch"}));
  group->add_option("--plan", plan.file, "a plan to follow, as --emit=plan writes it")->check(CLI::ExistingFile);
  group
      ->add_option("--zero", plan.zero,
                   "ZeRO: 1, 2 split the optimizer's state and update over data, 3 the parameters, too")
      ->check(CLI::Range(0, 3));
  addRemat(*group, plan.remat);
  addNoCalibration(*group, noCalibration);
  auto *time = command.add_option_group("Microbatches and pipelines");
  addMicrobatches(*time, microbatches.microbatches,
                  "parts of the batch that run one after the other and are summed; batch norm then uses the "
                  "statistics of each part; without it, a search accumulates gradients of as many as the memory needs; "
                  "auto, for pipelines: about four for each stage, or what a search finds");
  time->add_option("--accumulate", accumulate,
                   "gradients of N batches are accumulated into one step: multiplies a named batch dimension, and "
                   "--microbatches")
      ->check(CLI::Range(1, 65536));
  time->add_option("--schedule", microbatches.schedule,
                   "of a pipeline: 1f1b (default), naive, gpipe, interleaved or zb-h1; asynchronous ones do not "
                   "drain the pipeline: pipedream updates with every batch, pipedream-2bw with every batch in microbatches, "
                   "of gradients that are one version old")
      ->check(CLI::IsMember(planning::pipeline::scheduleKinds()));
  time->add_option("--allow", allowed, "asynchronous: a search may choose pipedream, which computes other numbers")
      ->check(CLI::IsMember({"asynchronous"}))
      ->each([this](const std::string &) { request.asynchronous = true; });
  time->add_option("--staleness", microbatches.staleness,
                   "weights of pipedream: stashed (default: the backward pass has those of the forward pass), "
                   "vertical-sync (all stages have "
                   "those of the same step), latest, or predicted (moved on by the momentum)")
      ->check(CLI::IsMember({"stashed", "vertical-sync", "latest", "predicted"}));
  time->add_option("--chunks", microbatches.chunks, "stages of a device, for --schedule interleaved (default 2)")
      ->check(CLI::Range(1, 64));
  time->add_option("--cut", microbatches.cuts,
                   "the node that begins stage 1, 2, ... in the order of the model, or several, such as 'a + b', with all that "
                   "depends on them (repeatable); without it stages take equally long")
      ->delimiter('\0');
  time->add_option(
          "--stages", stages,
          "cuts and numbers of devices that divisi plan --objective pipedream --json has found, instead of --mesh, "
          "--cut and --stage-axes; the schedule is pipedream unless --schedule says another")
      ->type_name("FILE");
  time->add_option("--stage-axes", stageAxes,
                   "where stages have different numbers of devices: the axes of --mesh that each one has, such as "
                   "data,none for the 3 + 1 devices of stage=2,data=3")
      ->type_name("AXIS+AXIS|none,...");
  time->add_option("--round-robin", roundRobin,
                   "the number of replicas of each stage that take whole microbatches in turn (1F1B-RR), such as 2,1 "
                   "for 3 devices "
                   "of stage=2: no batch need divide by them; stages: the numbers of --stages FILE")
      ->type_name("N,...|stages");
}
