// Outputs for users and machine-readable ones.
#include "passes/Planning/Simulator/Render.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

using namespace divisi::planning::pipeline;
using divisi::test::unwrap;

namespace {

Simulation run(const ScheduleOptions &options, std::vector<StageCost> stages) {
  std::string error;
  auto simulation = unwrap(simulate(options, chainEdges(options.stages(), 1e6), stages, uniformNetwork(1e-4, 1e10)), error);
  EXPECT_TRUE(simulation) << error;
  return simulation ? *simulation : Simulation();
}

Simulation small() { return run({ScheduleKind::f1b1, 2, 3}, std::vector<StageCost>(2, {1e-3, 1e-3, 1e-3, 1e-3})); }

std::string text(void (*print)(const Report &, llvm::raw_ostream &), const Simulation &simulation,
                 const Names &names = {"title", {}}) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  print(report(simulation, names), stream);
  return result;
}

size_t count(llvm::StringRef text, llvm::StringRef part) { return text.count(part); }

TEST(Render, Swimlane) {
  std::string svg = text(printSwimlane, small());
  EXPECT_EQ(count(svg, "class=\"idle\""), 2u);
  EXPECT_EQ(count(svg, "class=\"forward\""), 6u);
  EXPECT_EQ(count(svg, "class=\"backward\""), 6u);
  EXPECT_EQ(count(svg, "class=\"update\""), 2u);
  EXPECT_EQ(count(svg, "class=\"transfer\""), 6u);
  EXPECT_EQ(count(svg, "class=\"memory\""), 0u);
  EXPECT_EQ(count(svg, "class=\"number\""), 12u);
  EXPECT_EQ(count(svg, "forward of microbatch 2, "), 2u);
}

TEST(Render, NamesAreData) {
  Names names{"</title><script>alert(1)</script>&\"'\x01", {"<b>", "gpu \"1\""}};
  for (auto print : {printSwimlane, printPage}) {
    std::string result = text(print, small(), names);
    EXPECT_EQ(count(result, "<script"), 0u);
    EXPECT_EQ(count(result, "<b>"), print == printPage ? count(result, "</b>") : 0);
    EXPECT_GE(count(result, "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39; "), 1u);
    EXPECT_GE(count(result, "&lt;b&gt;"), 1u);
    EXPECT_EQ(count(result, "http"), 1u + (print == printPage)); // the name space of SVG, and http-equiv
  }
}

TEST(Render, Trace) {
  Names names{"", {"a \"name\" \xff", "b"}};
  auto trace = llvm::json::parse(text(printTrace, small(), names));
  ASSERT_TRUE((bool)trace) << llvm::toString(trace.takeError());
  int tasks = 0, transfers = 0;
  double end = 0;
  for (const llvm::json::Value &value : *trace->getAsObject()->getArray("traceEvents")) {
    const llvm::json::Object &event = *value.getAsObject();
    if (event.getString("ph") != "X")
      continue;
    ++(event.getInteger("tid") == 0 ? tasks : transfers);
    end = std::max(end, *event.getNumber("ts") + *event.getNumber("dur"));
    if (event.getString("name") == "activation 0 -> 1, microbatch 0") {
      EXPECT_DOUBLE_EQ(*event.getNumber("ts"), 1000);
      EXPECT_DOUBLE_EQ(*event.getNumber("dur"), 200);
      EXPECT_EQ(event.getInteger("pid"), 0);
      EXPECT_EQ(event.getObject("args")->getInteger("to"), 1);
    }
  }
  EXPECT_EQ(tasks, 14);
  EXPECT_EQ(transfers, 6);
  EXPECT_DOUBLE_EQ(end, small().seconds * 1e6);
}

TEST(Render, Json) {
  llvm::json::Object json = toJson(small(), {});
  EXPECT_EQ(json.getString("schedule"), "1f1b");
  EXPECT_EQ(json.getNumber("step_ms"), small().seconds * 1e3);
  EXPECT_EQ(json.getArray("devices")->size(), 2u);
  EXPECT_EQ(json.getArray("links")->size(), 2u);
  EXPECT_FALSE(json.get("minibatch_ms"));
  json = toJson(run({ScheduleKind::pipedream, 2, 20}, std::vector<StageCost>(2, {1e-3, 1e-3, 1e-3})), {});
  EXPECT_NEAR(*json.getNumber("minibatch_ms"), 3.2, 0.2001); // 3 ms, and at most the transfers of a round
  EXPECT_EQ(json.getString("staleness"), "stashed");
}

