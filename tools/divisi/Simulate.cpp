// divisi simulate: runs a pipeline schedule with given times of its stages, or replicas that are kept in step.
#include "divisi/Commands.h"
#include "divisi/Fail.h"
#include "divisi/Output.h"
#include "divisi/ReplicaFlags.h"
#include "divisi/suggest.h"
#include "passes/Planning/Simulator/Render.h"
#include "runtime/main/NumberRange.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace divisi;
using namespace divisi::tools;
using namespace divisi::planning::pipeline;

namespace {

struct SimulateFlags {
  std::string schedule, staleness = "stashed", title, svg, html, trace;
  int stages = 0, microbatches = 1, chunks = 1;
  std::vector<double> forward = {1}, inputGradient = {1}, weightGradient = {1}, update = {0}, allReduce = {0};
  std::vector<double> activations = {0}, parameters = {0}, state = {0}; // MB
  std::vector<std::string> skips;
  double transfer = 0, message = 0, bandwidth = 0; // ms, MB, GB/s
  bool noOverlap = false, json = false;
  ReplicaFlags replicas;
};

constexpr const char *needed[] = {"--schedule", "--stages"};
/// Flags for pipelines that mean nothing for replicas.
constexpr const char *ofPipelines[] = {
    "--schedule",           "--stages",        "--microbatches", "--chunks",
    "--staleness",          "--skip",          "--forward-ms",   "--input-gradient-ms",
    "--weight-gradient-ms", "--activation-mb", "--state-mb",     "--message-mb"};

/// Sets a figure of all stages: one number for every device, one for each device, divided equally among its chunks, or
/// one for each stage. Returns an error text, or "".
std::string spread(const ScheduleOptions &options, std::vector<StageCost> &stages, const char *flag,
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

class Simulating {
public:
  Simulating(SimulateFlags &flags, const CLI::App &command) : flags(flags), command(command) {}

  int run() { return ReplicaFlags::given(command) ? runReplicas() : runPipeline(); }

private:
  int runPipeline() {
    if (std::string wrong = read(); !wrong.empty())
      return fail(wrong, 2);
    auto simulation = simulate(options, edges, stages, network);
    if (!simulation)
      return fail(llvm::toString(simulation.takeError()), 2);
    Names names{flags.title, {}};
    if (names.title.empty())
      names.title = llvm::formatv("{0}: {1} stages, {2} {3}batches", nameOf(options.kind), options.stages(),
                                  options.microbatches, options.unsplit() ? "mini" : "micro")
                        .str();
    return show(report(*simulation, names), toJson(*simulation, names));
  }

  int runReplicas() {
    ReplicaOptions replicas;
    if (std::string wrong = read(replicas); !wrong.empty())
      return fail(wrong, 2);
    auto simulation = simulate(replicas);
    if (!simulation)
      return fail(llvm::toString(simulation.takeError()), 2);
    return show(report(*simulation, flags.title), toJson(*simulation));
  }

  int show(const Report &report, llvm::json::Object json) {
    for (auto [file, print] :
         {std::pair(&flags.svg, &printSwimlane), {&flags.html, &printPage}, {&flags.trace, &printTrace}}) {
      if (file->empty())
        continue;
      std::string wrong = tools::writeOutput(*file, [&](llvm::raw_ostream &out) { print(report, out); });
      if (!wrong.empty())
        return fail(wrong, 2);
    }
    if (flags.json)
      llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(json))) << "\n";
    else
      printTable(report, llvm::outs());
    return 0;
  }

