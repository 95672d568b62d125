#include "divisi/ReplicaFlags.h"

#include "runtime/main/NumberRange.h"

#include "llvm/ADT/StringRef.h"

using namespace divisi;
using namespace divisi::tools;
using planning::pipeline::ReplicaOptions;

static constexpr const char *syncFlag = "--sync", *workersFlag = "--workers", *averageFlag = "--average-ms",
                            *stragglerFlag = "--straggler", *lossFlag = "--no-loss-sum";

void ReplicaFlags::addTo(CLI::App &command) {
  sync.addTo(command);
  auto *group =
      command.add_option_group("Replicas", "With --sync: what workers and servers do, and what a straggler costs");
  group->add_option(workersFlag, workers, "replicas: each computes a share of every batch; servers come on top")
      ->check(CLI::Range(1, 1024));
  group->add_option("--steps", steps, "batches")->capture_default_str()->check(CLI::Range(1, 1'000'000));
  group
      ->add_option("--compute-ms", compute,
                   "of a share's forward and backward pass; one number, or one for each worker")
      ->delimiter(',')
      ->capture_default_str()
      ->check(runtime::numberBetween(0, 1e12));
  group
      ->add_option(averageFlag, average,
                   "of an average of parameters: local: of all (default: --allreduce-ms), gossip: with one neighbour "
                   "(default: a message; "
                   "asynchronous: and its answer)")
      ->check(runtime::numberBetween(0, 1e12));
  group
      ->add_option(stragglerFlag, stragglers,
                   "RANK=FACTOR: a worker whose computation takes longer, such as 3=1.5, or 3=1-4: each by a factor "
                   "that is drawn evenly; "
                   "several with commas")
      ->delimiter(',');
  group->add_flag(lossFlag, noLossSum,
                  "for --sync driver and server: the loss counts no labels of the whole batch, so that a worker computes while another one "
                  "fetches its parameters");
  group
      ->add_option(
          "--jitter", jitter,
          "random delays: each computation takes 1 + x times as long, x exponentially distributed with this mean")
      ->capture_default_str()
      ->check(runtime::numberBetween(0, 1e6));
  group->add_option("--seed", seed, "of random delays")->capture_default_str();
}

bool ReplicaFlags::given(const CLI::App &command) { return command.count(syncFlag) > 0; }

std::string ReplicaFlags::first(const CLI::App &command) {
  for (const char *flag : {workersFlag, "--steps", "--compute-ms", averageFlag, stragglerFlag, lossFlag, "--jitter", "--seed",
                           "--servers", "--max-staleness", "--average-every", "--average-state", "--overlap-average", "--outer-optimizer",
                           "--outer-lr", "--outer-momentum", "--topology", "--asynchronous"})
    if (command.count(flag))
      return flag;
  return "";
}

std::string ReplicaFlags::read(const CLI::App &command, ReplicaOptions &options) {
  if (std::string wrong = sync.finish(command); !wrong.empty())
    return wrong;
  if (workers == 0)
    return sync.text() + " needs " + workersFlag + " R: the number of replicas";
  options.sync = sync.sync;
  options.workers = workers;
  options.steps = steps;
  options.compute.clear();
  for (double ms : compute)
    options.compute.push_back(ms * 1e-3);
  if (command.count(averageFlag))
    options.average = average * 1e-3;
  for (const std::string &text : stragglers) {
    auto [rank, factors] = llvm::StringRef(text).split('=');
    auto [least, most] = factors.split('-');
    int worker = 0;
    planning::pipeline::Slowdown slowdown;
    if (rank.getAsInteger(10, worker) || least.getAsDouble(slowdown.least) ||
        (most.empty() ? least : most).getAsDouble(slowdown.most))
      return std::string(stragglerFlag) + ": expects RANK=FACTOR, such as 3=1.5 or 3=1-4; got '" + text + "'";
    if (!options.stragglers.try_emplace(worker, slowdown).second)
      return std::string(stragglerFlag) + " gives two factors for worker " + std::to_string(worker);
  }
  if (noLossSum && sync.sync.mode != dist::Sync::Mode::driver && sync.sync.mode != dist::Sync::Mode::server)
    return std::string(lossFlag) + " is for --sync driver and server, whose workers meet by their loss";
  options.together = !noLossSum;
  options.jitter = jitter;
  options.seed = seed;
  return "";
}
