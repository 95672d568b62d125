// Replicas that are kept in step, against formulas and small cases by hand.
#include "passes/Planning/Simulator/Replicas.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace divisi::planning::pipeline;
using divisi::dist::Sync;
using divisi::test::unwrap;
using Mode = Sync::Mode;

namespace {

ReplicaOptions optionsOf(Mode mode, int workers, int steps, double compute) {
  ReplicaOptions options;
  options.sync.mode = mode;
  options.sync.servers = mode == Mode::asyncServer;
  options.workers = workers;
  options.steps = steps;
  options.compute = {compute};
  return options;
}

ReplicaSimulation run(const ReplicaOptions &options) {
  std::string error;
  auto simulation = unwrap(simulate(options), error);
  EXPECT_TRUE(simulation) << error;
  return simulation ? *simulation : ReplicaSimulation();
}

std::string errorOf(const ReplicaOptions &options) {
  std::string error;
  EXPECT_FALSE(unwrap(simulate(options), error));
  return error;
}

/// Seconds of a worker's computations, by batch.
std::vector<double> sharesOf(const ReplicaSimulation &simulation, int worker) {
  std::vector<double> seconds(simulation.options.steps);
  for (const ReplicaEvent &event : simulation.events)
    if (event.kind == ReplicaEvent::share && event.device == worker)
      seconds[event.batch] += event.end - event.start;
  return seconds;
}

TEST(Replicas, AllReduceTakesAsLongAsTheSlowest) {
  ReplicaOptions o = optionsOf(Mode::allReduce, 4, 10, 2);
  EXPECT_NEAR(run(o).seconds, 20, 1e-9);
  EXPECT_EQ(run(o).relativeThroughput(), 1);
  o.stragglers = {{2, {3, 3}}};
  ReplicaSimulation slowed = run(o);
  EXPECT_NEAR(slowed.seconds, 60, 1e-9);
  EXPECT_NEAR(slowed.relativeThroughput(), 1.0 / 3, 1e-9);
  EXPECT_NEAR(slowed.idleShare(2), 0, 1e-9);
  EXPECT_NEAR(slowed.idleShare(0), 2.0 / 3, 1e-9);
  o.update = 0.5, o.allReduce = 0.25, o.bytes = 8;
  slowed = run(o);
  EXPECT_NEAR(slowed.seconds, 10 * (6 + 0.5 + 0.25), 1e-9);
  EXPECT_NEAR(slowed.devices[1].bytesSent, 10 * 2 * 0.75 * 8, 1e-9);
}

TEST(Replicas, AWorkerHasATimeOfItsOwn) {
  ReplicaOptions o = optionsOf(Mode::allReduce, 3, 4, 0);
  o.compute = {1, 5, 2};
  EXPECT_NEAR(run(o).seconds, 20, 1e-9);
}

/// The driver's link carries the messages of all others, one after the other.
TEST(Replicas, Driver) {
  const double c = 2, u = 0.5, latency = 0.05, b = 0.1;
  ReplicaOptions o = optionsOf(Mode::driver, 4, 1, c);
  o.update = u, o.latency = latency, o.bytes = 10, o.bandwidth = 100;
  EXPECT_NEAR(run(o).seconds, c + 2 * (latency + 3 * b) + u, 1e-9);
  o.steps = 6; // workers add up a part of the loss: all wait for the last one's parameters
  EXPECT_NEAR(run(o).seconds, 6 * (c + 2 * (latency + 3 * b) + u), 1e-9);
  // Otherwise, in the next step, each worker begins a message later than the one before: its push does not wait for theirs.
  o.together = false;
  EXPECT_NEAR(run(o).seconds, c + latency + 3 * b + 5 * (c + u + 2 * latency + 4 * b) + latency + 3 * b + u, 1e-9);
  EXPECT_NEAR(run(o).devices[0].bytesSent, 6 * 3 * 10, 1e-9);
  o.steps = 1;
  o.stragglers = {{3, {3, 3}}}; // the others' messages have come before
  EXPECT_NEAR(run(o).seconds, 3 * c + latency + b + latency + 3 * b + u, 1e-9);
  o.overlap = false; // the first replica computes, then receives
  o.stragglers = {{0, {3, 3}}};
  EXPECT_NEAR(run(o).seconds, 3 * c + 6 * (latency + b) + u, 1e-9);
}

TEST(Replicas, SynchronousServers) {
  const double c = 2, u = 0.6, latency = 0.05, b = 0.1;
  ReplicaOptions o = optionsOf(Mode::server, 4, 5, c);
  o.update = u, o.latency = latency;
  for (int servers : {1, 2, 3}) {
    o.sync.servers = servers;
    EXPECT_NEAR(run(o).seconds, 5 * (2 * latency + c + u / servers), 1e-9);
  }
  o.stragglers = {{1, {3, 3}}};
  EXPECT_NEAR(run(o).seconds, 5 * (2 * latency + 3 * c + u / 3), 1e-9);
  o.stragglers.clear();
  o.steps = 1, o.bytes = 10, o.bandwidth = 100;
  o.sync.servers = 1; // workers add up a part of the loss: all wait for the last one's parameters
  EXPECT_NEAR(run(o).seconds, 2 * (latency + 4 * b) + c + u, 1e-9);
  o.together = false; // workers begin one message after the other, and their pushes come so
  EXPECT_NEAR(run(o).seconds, 2 * latency + 5 * b + c + u, 1e-9);
  o.sync.servers = 4; // as many links as workers
  EXPECT_NEAR(run(o).seconds, 2 * (latency + b) + c + u / 4, 1e-9);
}

TEST(Replicas, ColocatedServers) {
  ReplicaOptions o = optionsOf(Mode::server, 4, 5, 2);
  o.update = 0.6, o.latency = 0.05, o.bytes = 10, o.bandwidth = 100;
  ReplicaSimulation even = run(o);
  EXPECT_NEAR(even.seconds, 5 * (2 + 2 * (0.05 + 0.75 * 0.1) + 0.15), 1e-9);
  EXPECT_EQ(even.devices.size(), 4u);
  EXPECT_NEAR(even.devices[3].bytesSent, 5 * 2 * 0.75 * 10, 1e-9);
  o.stragglers = {{0, {3, 3}}};
  EXPECT_LT(run(o).seconds, 5 * (6 + 2 * (0.05 + 0.75 * 0.1) + 0.15)); // its links are its own: the others have sent
  o.bytes = 0;
  EXPECT_NEAR(run(o).seconds, 5 * (6 + 2 * 0.05 + 0.15), 1e-9);
}

TEST(Replicas, AsynchronousServersLoseWhatTheSlowedWorkerLoses) {
  for (int workers : {2, 4, 8})
    for (double factor : {1.5, 3.0}) {
      ReplicaOptions o = optionsOf(Mode::asyncServer, workers, 600, 1);
      o.stragglers = {{workers - 1, {factor, factor}}};
      ReplicaSimulation slowed = run(o);
      EXPECT_NEAR(slowed.relativeThroughput(), (workers - 1 + 1 / factor) / workers, 0.01);
      EXPECT_LT(slowed.idleShare(0), 0.01);
      EXPECT_EQ(slowed.updates.size(), 600u * workers);
    }
}

TEST(Replicas, AServerThatIsTheBottleneck) {
  ReplicaOptions o = optionsOf(Mode::asyncServer, 4, 50, 0);
  o.update = 0.5, o.latency = 0.1;
  o.overlap = false; // R pushes take R x (push + update + pull)
  EXPECT_NEAR(run(o).seconds, 50 * 4 * (0.5 + 2 * 0.1), 1e-9);
  o.overlap = true; // latencies are those of the others' updates
  EXPECT_NEAR(run(o).seconds, 50 * 4 * 0.5 + 2 * 0.1, 1e-9);
  o.latency = 0, o.bytes = 10, o.bandwidth = 10; // a push takes a second of the link, longer than an update
  EXPECT_NEAR(run(o).seconds, 50 * 4 * 1 + 1 + 0.5, 1e-9);
  EXPECT_NEAR(run(o).devices[4].busy, 50 * 4 * 0.5, 1e-9);
  o.workers = 16, o.sync.servers = 2; // each has half of the bytes
  EXPECT_NEAR(run(o).seconds, 50 * 16 * 0.5, 0.03 * 50 * 16 * 0.5);
}

TEST(Replicas, StalenessOfEqualWorkers) {
  for (int workers : {2, 4, 7})
    for (int servers : {1, 3}) {
      ReplicaOptions o = optionsOf(Mode::asyncServer, workers, 400, 1);
      o.update = 0.01;
      o.sync.servers = servers;
      ReplicaSimulation simulation = run(o);
      EXPECT_NEAR(simulation.meanStaleness(), workers - 1, 0.02);
      EXPECT_EQ(simulation.largestStaleness(), workers - 1);
    }
}

/// Each share once, in order; none begins while one of a batch that is more than the bound older is not finished.
void checkBound(const ReplicaSimulation &simulation, int64_t bound) {
  int workers = simulation.options.workers, steps = simulation.options.steps;
  std::map<std::pair<int, int>, double> begun, finished;
  for (const ReplicaEvent &event : simulation.events)
    if (event.kind == ReplicaEvent::share) {
      EXPECT_TRUE(begun.try_emplace({event.batch, event.index}, event.start).second);
    } else if (event.kind == ReplicaEvent::update && event.device == workers) {
      EXPECT_TRUE(finished.try_emplace({event.batch, event.index}, event.end).second);
    }
  EXPECT_EQ(begun.size(), (size_t)workers * steps);
  EXPECT_EQ(finished.size(), begun.size());
  for (int batch = (int)bound + 1; batch < steps; ++batch)
    for (int index = 0; index < workers; ++index)
      for (int other = 0; other < workers; ++other)
        EXPECT_GE(begun.at({batch, index}), finished.at({batch - (int)bound - 1, other}));
}

TEST(Replicas, TheBoundIsKept) {
  for (int64_t bound : {1, 2, 5})
    for (int servers : {1, 2}) {
      ReplicaOptions o = optionsOf(Mode::asyncServer, 4, 60, 1);
      o.sync.maxStaleness = bound;
      o.sync.servers = servers;
      o.stragglers = {{2, {20, 20}}};
      o.jitter = 0.5;
      o.update = 0.1, o.latency = 0.03, o.bytes = 1, o.bandwidth = 20;
      ReplicaSimulation bounded = run(o);
      checkBound(bounded, bound);
      o.sync.maxStaleness = std::nullopt;
      EXPECT_LT(run(o).seconds, 0.8 * bounded.seconds);
    }
}

/// Worker 1 takes 10 seconds for a share: (0, 1). Worker 0 has (0, 0), (1, 0) and (1, 1) until second 3, and may not
/// begin with batch 2 before second 10. Then worker 1 takes (2, 1), and worker 0 (2, 0), (3, 0) and (3, 1), until
/// second 20.
TEST(Replicas, ABoundByHand) {
  ReplicaOptions o = optionsOf(Mode::asyncServer, 2, 4, 1);
  o.stragglers = {{1, {10, 10}}};
  o.sync.maxStaleness = 1;
  ReplicaSimulation simulation = run(o);
  EXPECT_NEAR(simulation.seconds, 20, 1e-9);
  std::vector<std::pair<int, int>> order, expected = {{0, 0}, {1, 0}, {1, 1}, {0, 1}, {2, 0}, {3, 0}, {3, 1}, {2, 1}};
  for (const auto &update : simulation.updates)
    order.push_back({update.batch, update.index});
  EXPECT_EQ(order, expected);
  EXPECT_EQ(simulation.updates[3].pulled, 0);
  EXPECT_EQ(simulation.stalenessOf(3), 3);
}

/// Workers go on while an average is in progress, but not beyond the next one, nor the end.
TEST(Replicas, AveragesDuringTheNextSteps) {
  ReplicaOptions o = optionsOf(Mode::local, 3, 32, 1);
  o.sync.every = 8, o.sync.overlap = true, o.average = 5;
  EXPECT_NEAR(run(o).seconds, 32 + 5, 1e-9); // the last one is awaited
  o.average = 10; // from 8, 18 and 28 on; the last one from 38
  EXPECT_NEAR(run(o).seconds, 48, 1e-9);
  o.steps = 30; // 28 + 6 steps are before 38
  EXPECT_NEAR(run(o).seconds, 48, 1e-9);
  o.stragglers = {{1, {3, 3}}}; // they meet nevertheless
  EXPECT_NEAR(run(o).seconds, 30 * 3 + 10, 1e-9);
  o.stragglers.clear();
  o.sync.overlap = false;
  EXPECT_NEAR(run(o).seconds, 30 + 4 * 10, 1e-9);
}

TEST(Replicas, LocalStepsWaitAtAverages) {
  ReplicaOptions o = optionsOf(Mode::local, 4, 20, 1);
  o.sync.every = 5;
  o.update = 0.1, o.allReduce = 0.7;
  o.stragglers = {{3, {3, 3}}};
  EXPECT_NEAR(run(o).seconds, 20 * 3.1 + 4 * 0.7, 1e-9);
  o.average = 0.2;
  o.steps = 7; // averages after steps 5 and 7
  EXPECT_NEAR(run(o).seconds, 7 * 3.1 + 2 * 0.2, 1e-9);
}

/// With random delays, a period takes as long as the sum of the slowest worker's steps.
TEST(Replicas, RandomDelays) {
  ReplicaOptions o = optionsOf(Mode::local, 5, 60, 1);
  o.sync.every = 6;
  o.jitter = 0.8;
  o.seed = 3;
  ReplicaSimulation local = run(o);
  double expected = 0;
  for (int begin = 0; begin < 60; begin += 6) {
    double slowest = 0;
    for (int worker = 0; worker < 5; ++worker) {
      std::vector<double> shares = sharesOf(local, worker);
      slowest = std::max(slowest, std::accumulate(shares.begin() + begin, shares.begin() + begin + 6, 0.0));
    }
    expected += slowest;
  }
  EXPECT_NEAR(local.seconds, expected, 1e-9);
  EXPECT_NEAR(local.undisturbed, 60, 1e-9);
  EXPECT_EQ(run(o).seconds, local.seconds);
  o.sync.mode = Mode::allReduce; // the same delays
  std::vector<double> delays = sharesOf(local, 4), same = sharesOf(run(o), 4);
  for (int batch = 0; batch < 60; ++batch)
    EXPECT_NEAR(same[batch], delays[batch], 1e-9);
  EXPECT_GT(run(o).seconds, 1.1 * local.seconds);
  o.seed = 4;
  EXPECT_GT(std::abs(sharesOf(run(o), 4)[0] - delays[0]), 1e-3);
  // A factor that is drawn evenly: mean 2.5, variance (4 - 1)^2 / 12.
  o = optionsOf(Mode::allReduce, 2, 20000, 1);
  o.stragglers = {{1, {1, 4}}};
  double mean = 0, variance = 0;
  for (double seconds : sharesOf(run(o), 1)) {
    EXPECT_GE(seconds, 1 - 1e-6);
    EXPECT_LE(seconds, 4 + 1e-6);
    mean += seconds / 20000, variance += (seconds - 2.5) * (seconds - 2.5) / 20000;
  }
  EXPECT_NEAR(mean, 2.5, 0.02);
  EXPECT_NEAR(variance, 0.75, 0.02);
  EXPECT_NEAR(run(o).seconds, 20000 * mean, 1e-4);
  // The mean and the variance of the exponential distribution.
  o = optionsOf(Mode::allReduce, 2, 20000, 1);
  o.jitter = 0.5;
  double sum = 0, squares = 0;
  for (double seconds : sharesOf(run(o), 1))
    sum += seconds - 1, squares += (seconds - 1) * (seconds - 1);
  EXPECT_NEAR(sum / 20000, 0.5, 0.02);
  EXPECT_NEAR(squares / 20000, 2 * 0.25, 0.05);
  // The largest of R has the mean 1 + 1/2 + ... + 1/R; asynchronous servers wait for none.
  o.workers = 4;
  EXPECT_NEAR(run(o).seconds / 20000, 1 + 0.5 * 25 / 12, 0.02);
  o.sync.mode = Mode::asyncServer, o.sync.servers = 1;
  EXPECT_NEAR(run(o).seconds / 20000, 1.5, 0.02);
}

/// Worker 0 takes 3 seconds, the others 1; a message takes 0.5. Step 0, pairs 0-1 and 2-3: until 3.5 and 1.5. Step 1,
/// pairs 1-2 and 3-0: workers 1 and 2 have computed at 4.5 and 2.5, and go on at 5; 3 and 0 at 2.5 and 6.5, and go on
/// at 7. Step 2: worker 0 has computed at 10; the mean of all takes 0.25.
TEST(Replicas, GossipInPairsByHand) {
  ReplicaOptions o = optionsOf(Mode::gossip, 4, 3, 1);
  o.sync.topology = Sync::Topology::pairs;
  o.stragglers = {{0, {3, 3}}};
  o.latency = 0.5, o.allReduce = 0.25;
  ReplicaSimulation simulation = run(o);
  EXPECT_NEAR(simulation.seconds, 10.25, 1e-9);
  std::map<std::pair<int, int>, double> starts;
  for (const ReplicaEvent &event : simulation.events)
    if (event.kind == ReplicaEvent::share)
      starts[{event.batch, event.device}] = event.start;
  const double expected[3][4] = {{0, 0, 0, 0}, {3.5, 3.5, 1.5, 1.5}, {7, 5, 5, 7}};
  for (int batch = 0; batch < 3; ++batch)
    for (int worker = 0; worker < 4; ++worker)
      EXPECT_NEAR((starts.at({batch, worker})), expected[batch][worker], 1e-9) << batch << " " << worker;
}

/// Workers of even numbers wait for an average after each share, those of odd numbers do not.
TEST(Replicas, AsynchronousGossip) {
  ReplicaOptions o = optionsOf(Mode::gossip, 4, 600, 1);
  o.sync.asynchronous = true;
  o.update = 0.1;
  o.stragglers = {{2, {3, 3}}}; // with the update, 1.1 and 3.1 seconds
  EXPECT_NEAR(run(o).relativeThroughput(), (3 + 1.1 / 3.1) / 4, 0.01);
  o.stragglers.clear();
  o.latency = 0.2, o.bytes = 3, o.bandwidth = 10;
  ReplicaSimulation simulation = run(o);
  EXPECT_NEAR(simulation.seconds, 600 * 4 / (2 / 1.1 + 2 / (1.1 + 2 * 0.5)), 4);
  EXPECT_NEAR(simulation.devices[0].bytesSent, 3 * simulation.devices[0].shares, 1e-6);
  o.average = 0;
  EXPECT_NEAR(run(o).seconds, 600 * 1.1, 1e-6);
}

TEST(Replicas, GossipOfEqualWorkers) {
  for (auto [topology, messages] :
       {std::pair(Sync::Topology::ring, 2), {Sync::Topology::exponential, 1}, {Sync::Topology::pairs, 1}}) {
    ReplicaOptions o = optionsOf(Mode::gossip, 6, 11, 1);
    o.sync.topology = topology;
    o.update = 0.1, o.latency = 0.2, o.bytes = 3, o.bandwidth = 10, o.allReduce = 0.7;
    ReplicaSimulation simulation = run(o);
    EXPECT_NEAR(simulation.seconds, 11 * 1.1 + 10 * messages * 0.5 + 0.7, 1e-9);
    EXPECT_NEAR(simulation.devices[2].bytesSent, 10 * messages * 3 + 2 * 5 / 6.0 * 3, 1e-9);
    o.average = 0.05;
    EXPECT_NEAR(run(o).seconds, 11 * 1.1 + 10 * messages * 0.05 + 0.7, 1e-9);
  }
}

TEST(Replicas, NeighboursOfGossip) {
  using Neighbours = llvm::SmallVector<int, 2>;
  EXPECT_EQ(neighboursOf(0, 5, 7, Sync::Topology::ring), (Neighbours{4, 1}));
  EXPECT_EQ(neighboursOf(1, 2, 0, Sync::Topology::ring), (Neighbours{0}));
  EXPECT_EQ(neighboursOf(0, 1, 0, Sync::Topology::ring), (Neighbours{}));
  for (int64_t step = 0; step < 6; ++step) // distances 1, 2, 4, 1, ...
    EXPECT_EQ(neighboursOf(3, 6, step, Sync::Topology::exponential), (Neighbours{(3 - (1 << step % 3) + 6) % 6}));
  for (int workers : {2, 3, 4, 7})
    for (int64_t step = 0; step < 4; ++step) {
      int without = 0;
      for (int worker = 0; worker < workers; ++worker) {
        Neighbours partner = neighboursOf(worker, workers, step, Sync::Topology::pairs);
        without += partner.empty();
        if (!partner.empty()) {
          EXPECT_EQ(neighboursOf(partner[0], workers, step, Sync::Topology::pairs), (Neighbours{worker}));
        }
      }
      EXPECT_EQ(without, workers % 2);
    }
}

TEST(Replicas, Errors) {
  ReplicaOptions o = optionsOf(Mode::allReduce, 4, 10, 1);
  o.stragglers = {{4, {2, 2}}};
  EXPECT_EQ(errorOf(o), "straggler 4: there are only the workers 0 to 3");
  o.stragglers = {{1, {0, 0}}};
  EXPECT_NE(errorOf(o).find("a factor above 0"), std::string::npos);
  o.stragglers = {{1, {3, 2}}};
  EXPECT_NE(errorOf(o).find("from the smaller to the larger"), std::string::npos);
  o.stragglers.clear();
  o.compute = {1, 2};
  EXPECT_NE(errorOf(o).find("2 times of computation for 4 workers"), std::string::npos);
  o.compute = {-1};
  EXPECT_NE(errorOf(o).find("numbers from 0"), std::string::npos);
  o.compute = {std::nan("")};
  EXPECT_NE(errorOf(o).find("numbers from 0"), std::string::npos);
  o.compute = {1};
  o.steps = 2'000'000'000;
  EXPECT_NE(errorOf(o).find("steps: too many events: at most 250000 steps"), std::string::npos);
  o = optionsOf(Mode::asyncServer, 4, 10, 1);
  o.sync.maxStaleness = 0;
  EXPECT_NE(errorOf(o).find("--sync server"), std::string::npos);
}

} // namespace
