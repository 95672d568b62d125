// Of DeviceFlags: stages, microbatches and schedules, and how replicas are kept in step under them.
#include "divisi/DeviceFlags.h"

#include "compiler/Report/Numbers.h"

using namespace divisi;
using namespace divisi::tools;
using compiler::numbered;

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
      return "a search for pipelines recomputes no segments, or all: --remat none, all or auto";
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
  if (sync.sync.isApart() && isHalf(command))
    return "--precision fp16 skips steps in which gradients overflow, and with " + sync.text() +
           " replicas would skip different ones: take --precision bf16";
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
