// Prices of ways to keep replicas in step, beside the simulator's timeline of the same workers and servers.
#include "compiler/Report/SyncReport.h"
#include "passes/Planning/Simulator/Replicas.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

using namespace divisi;
using namespace divisi::planning;
using dist::Sync;
using Mode = Sync::Mode;

namespace {

constexpr double latency = 2e-3, bandwidth = 10e6, parameters = 1e6, computed = 0.22;

/// A step of a layer: its loss, perhaps with a sum over all labels, and the gradient that is made of it.
struct Step {
  Problem problem;
  Candidate plan;

  Step(int64_t replicas, bool sumsLoss) {
    problem.tensors.resize(4);
    problem.ops.resize(3);
    for (int i = 0; i < 3; ++i) {
      problem.ops[i].operands = {i};
      problem.ops[i].results = {i + 1};
    }
    plan.mesh.axes.push_back({"data", replicas});
    plan.prediction.seconds = computed;
    plan.prediction.memory.parameters = parameters;
    auto reduce = [&](int operation, int64_t bytes, double ready) {
      Prediction::Collective collective{};
      collective.step.kind = dist::ReshardStep::Kind::allReduce;
      collective.step.axes = {0};
      collective.bytes = bytes;
      collective.ready = ready;
      collective.operation = operation;
      plan.prediction.collectives.push_back(collective);
    };
    if (sumsLoss)
      reduce(0, 8, computed / 3);
    reduce(1, static_cast<int64_t>(parameters), computed);
  }
};

Cluster clusterOf(int64_t devices) {
  std::string error;
  auto cluster = test::unwrap(parseClusterFile("[cluster]\nname = \"c\"\n[device]\nkind = \"cpu\"\nname = \"d\"\nmemory = \"8GB\"\nflops = { fp32 = 1e9 }\n"
                                               "bandwidth = \"10GB/s\"\nlaunch = \"1us\"\n[[level]]\nname = \"l\"\nsize = " +
                                                   std::to_string(devices) + "\nbandwidth = 10e6\nlatency = 2e-3\n",
                                               "c.toml"),
                               error);
  EXPECT_TRUE(cluster) << error;
  return *cluster;
}

/// Seconds of a step of many, by the simulator.
double simulated(const Sync &sync, int64_t replicas, bool sumsLoss) {
  auto secondsOf = [&](int steps) {
    pipeline::ReplicaOptions options;
    options.sync = sync;
    options.workers = static_cast<int>(replicas);
    options.steps = steps;
    options.compute = {computed};
    options.latency = latency, options.bytes = parameters, options.bandwidth = bandwidth;
    options.together = sumsLoss;
    return llvm::cantFail(pipeline::simulate(options)).seconds;
  };
  return (secondsOf(40) - secondsOf(20)) / 20;
}

TEST(SyncReport, ServersTakeAsLongAsTheSimulatorSays) {
  for (int64_t replicas : {2, 4, 8})
    for (int64_t servers : {1, 2, 4})
      for (auto [mode, sumsLoss] : {std::pair(Mode::server, true), {Mode::server, false}, {Mode::asyncServer, false}}) {
        Step step(replicas, sumsLoss);
        Sync sync;
        sync.mode = mode;
        sync.servers = servers;
        auto price = compiler::priceSync(sync, step.plan, step.problem, clusterOf(replicas + servers));
        double seconds = simulated(sync, replicas, sumsLoss);
        EXPECT_NEAR(price.seconds, seconds, 0.02 * seconds) << Sync::nameOf(mode).str() << ": " << replicas << " replicas, " << servers << " servers, " << sumsLoss;
      }
}

TEST(SyncReport, WorkersThatMeetWaitForTheLastOnesParameters) {
  Sync sync;
  sync.mode = Mode::server;
  sync.servers = 1;
  const double message = parameters / bandwidth;
  Step meeting(8, true), apart(8, false);
  EXPECT_NEAR(compiler::priceSync(sync, meeting.plan, meeting.problem, clusterOf(9)).seconds, computed + 2 * (latency + 8 * message), 1e-9);
  EXPECT_NEAR(compiler::priceSync(sync, apart.plan, apart.problem, clusterOf(9)).seconds, computed + 2 * latency + 9 * message, 1e-9);
}
} // namespace
