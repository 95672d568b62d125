#include "divisi/DeviceFlags.h"

#include "compiler/Report/Numbers.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Simulator/Schedule.h"
#include "passes/Planning/Strategy.h"

#include <set>

using namespace divisi;
using namespace divisi::tools;
using compiler::numbered;

std::string tools::checkDevices(const std::string &mesh, int64_t ofMesh, int64_t devices) {
  if (!devices || ofMesh == devices)
    return "";
  return "--mesh " + mesh + " has " + numbered(ofMesh, "device") + ", but --devices says " + std::to_string(devices);
}

std::string DeviceFlags::checkPins() const {
  auto pins = planning::parsePins(plan.pins);
  return pins ? "" : "--pin " + llvm::toString(pins.takeError());
}

std::vector<int64_t> DeviceFlags::numbers() const {
  std::set<int64_t> once(counts.begin(), counts.end());
  return {once.begin(), once.end()};
}

void DeviceFlags::follow(const dist::Sync &ofDump, const dist::Mesh &mesh) {
  sync.ofDump = ofDump;
  if (plan.mesh.empty() && plan.file.empty() && counts.empty() && strategy.empty() && cluster.empty() && stages.empty())
    plan.mesh = planning::nameOf(mesh);
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
    return text == "auto" || (isCount(text) && std::stoll(text) >= 1 && std::stoll(text) <= compiler::MicrobatchOptions::most)
               ? ""
               : "expected auto or a number from 1 to 65536, got '" + text + "'";
  };
  group.add_option_function<std::string>("--microbatches", take, help)
      ->type_name("N|auto")
      ->check(CLI::Validator(check, ""));
}

void tools::addNoCalibration(CLI::App &group, bool &flag) {
  group.add_flag("--no-calibration", flag,
                 "plan for cpu:N by rough figures of CPUs instead of measuring this machine (once, in less than two seconds)");
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
               : "expected none, all, auto or a number of segments, got '" + text + "'";
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
                   "statistics of the batch on all devices (global, default) or on each alone (local: the losses differ); "
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
  time->add_option("--allow", allowed, "asynchronous: a search may choose pipedream, whose losses differ")
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
