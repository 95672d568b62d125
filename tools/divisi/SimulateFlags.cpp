#include "divisi/SimulateFlags.h"

#include "divisi/suggest.h"
#include "runtime/main/NumberRange.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace divisi;
using namespace divisi::tools;
using namespace divisi::planning::pipeline;

constexpr const char *needed[] = {"--schedule", "--stages"};
/// Flags for pipelines that mean nothing for replicas.
constexpr const char *ofPipelines[] = {
    "--schedule",           "--stages",        "--microbatches", "--chunks",
    "--staleness",          "--skip",          "--forward-ms",   "--input-gradient-ms",
    "--weight-gradient-ms", "--activation-mb", "--state-mb",     "--message-mb"};

/// Sets a figure of all stages: one number for every device, one for each device, divided equally among its chunks, or
/// one for each stage. Returns an error text, or "".
static std::string spread(const ScheduleOptions &options, std::vector<StageCost> &stages, const char *flag,
                   const std::vector<double> &values, double unit, double StageCost::*figure) {
  size_t count = values.size(), devices = options.devices;
  if (count != 1 && count != devices && count != stages.size())
    return llvm::formatv("{0}: {1} numbers for {2} stages; give one, or one for each", flag, count, stages.size());
  if (count != stages.size())
    unit /= options.chunks;
  for (size_t s = 0; s < stages.size(); ++s) {
    double value = values[s % count];
    if (!(value >= 0 && value <= 1e12))
      return llvm::formatv("{0}: expects numbers from 0 to 1e12", flag);
    stages[s].*figure = value * unit;
  }
  return "";
}

std::string SimulateFlags::read(const CLI::App &command, ReplicaOptions &options) {
  for (const char *flag : ofPipelines)
    if (command.count(flag))
      return std::string(flag) + " is for pipelines, and --sync for replicas: leave out one of them";
  if (std::string wrong = replicas.read(command, options); !wrong.empty())
    return wrong;
  for (auto [flag, values, unit, figure] : {std::tuple("--update-ms", &update, 1e-3, &options.update),
                                            {"--allreduce-ms", &allReduce, 1e-3, &options.allReduce},
                                            {"--parameter-mb", &parameters, 1e6, &options.bytes}}) {
    if (values->size() != 1)
      return std::string(flag) + ": expects one number with --sync, since replicas are equal";
    *figure = values->front() * unit;
  }
  options.latency = transfer * 1e-3;
  if (bandwidth > 0)
    options.bandwidth = bandwidth * 1e9;
  options.overlap = !noOverlap;
  return "";
}

/// Adds PRODUCER:CONSUMER.
static bool addSkip(llvm::StringRef text, double bytes, std::vector<Edge> &edges) {
  auto [producer, consumer] = text.split(':');
  Edge edge{0, 0, bytes};
  if (producer.getAsInteger(10, edge.producer) || consumer.getAsInteger(10, edge.consumer))
    return false;
  edges.push_back(edge);
  return true;
}

std::string SimulateFlags::read(const CLI::App &command, SimulatedPipeline &pipeline) const {
  if (std::string flag = ReplicaFlags::first(command); !flag.empty())
    return flag + " is for replicas: give --sync, too";
  for (const char *flag : needed)
    if (!command.count(flag))
      return std::string(flag) +
             " is missing: a pipeline needs --schedule and --stages; replicas need --sync and --workers";
  auto kind = parseScheduleKind(schedule);
  if (!kind) {
    std::vector<std::string> list = scheduleKinds();
    llvm::SmallVector<llvm::StringRef> names(list.begin(), list.end());
    return "--schedule: expects one of " + scheduleKindNames() + "; got '" + schedule + "'" + didYouMean(schedule, names);
  }
  auto stale = parseStaleness(staleness);
  if (!stale)
    return "--staleness: expects one of " + stalenessNames() + "; got '" + staleness + "'";
  ScheduleOptions &options = pipeline.options;
  options = {*kind, stages, microbatches, chunks, *stale};
  if (options.doubleBuffered()) {
    constexpr int batches = 4;
    options.batch = microbatches;
    options.microbatches = batches * microbatches;
  }
  if (std::string wrong = options.invalid(); !wrong.empty())
    return wrong;
  pipeline.stages.resize(options.stages());
  std::string wrong;
  auto set = [&](const char *flag, const std::vector<double> &values, double unit, double StageCost::*figure) {
    if (wrong.empty())
      wrong = spread(options, pipeline.stages, flag, values, unit, figure);
  };
  set("--forward-ms", forward, 1e-3, &StageCost::forward);
  set("--input-gradient-ms", inputGradient, 1e-3, &StageCost::inputGradient);
  set("--weight-gradient-ms", weightGradient, 1e-3, &StageCost::weightGradient);
  set("--update-ms", update, 1e-3, &StageCost::update);
  set("--allreduce-ms", allReduce, 1e-3, &StageCost::allReduce);
  set("--activation-mb", activations, 1e6, &StageCost::activationBytes);
  set("--parameter-mb", parameters, 1e6, &StageCost::parameterBytes);
  set("--state-mb", state, 1e6, &StageCost::stateBytes);
  if (!wrong.empty())
    return wrong;
  pipeline.edges = chainEdges(options.stages(), message * 1e6);
  for (const std::string &text : skips)
    if (!addSkip(text, message * 1e6, pipeline.edges))
      return "--skip: expects PRODUCER:CONSUMER, two stages such as 0:3; got '" + text + "'";
  pipeline.network = uniformNetwork(transfer * 1e-3, bandwidth > 0 ? bandwidth * 1e9 : INFINITY);
  pipeline.network.overlap = !noOverlap;
  return "";
}

