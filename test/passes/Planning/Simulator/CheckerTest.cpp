// Programs that run, and programs that do not, with the checker's reasons.
#include "passes/Planning/Simulator/Checker.h"
#include "RandomSchedules.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

using namespace divisi::planning::pipeline;
using namespace divisi::planning::pipeline::test;
using divisi::test::unwrap;

namespace {

Program make(const ScheduleOptions &options, std::vector<Edge> edges) {
  std::string error;
  auto schedule = unwrap(makeSchedule(options), error);
  auto program = schedule ? unwrap(addTransfers(*schedule, std::move(edges)), error) : std::nullopt;
  EXPECT_TRUE(program) << error;
  return program ? *program : Program();
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

const std::vector<ScheduleKind> oneChunk = {ScheduleKind::naive, ScheduleKind::gpipe, ScheduleKind::f1b1,
                                            ScheduleKind::zbH1, ScheduleKind::pipedream};

TEST(Checker, EverySchedule) {
  for (int p = 1; p <= 6; ++p)
    for (int rounds = 1; rounds <= 4; ++rounds) {
      for (ScheduleKind kind : oneChunk)
        for (int m : {rounds, p * rounds})
          for (SendMode mode : {SendMode::buffered, SendMode::grouped})
            EXPECT_EQ(checkProgram(make({kind, p, m}, chainEdges(p)), mode), "") << nameOf(kind).str() << p << " " << m;
      for (int v = 2; v <= 4; ++v)
        EXPECT_EQ(checkProgram(make({ScheduleKind::interleaved, p, p * rounds, v}, chainEdges(p * v))), "");
    }
}

/// A UNet: skips from stage s to stage S - 1 - s, besides the chain; the two middle stages are joined twice.
TEST(Checker, LongSkips) {
  for (int p = 2; p <= 6; ++p)
    for (int chunks = 1; chunks <= 2; ++chunks) {
      int stages = p * chunks;
      std::vector<Edge> edges = chainEdges(stages);
      for (int s = 0; s < stages - 1 - s; ++s)
        edges.push_back({s, stages - 1 - s});
      if (chunks == 2)
        EXPECT_EQ(checkProgram(make({ScheduleKind::interleaved, p, 3 * p, 2}, edges)), "");
      else
        for (ScheduleKind kind : oneChunk)
          EXPECT_EQ(checkProgram(make({kind, p, 7}, edges)), "");
    }
  Program program = make({ScheduleKind::f1b1, 4, 2}, {{0, 1}, {1, 2}, {2, 3}, {0, 3}});
  for (int between : {1, 2}) // the skip does not go through these stages
    for (const Action &action : program.devices[between])
      EXPECT_TRUE(action.kind == Action::run || action.message.edge != 3);
}

TEST(Checker, RefusesEdges) {
  std::string error;
  auto schedule = unwrap(makeSchedule({ScheduleKind::f1b1, 2, 2}), error);
  for (Edge edge : {Edge{1, 0}, Edge{0, 2}, Edge{-1, 1}, Edge{1, 1}})
    EXPECT_FALSE(unwrap(addTransfers(*schedule, {edge}), error));
  EXPECT_EQ(error, "edge 1 -> 1: it has to lead from a stage to a later one of 2");
}

TEST(Checker, Rendezvous) {
  EXPECT_EQ(checkProgram(make({ScheduleKind::gpipe, 4, 6}, chainEdges(4)), SendMode::rendezvous), "");
  EXPECT_EQ(checkProgram(make({ScheduleKind::naive, 4, 6}, chainEdges(4)), SendMode::rendezvous), "");
  // Both send, and neither receives: this is why Megatron-LM groups the two.
  EXPECT_EQ(
      checkProgram(make({ScheduleKind::f1b1, 2, 2}, chainEdges(2)), SendMode::rendezvous),
      "deadlock: device 1's receive of activation 0 -> 1, microbatch 1, from device 0 waits for device 1's send of "
      "gradient 1 -> 0, microbatch 0, to device 0, which goes together with device 0's receive of gradient 1 -> 0, "
      "microbatch 0, from device 1; device 0's receive of gradient 1 -> 0, microbatch 0, from device 1 waits for "
      "device 0's send of activation 0 -> 1, microbatch 1, to device 1, which goes together with device 1's receive "
      "of activation 0 -> 1, microbatch 1, from device 0");
}

TEST(Checker, Cycle) {
  Schedule schedule{
      {ScheduleKind::gpipe, 2, 2},
      {{{Task::forward, 0}, {Task::backward, 0}, {Task::forward, 1}, {Task::backward, 1}, {Task::update, 1}},
       {{Task::forward, 1}, {Task::forward, 0}, {Task::backward, 0}, {Task::backward, 1}, {Task::update, 1}}}};
  std::string error;
  std::string wrong = checkProgram(*unwrap(addTransfers(schedule, chainEdges(2)), error));
  EXPECT_TRUE(contains(wrong, "deadlock: ")) << wrong;
  EXPECT_TRUE(contains(wrong, "device 0's backward of microbatch 0")) << wrong;
  EXPECT_TRUE(contains(wrong, "device 1's forward of microbatch 1 waits for device 1's receive of activation 0 -> 1, "
                              "microbatch 1, from device 0"))
      << wrong;
}

/// Stages of one device depend on each other without messages.
TEST(Checker, CycleOfOneDevice) {
  Schedule schedule{{ScheduleKind::interleaved, 1, 1, 2},
                    {{{Task::forward, 0, 1},
                      {Task::forward, 0, 0},
                      {Task::backward, 0, 1},
                      {Task::backward, 0, 0},
                      {Task::update, 0, 0},
                      {Task::update, 0, 1}}}};
  std::string error;
  EXPECT_TRUE(contains(checkProgram(*unwrap(addTransfers(schedule, chainEdges(2)), error)),
                       "device 0's forward of microbatch 0 (chunk 1) waits for device 0's forward of microbatch 0"));
}

TEST(Checker, Tasks) {
  auto wrong = [](std::vector<Task> tasks) { return checkTasks({{ScheduleKind::gpipe, 1, 1}, {std::move(tasks)}}); };
  Task forward{Task::forward}, backward{Task::backward}, update{Task::update}, input{Task::inputGradient},
      weight{Task::weightGradient};
  EXPECT_EQ(wrong({forward, backward, update}), "");
  EXPECT_EQ(wrong({forward, input, weight, update}), "");
  EXPECT_EQ(wrong({}), "device 0: lacks a forward of microbatch 0");
  EXPECT_EQ(wrong({forward}), "device 0: lacks a backward of microbatch 0");
  EXPECT_EQ(wrong({forward, input, update}), "device 0: lacks a weight gradient of microbatch 0");
  EXPECT_EQ(wrong({forward, backward}), "device 0: lacks an update of chunk 0 after the last gradient");
  EXPECT_EQ(wrong({forward, forward, backward, update}), "device 0: forward of microbatch 0 stands twice");
  EXPECT_EQ(wrong({backward, forward, update}), "device 0: backward of microbatch 0 comes too early");
  EXPECT_EQ(wrong({forward, weight, input, update}), "device 0: weight gradient of microbatch 0 comes too early");
  EXPECT_EQ(wrong({forward, backward, weight, update}), "device 0: weight gradient of microbatch 0 comes too late");
  EXPECT_EQ(wrong({{Task::forward, 1}}), "device 0: no forward of microbatch 1 exists");
  EXPECT_EQ(checkTasks({{ScheduleKind::gpipe, 2, 1}, {}}), "0 task lists for 2 devices");
}

TEST(Checker, Messages) {
  const Program good = make({ScheduleKind::gpipe, 2, 1}, chainEdges(2));
  // Device 0: F, send, receive, B, update. Device 1: receive, F, B, send, update.
  auto wrong = [&](auto change) {
    Program program = good;
    change(program.devices);
    return checkProgram(program);
  };
  using Devices = std::vector<std::vector<Action>>;
  EXPECT_EQ(wrong([](Devices &) {}), "");
  EXPECT_EQ(wrong([](Devices &d) { d[0].erase(d[0].begin() + 1); }),
            "device 0: no send for device 1's receive of activation 0 -> 1, microbatch 0, from device 0");
  EXPECT_EQ(
      wrong([](Devices &d) { d[1].erase(d[1].begin()); }),
      "device 1: forward of microbatch 0 stands before its receive of activation 0 -> 1, microbatch 0, from device 0");
  EXPECT_EQ(wrong([](Devices &d) { d[0].insert(d[0].begin() + 1, d[0][1]); }),
            "device 0: send of activation 0 -> 1, microbatch 0, to device 1 stands twice");
  EXPECT_EQ(wrong([](Devices &d) { d[1].insert(d[1].begin(), d[1][0]); }),
            "device 1: receive of activation 0 -> 1, microbatch 0, from device 0 stands twice");
  EXPECT_EQ(
      wrong([](Devices &d) { std::swap(d[0][0], d[0][1]); }),
      "device 0: send of activation 0 -> 1, microbatch 0, to device 1 stands before the task that makes the value");
  EXPECT_EQ(wrong([](Devices &d) { d[0][1].peer = 0; }),
            "device 0: send of activation 0 -> 1, microbatch 0, to device 0 is not between the devices of its stages");
}

/// Any order of tasks that one processor could run has no deadlock; two receives from one device must not be exchanged.
TEST(Checker, RandomOrders) {
  int swapped = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    RandomSchedule random(seed);
    std::string error;
    auto program = unwrap(addTransfers(random.schedule, random.edges), error);
    ASSERT_TRUE(program) << error;
    ASSERT_EQ(checkProgram(*program), "") << seed;
    std::vector<std::pair<Action *, Action *>> pairs;
    for (auto &actions : program->devices)
      for (size_t i = 0; i < actions.size(); ++i)
        for (size_t j = i + 1; j < actions.size(); ++j)
          if (actions[i].kind == Action::receive && actions[j].kind == Action::receive &&
              actions[i].peer == actions[j].peer)
            pairs.emplace_back(&actions[i], &actions[j]);
    if (pairs.empty())
      continue;
    auto [a, b] = pairs[random.below(pairs.size())];
    std::swap(*a, *b);
    EXPECT_NE(checkProgram(*program), "") << seed;
    ++swapped;
  }
  EXPECT_GT(swapped, 200);
}

} // namespace
