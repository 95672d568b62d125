// Times compared with the formulas of the papers, and with longest paths that are computed differently.
#include "passes/Planning/Simulator/Simulator.h"
#include "RandomSchedules.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace divisi::planning::pipeline;
using namespace divisi::planning::pipeline::test;
using divisi::test::unwrap;

namespace {

/// Stages that take 1 s forward.
std::vector<StageCost> uniform(int stages, double inputGradient = 1, double weightGradient = 1) {
  return std::vector<StageCost>(stages, {1, inputGradient, weightGradient});
}

Simulation run(const ScheduleOptions &options, const std::vector<StageCost> &stages, const Network &network = {},
               std::vector<Edge> edges = {}) {
  if (edges.empty())
    edges = chainEdges(options.stages(), 1);
  std::string error;
  auto simulation = unwrap(simulate(options, edges, stages, network), error);
  EXPECT_TRUE(simulation) << error;
  return simulation ? *simulation : Simulation();
}

/// Issue 6: backward twice the forward, 4 devices.
TEST(Simulator, Cells) {
  auto cells = [](ScheduleKind kind, int m) {
    Simulation simulation = run({kind, 4, m}, uniform(4));
    double busy = 0;
    for (const auto &device : simulation.devices)
      busy += device.busy;
    EXPECT_EQ(simulation.utilization(), busy / (4 * simulation.seconds));
    return std::pair(busy, 4 * simulation.seconds);
  };
  EXPECT_EQ(cells(ScheduleKind::naive, 1), std::pair(12., 48.)); // 25 %
  EXPECT_EQ(cells(ScheduleKind::naive, 8), std::pair(96., 384.));
  EXPECT_EQ(cells(ScheduleKind::gpipe, 4), std::pair(48., 84.));
  EXPECT_EQ(cells(ScheduleKind::gpipe, 8), std::pair(96., 132.));
  EXPECT_EQ(run({ScheduleKind::naive, 4, 1}, uniform(4)).utilization(), 0.25);
}

TEST(Simulator, PeakActivations) {
  for (int m : {1, 2, 3, 4, 5, 8, 64, 500}) {
    EXPECT_EQ(run({ScheduleKind::f1b1, 4, m}, uniform(4)).devices[0].peakMicrobatches, std::min(m, 4));
    for (int s = 0; s < 4; ++s) {
      EXPECT_LE(run({ScheduleKind::f1b1, 4, m}, uniform(4)).peakMicrobatches[s], 4);
      EXPECT_EQ(run({ScheduleKind::gpipe, 4, m}, uniform(4)).peakMicrobatches[s], m);
    }
  }
}

/// Step time and ideal time are whole numbers, so the bubbles are exact.
TEST(Simulator, Bubbles) {
  for (int p = 1; p <= 8; ++p)
    for (int m : {p, p + 1, 2 * p, 3 * p + 1, 5 * p, 8 * p}) {
      auto excess = [&](ScheduleKind kind) { return run({kind, p, m}, uniform(p)).seconds - 3 * m; };
      EXPECT_EQ(excess(ScheduleKind::gpipe), 3 * (p - 1));
      EXPECT_EQ(excess(ScheduleKind::f1b1), 3 * (p - 1));            // over 3 m: (p-1)/m
      EXPECT_EQ(excess(ScheduleKind::zbH1), p - 1) << p << " " << m; // (p-1)/(3 m)
      EXPECT_DOUBLE_EQ(run({ScheduleKind::f1b1, p, m}, uniform(p)).bubble(), (p - 1.) / m);
      for (int v = 2; v <= 5 && m % p == 0; ++v) // v chunks of 1 s forward: (p-1)/(v m)
        EXPECT_EQ(run({ScheduleKind::interleaved, p, m, v}, uniform(p * v)).seconds - 3 * m * v, 3 * (p - 1));
    }
}

/// Qi et al. (arXiv 2401.10241, table 2): (p-1)(F+B-W), with B the input gradient alone, as long as W <= B.
TEST(Simulator, UnequalParts) {
  for (int p = 2; p <= 5; ++p)
    EXPECT_EQ(run({ScheduleKind::zbH1, p, 4 * p}, uniform(p, 1.5, 1)).seconds, 4 * p * 3.5 + (p - 1) * 1.5);
}

TEST(Simulator, SteadyState) {
  for (int p = 1; p <= 6; ++p)
    for (Staleness staleness : {Staleness::stashed, Staleness::verticalSync, Staleness::latest}) {
      auto stages = uniform(p);
      for (StageCost &stage : stages)
        stage.update = 0.5;
      EXPECT_EQ(run({ScheduleKind::pipedream, p, 40, 1, staleness}, stages).steadySeconds, 3.5);
    }
  auto stages = uniform(4);
  stages[2].forward = 3; // PipeDream's objective: the slowest stage
  EXPECT_EQ(run({ScheduleKind::pipedream, 4, 60}, stages).steadySeconds, 5);
  EXPECT_EQ(run({ScheduleKind::pipedream, 4, 2}, uniform(4)).steadySeconds,
            run({ScheduleKind::pipedream, 4, 2}, uniform(4)).seconds / 2);
}

/// One microbatch: 2 messages each way, which are exposed. F0 .25 F1 .25 F2, and the same backwards.
TEST(Simulator, Transfers) {
  Network network = uniformNetwork(0.125, 8);
  for (bool overlap : {true, false}) {
    network.overlap = overlap;
    Simulation simulation = run({ScheduleKind::gpipe, 3, 1}, uniform(3), network);
    EXPECT_EQ(simulation.seconds, 9 + 4 * 0.25);
    EXPECT_EQ(simulation.devices[1].communicating, 0.5);
    EXPECT_EQ(simulation.devices[1].bytesSent, 2);
    EXPECT_EQ(simulation.links.size(), 4u);
    EXPECT_EQ((simulation.links[{1, 2}].messages), 1);
    EXPECT_EQ((simulation.links[{1, 2}].bytes), 1);
  }
  // Device 0 sends 4 messages: overlapped with computation, or between tasks.
  network.overlap = true;
  EXPECT_EQ(run({ScheduleKind::gpipe, 2, 4}, uniform(2), network).seconds, 1 + 0.25 + 4 + 8 + 0.25 + 2);
  network.overlap = false;
  EXPECT_EQ(run({ScheduleKind::gpipe, 2, 4}, uniform(2), network).seconds, 1 + 0.25 + 3 * 1.25 + 1 + 4 * 2.25 + 2);
}

/// Three values of 2 bytes together go forward and one of 4 bytes back: each message has its latency.
TEST(Simulator, SeveralValues) {
  std::vector<Edge> edges = {{0, 1, 2, 3, Load{4, 1}}};
  Simulation simulation = run({ScheduleKind::gpipe, 2, 1}, uniform(2), uniformNetwork(0.125, 8), edges);
  EXPECT_EQ(simulation.seconds, 6 + (3 * 0.125 + 0.25) + (0.125 + 0.5));
  EXPECT_EQ((simulation.links[{0, 1}].messages), 3);
  EXPECT_EQ((simulation.links[{0, 1}].bytes), 2);
  EXPECT_EQ((simulation.links[{1, 0}].messages), 1);
  EXPECT_EQ((simulation.links[{1, 0}].bytes), 4);
}

TEST(Simulator, LongSkips) {
  Network slowSkip{[](int from, int to, double) { return std::abs(from - to) == 3 ? 10.0 : 0.0; }};
  std::vector<Edge> edges = chainEdges(4, 1);
  edges.push_back({0, 3, 7});
  Simulation simulation = run({ScheduleKind::f1b1, 4, 1}, uniform(4), slowSkip, edges);
  // F0, the skip, F3 B3, the skip back, B0; stages 1 and 2 finish long before.
  EXPECT_EQ(simulation.seconds, 1 + 10 + 1 + 2 + 10 + 2);
  EXPECT_EQ((simulation.links[{0, 3}].bytes), 7);
  EXPECT_EQ((simulation.links[{3, 0}].bytes), 7);
  EXPECT_EQ((simulation.links[{0, 1}].bytes), 1);
}

TEST(Simulator, AllReduce) {
  auto stages = uniform(2);
  for (StageCost &stage : stages) {
    stage.allReduce = 4;
    stage.update = 0.5;
  }
  // Device 1 finishes its gradients 2 s before device 0.
  Simulation simulation = run({ScheduleKind::gpipe, 2, 2}, stages);
  EXPECT_EQ(simulation.seconds, 9 + 4.5);
  EXPECT_EQ(simulation.devices[0].communicating, 4);
  // The later chunk's gradients are reduced while the earlier chunk's are computed.
  stages.resize(2, stages[0]);
  EXPECT_EQ(run({ScheduleKind::interleaved, 1, 1, 2}, stages).seconds, 6 + 4 + 2 + 0.5);
  // An asynchronous pipeline reduces for every minibatch.
  EXPECT_EQ(run({ScheduleKind::pipedream, 2, 30}, stages).devices[0].communicating, 120);
}

TEST(Simulator, Memory) {
  auto stages = uniform(4);
  for (StageCost &stage : stages) {
    stage.activationBytes = 10;
    stage.parameterBytes = 100;
    stage.stateBytes = 1000;
  }
  Simulation simulation = run({ScheduleKind::f1b1, 4, 8}, stages);
  for (int d = 0; d < 4; ++d) {
    const Simulation::Device &device = simulation.devices[d];
    EXPECT_EQ(device.fixedBytes, 1100);
    EXPECT_EQ(device.peakBytes, 1100 + 10 * (4 - d));
    EXPECT_EQ(device.memory.front().bytes, d ? 1100 : 1110);
    EXPECT_EQ(device.memory.back().bytes, 1100);
    EXPECT_EQ(device.memory.back().microbatches, 0);
    for (size_t i = 1; i < device.memory.size(); ++i)
      EXPECT_LT(device.memory[i - 1].time, device.memory[i].time);
  }
  Simulation stashed = run({ScheduleKind::pipedream, 4, 20}, stages);
  for (int d = 0; d < 4; ++d)
    EXPECT_EQ(stashed.devices[d].peakBytes, 1000 + (4 - d) * 110);
}

TEST(Simulator, Refuses) {
  std::string error;
  EXPECT_FALSE(unwrap(simulate({ScheduleKind::f1b1, 2, 2}, chainEdges(2), uniform(3), {}), error));
  EXPECT_EQ(error, "costs of 3 stages for a schedule of 2");
  auto stages = uniform(2);
  stages[1].forward = NAN;
  EXPECT_FALSE(unwrap(simulate({ScheduleKind::f1b1, 2, 2}, chainEdges(2), stages, {}), error));
  EXPECT_EQ(error, "stage 1: times and sizes have to be finite and not negative");
  EXPECT_FALSE(unwrap(simulate({ScheduleKind::f1b1, 2, 2}, chainEdges(2, 1), uniform(2), uniformNetwork(0, 0)), error));
  EXPECT_EQ(error, "edge 0 -> 1: bytes and seconds have to be finite and not negative");
}

/// The end of every event by relaxation until nothing changes, without queue and counters; dependencies are found by
/// comparing all pairs.
class LongestPath {
public:
  LongestPath(const RandomSchedule &random, const std::vector<StageCost> &stages, const Network &network)
      : o(random.schedule.options) {
    for (int device = 0; device < o.devices; ++device) {
      int computing = -1, sending = -1;
      for (const Task &task : random.schedule.devices[device]) {
        const StageCost &c = stages[o.stageOf(device, task.chunk)];
        double seconds[] = {c.forward, c.inputGradient + c.weightGradient, c.inputGradient, c.weightGradient, c.update};
        int self = add({device, o.stageOf(device, task.chunk), task}, seconds[task.kind], computing);
        computing = self;
        for (const Edge &edge : random.edges) {
          bool forward = task.kind == Task::forward;
          bool gradient = task.kind == Task::backward || task.kind == Task::inputGradient;
          int stage = o.stageOf(device, task.chunk), to = forward ? edge.consumer : edge.producer;
          if (stage != (forward ? edge.producer : edge.consumer) || (!forward && !gradient))
            continue;
          int last = self;
          if (to % o.devices != device) {
            last = add({-1, -1, task}, network.seconds(device, to % o.devices, edge.bytes), self);
            waits.emplace_back(network.overlap ? sending : computing, last);
            (network.overlap ? sending : computing) = last;
          }
          arrivals.push_back({to, task.microbatch, forward, last});
        }
      }
    }
    for (auto [stage, microbatch, forward, node] : arrivals)
      for (size_t i = 0; i < nodes.size(); ++i)
        if (nodes[i].stage == stage && nodes[i].task.microbatch == microbatch &&
            (forward ? nodes[i].task.kind == Task::forward
                     : nodes[i].task.kind == Task::backward || nodes[i].task.kind == Task::inputGradient))
          waits.emplace_back(node, i);
  }