  std::string read(ReplicaOptions &replicas) {
    for (const char *flag : ofPipelines)
      if (command.count(flag))
        return std::string(flag) + " is for pipelines, and --sync for replicas: leave out one of them";
    if (std::string wrong = flags.replicas.read(command, replicas); !wrong.empty())
      return wrong;
    for (auto [flag, values, unit, figure] : {std::tuple("--update-ms", &flags.update, 1e-3, &replicas.update),
                                              {"--allreduce-ms", &flags.allReduce, 1e-3, &replicas.allReduce},
                                              {"--parameter-mb", &flags.parameters, 1e6, &replicas.bytes}}) {
      if (values->size() != 1)
        return std::string(flag) + ": expects one number with --sync, since replicas are equal";
      *figure = values->front() * unit;
    }
    replicas.latency = flags.transfer * 1e-3;
    if (flags.bandwidth > 0)
      replicas.bandwidth = flags.bandwidth * 1e9;
    replicas.overlap = !flags.noOverlap;
    return "";
  }

  std::string read() {
    if (std::string flag = ReplicaFlags::first(command); !flag.empty())
      return flag + " is for replicas: give --sync, too";
    for (const char *flag : needed)
      if (!command.count(flag))
        return std::string(flag) +
               " is missing: a pipeline needs --schedule and --stages; replicas need --sync and --workers";
    auto kind = parseScheduleKind(flags.schedule);
    if (!kind) {
      std::vector<std::string> list = scheduleKinds();
      llvm::SmallVector<llvm::StringRef> names(list.begin(), list.end());
      return "--schedule: expects one of " + scheduleKindNames() + "; got '" + flags.schedule + "'" + didYouMean(flags.schedule, names);
    }
    auto staleness = parseStaleness(flags.staleness);
    if (!staleness)
      return "--staleness: expects one of " + stalenessNames() + "; got '" + flags.staleness + "'";
    options = {*kind, flags.stages, flags.microbatches, flags.chunks, *staleness};
    if (options.doubleBuffered()) {
      constexpr int batches = 4;
      options.batch = flags.microbatches;
      options.microbatches = batches * flags.microbatches;
    }
    if (std::string wrong = options.invalid(); !wrong.empty())
      return wrong;
    stages.resize(options.stages());
    std::string wrong;
    auto set = [&](const char *flag, const std::vector<double> &values, double unit, double StageCost::*figure) {
      if (wrong.empty())
        wrong = spread(options, stages, flag, values, unit, figure);
    };
    set("--forward-ms", flags.forward, 1e-3, &StageCost::forward);
    set("--input-gradient-ms", flags.inputGradient, 1e-3, &StageCost::inputGradient);
    set("--weight-gradient-ms", flags.weightGradient, 1e-3, &StageCost::weightGradient);
    set("--update-ms", flags.update, 1e-3, &StageCost::update);
    set("--allreduce-ms", flags.allReduce, 1e-3, &StageCost::allReduce);
    set("--activation-mb", flags.activations, 1e6, &StageCost::activationBytes);
    set("--parameter-mb", flags.parameters, 1e6, &StageCost::parameterBytes);
    set("--state-mb", flags.state, 1e6, &StageCost::stateBytes);
    if (!wrong.empty())
      return wrong;
    edges = chainEdges(options.stages(), flags.message * 1e6);
    for (const std::string &text : flags.skips)
      if (!addSkip(text))
        return "--skip: expects PRODUCER:CONSUMER, two stages such as 0:3; got '" + text + "'";
    network = uniformNetwork(flags.transfer * 1e-3, flags.bandwidth > 0 ? flags.bandwidth * 1e9 : INFINITY);
    network.overlap = !flags.noOverlap;
    return "";
  }

  bool addSkip(llvm::StringRef text) {
    auto [producer, consumer] = text.split(':');
    Edge edge{0, 0, flags.message * 1e6};
    if (producer.getAsInteger(10, edge.producer) || consumer.getAsInteger(10, edge.consumer))
      return false;
    edges.push_back(edge);
    return true;
  }

  SimulateFlags &flags;
  const CLI::App &command;
  ScheduleOptions options;
  std::vector<StageCost> stages;
  std::vector<Edge> edges;
  Network network;
};
} // namespace