void SimulateFlags::addTo(CLI::App &command) {
  auto *what = command.add_option_group("Schedule");
  what->add_option("--schedule", schedule, scheduleKindNames());
  what->add_option("--stages", stages, "devices of the pipeline, one for each stage (--chunks: for several)")->check(CLI::Range(1, 65536));
  what->add_option("--microbatches", microbatches, "of a step; for pipedream, minibatches")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  what->add_option("--chunks", chunks,
                   "for interleaved: parts of the model on each device; they share its times")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  what->add_option("--staleness", staleness, "for pipedream: " + stalenessNames())->capture_default_str();
  what->add_option("--skip", skips,
                   "PRODUCER:CONSUMER: a value that leaps over stages, such as 0:3 (with chunks, parts of the model)")
      ->delimiter(',');
  auto list = [&](CLI::App *group, const char *name, std::vector<double> &values, const char *description) {
    group->add_option(name, values, description)->delimiter(',')->capture_default_str();
  };
  auto *costs = command.add_option_group(
      "Stages",
      "One number for all devices, or a list with one for each (or for each chunk, in the order of the model)");
  list(costs, "--forward-ms", forward, "of a microbatch");
  list(costs, "--input-gradient-ms", inputGradient, "of a microbatch");
  list(costs, "--weight-gradient-ms", weightGradient, "of a microbatch");
  list(costs, "--update-ms", update, "of the optimizer (--sync: of all parameters)");
  list(costs, "--allreduce-ms", allReduce,
       "of the gradients over a stage's replicas (--sync: what computation waits for)");
  list(costs, "--activation-mb", activations, "kept from a microbatch's forward to its backward");
  list(costs, "--parameter-mb", parameters, "of one version of the weights (--sync: of a message)");
  list(costs, "--state-mb", state, "gradients and optimizer state");
  replicas.addTo(command);
  auto *network = command.add_option_group("Network");
  auto range = runtime::numberBetween(0, 1e12);
  network->add_option("--transfer-ms", transfer, "of a message, whatever its size")
      ->capture_default_str()
      ->check(range);
  network->add_option("--message-mb", message, "between stages, of a microbatch")
      ->capture_default_str()
      ->check(range);
  network
      ->add_option("--bandwidth-gbs", bandwidth,
                   "GB/s of a link (default: no limit); a server's is shared by the workers")
      ->check(runtime::numberBetween(1e-9, 1e12));
  network->add_flag("--no-overlap", noOverlap,
                    "a device that sends computes nothing (--sync: nor one that receives)");
  auto *output = command.add_option_group("Output", "A table, unless --json");
  output->add_option("--svg", svg, "write a picture");
  output->add_option("--html", html, "write a page for a browser");
  output->add_option("--trace", trace, "write a trace for chrome://tracing or Perfetto");
  output->add_option("--title", title, "of the picture and the page");
  output->add_flag("--json", json, "machine-readable output");
  command.footer(
      "Examples:\n"
      "  divisi simulate --schedule 1f1b --stages 4 --microbatches 8 --html pipeline.html\n"
      "  divisi simulate --schedule interleaved --stages 4 --chunks 2 --microbatches 8 --transfer-ms 0.1\n"
      "  divisi simulate --schedule zb-h1 --stages 4 --microbatches 12 --forward-ms 1,1,1,1.5 --trace t.json\n"
      "  divisi simulate --schedule pipedream --stages 4 --microbatches 32 --staleness vertical-sync\n"
      "  divisi simulate --sync async-server --max-staleness 4 --workers 4 --steps 64 --straggler 3=1.5 --html "
      "replicas.html\n"
      "  divisi simulate --sync local --average-every 8 --workers 4 --compute-ms 20 --allreduce-ms 5 --jitter 0.3");
}