  double run() {
    std::vector<double> end = duration;
    for (bool changed = true; changed;) {
      changed = false;
      for (auto [earlier, later] : waits)
        if (earlier >= 0 && end[later] < end[earlier] + duration[later]) {
          end[later] = end[earlier] + duration[later];
          changed = true;
        }
    }
    return *std::max_element(end.begin(), end.end());
  }

private:
  struct Node {
    int device, stage;
    Task task;
  };
  struct Arrival {
    int stage, microbatch;
    bool forward;
    int node;
  };
  int add(Node node, double seconds, int after) {
    nodes.push_back(node);
    duration.push_back(seconds);
    waits.emplace_back(after, (int)nodes.size() - 1);
    return (int)nodes.size() - 1;
  }

  const ScheduleOptions &o;
  std::vector<Node> nodes;
  std::vector<double> duration;
  std::vector<std::pair<int, int>> waits;
  std::vector<Arrival> arrivals;
};

TEST(Simulator, LongestPath) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomSchedule random(seed);
    const ScheduleOptions &o = random.schedule.options;
    std::vector<StageCost> stages(o.stages());
    for (StageCost &stage : stages)
      stage = {random.number(), random.number(), random.number(), random.number()};
    std::vector<double> link(o.devices * o.devices);
    for (double &seconds : link)
      seconds = random.number() / 4;
    Network network{[&](int from, int to, double bytes) { return link[from * o.devices + to] * bytes; },
                    random.below(2) == 0};
    std::string error;
    auto program = unwrap(addTransfers(random.schedule, random.edges), error);
    auto simulation = unwrap(simulate(*program, stages, network), error);
    ASSERT_TRUE(simulation) << error;
    EXPECT_EQ(simulation->seconds, LongestPath(random, stages, network).run()) << seed;
  }
}

} // namespace