void tools::addSimulate(CLI::App &app, int &exitCode) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App *command = app.add_subcommand(
      "simulate", "what a pipeline schedule, or replicas with a straggler, would do: time, a picture");
  auto *what = command->add_option_group("Schedule");
  what->add_option("--schedule", flags->schedule, scheduleKindNames());
  what->add_option("--stages", flags->stages, "devices in a row")->check(CLI::Range(1, 65536));
  what->add_option("--microbatches", flags->microbatches, "of a step; for pipedream, minibatches")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  what->add_option("--chunks", flags->chunks,
                   "for interleaved: parts of the model on each device; they share its times")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  what->add_option("--staleness", flags->staleness, "for pipedream: " + stalenessNames())->capture_default_str();
  what->add_option("--skip", flags->skips,
                   "PRODUCER:CONSUMER: a value that leaps over stages, such as 0:3 (with chunks, parts of the model)")
      ->delimiter(',');
  auto list = [&](CLI::App *group, const char *name, std::vector<double> &values, const char *description) {
    group->add_option(name, values, description)->delimiter(',')->capture_default_str();
  };
  auto *costs = command->add_option_group(
      "Stages",
      "One number for all devices, or a list with one for each (or for each chunk, in the order of the model)");
  list(costs, "--forward-ms", flags->forward, "of a microbatch");
  list(costs, "--input-gradient-ms", flags->inputGradient, "of a microbatch");
  list(costs, "--weight-gradient-ms", flags->weightGradient, "of a microbatch");
  list(costs, "--update-ms", flags->update, "of the optimizer (--sync: of all parameters)");
  list(costs, "--allreduce-ms", flags->allReduce,
       "of the gradients over a stage's replicas (--sync: what computation waits for)");
  list(costs, "--activation-mb", flags->activations, "kept from a microbatch's forward to its backward");
  list(costs, "--parameter-mb", flags->parameters, "of one version of the weights (--sync: of a message)");
  list(costs, "--state-mb", flags->state, "gradients and optimizer state");
  flags->replicas.addTo(*command);
  auto *network = command->add_option_group("Network");
  auto range = runtime::numberBetween(0, 1e12);
  network->add_option("--transfer-ms", flags->transfer, "of a message, whatever its size")
      ->capture_default_str()
      ->check(range);
  network->add_option("--message-mb", flags->message, "between stages, of a microbatch")
      ->capture_default_str()
      ->check(range);
  network
      ->add_option("--bandwidth-gbs", flags->bandwidth,
                   "GB/s of a link (default: no limit); a server's is shared by the workers")
      ->check(runtime::numberBetween(1e-9, 1e12));
  network->add_flag("--no-overlap", flags->noOverlap,
                    "a device that sends computes nothing (--sync: nor one that receives)");
  auto *output = command->add_option_group("Output", "A table, unless --json");
  output->add_option("--svg", flags->svg, "write a picture");
  output->add_option("--html", flags->html, "write a page for a browser");
  output->add_option("--trace", flags->trace, "write a trace for chrome://tracing or Perfetto");
  output->add_option("--title", flags->title, "of the picture and the page");
  output->add_flag("--json", flags->json, "machine-readable output");
  command->footer(
      "Examples:\n"
      "  divisi simulate --schedule 1f1b --stages 4 --microbatches 8 --html pipeline.html\n"
      "  divisi simulate --schedule interleaved --stages 4 --chunks 2 --microbatches 8 --transfer-ms 0.1\n"
      "  divisi simulate --schedule zb-h1 --stages 4 --microbatches 12 --forward-ms 1,1,1,1.5 --trace t.json\n"
      "  divisi simulate --schedule pipedream --stages 4 --microbatches 32 --staleness vertical-sync\n"
      "  divisi simulate --sync async-server --max-staleness 4 --workers 4 --steps 64 --straggler 3=1.5 --html "
      "replicas.html\n"
      "  divisi simulate --sync local --average-every 8 --workers 4 --compute-ms 20 --allreduce-ms 5 --jitter 0.3");
  command->callback([flags, command, &exitCode] { exitCode = Simulating(*flags, *command).run(); });
}