TEST(Render, Table) {
  std::string table = text(printTable, run({ScheduleKind::gpipe, 4, 8}, std::vector<StageCost>(4, {1, 1, 1})));
  EXPECT_EQ(count(table, "utilization            72.7 %"), 1u) << table; // 96/132, less 0.7 ms of transfers in 33 s
  EXPECT_EQ(count(table, "\ndevice 3 "), 1u);
  EXPECT_EQ(count(table, "versions"), 0u);
  EXPECT_EQ(count(table, "memory"), 0u);
}

/// Nothing takes any time: the outputs do not divide by zero.
TEST(Render, Empty) {
  std::string error;
  auto simulation = unwrap(simulate({ScheduleKind::gpipe, 2, 2}, {}, std::vector<StageCost>(2), {}), error);
  ASSERT_TRUE(simulation);
  for (auto print : {printTable, printSwimlane, printPage, printTrace}) {
    std::string result = text(print, *simulation);
    EXPECT_EQ(count(result, "nan"), 0u) << result;
    EXPECT_EQ(count(result, "inf"), 0u) << result;
  }
}

/// Two workers and a server, three batches: each share is dealt, pushed and updated by once.
TEST(Render, Replicas) {
  ReplicaOptions options;
  options.sync.mode = divisi::dist::Sync::Mode::asyncServer;
  options.sync.servers = 1;
  options.workers = 2, options.steps = 3;
  options.compute = {1e-3}, options.update = 1e-4, options.latency = 1e-4;
  options.stragglers = {{1, {2, 2}}};
  std::string error;
  auto simulation = unwrap(simulate(options), error);
  ASSERT_TRUE(simulation) << error;
  Report shown = report(*simulation, "<b>");
  std::string svg, page, trace, table;
  for (auto [to, print] :
       {std::pair(&svg, &printSwimlane), {&page, &printPage}, {&trace, &printTrace}, {&table, &printTable}}) {
    llvm::raw_string_ostream stream(*to);
    print(shown, stream);
  }
  for (const char *kind : {"share", "update", "push", "pull"})
    EXPECT_EQ(count(svg, "class=\"" + std::string(kind) + "\""), 6u) << kind;
  EXPECT_EQ(count(svg, "class=\"idle\""), 3u);
  EXPECT_EQ(count(svg, ">server 0</text>"), 1u);
  EXPECT_EQ(count(page, "<h1>&lt;b&gt;</h1>"), 1u);
  EXPECT_EQ(count(page, "worker 1 slowed by a factor of 2"), 2u);
  EXPECT_EQ(count(table, "\nserver 0 "), 1u) << table;
  auto parsed = llvm::json::parse(trace);
  ASSERT_TRUE((bool)parsed) << llvm::toString(parsed.takeError());
  double end = 0;
  for (const llvm::json::Value &value : *parsed->getAsObject()->getArray("traceEvents"))
    if (const llvm::json::Object &event = *value.getAsObject(); event.getString("ph") == "X")
      end = std::max(end, *event.getNumber("ts") + *event.getNumber("dur"));
  EXPECT_NEAR(end, simulation->seconds * 1e6, 1e-6);
  llvm::json::Object json = toJson(*simulation);
  EXPECT_EQ(json.getString("sync"), "async-server");
  EXPECT_EQ(json.getString("max_staleness"), "none");
  EXPECT_EQ(json.getArray("devices")->size(), 3u);
  EXPECT_EQ(json.getNumber("time_ms"), simulation->seconds * 1e3);
}

TEST(Render, ReplicasThatTakeNoTime) {
  std::string error, all;
  auto simulation = unwrap(simulate(ReplicaOptions()), error);
  ASSERT_TRUE(simulation) << error;
  llvm::raw_string_ostream stream(all);
  for (auto print : {printTable, printSwimlane, printPage, printTrace})
    print(report(*simulation, ""), stream);
  stream << llvm::json::Value(toJson(*simulation));
  EXPECT_EQ(count(all, "nan"), 0u) << all;
  EXPECT_EQ(count(all, "inf"), 0u) << all;
}

} // namespace
