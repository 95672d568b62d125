// A pipeline as threads of this process: it computes the same bits as one stage, and the files of both are
// interchangeable.
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/core/Manifest.h"
#include "test/runtime/comm/FakeStages.h"
#include "test/runtime/comm/RanksFixture.h"

#include <set>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class StagesTest : public RanksFixture {
protected:
  StagesTest() {
    auto x = randomNumbers(20 * 3, 1);
    std::vector<int64_t> label;
    for (size_t i = 0; i < 20; ++i)
      label.push_back(std::lround(3 * x[3 * i] - 2 * x[3 * i + 1] + 2));
    writeNpy(folder / "x.npy", "<f4", {20, 3}, x);
    writeNpy(folder / "y.npy", "<i8", {20}, label);
  }

  using RanksFixture::run;
  template <int Stages, int Data> int run(const std::string &arguments) {
    return run(FakeStages<Stages, Data>::program(), Stages * Data, arguments);
  }
  void copyFolder(const char *from, const char *to) {
    std::filesystem::copy(folder / from, folder / to, std::filesystem::copy_options::recursive);
  }
};

TEST_F(StagesTest, TwoStagesComputeWhatOneDoes) {
  std::string flags = "--init 5 --epochs 5 --seed 3 --eval x=@/x.npy --eval label=@/y.npy --log-grad-norms --log @/";
  ASSERT_EQ((run<1, 1>(flags + "1")), 0) << error;
  std::vector<Json> one = log("1");
  ASSERT_EQ(one.size(), 15u); // ten steps, five evaluations
  EXPECT_LT(one[12]["loss"].get<double>(), 0.7 * one[0]["loss"].get<double>());
  EXPECT_GT(one[0]["grad_norms"]["w"].get<double>(), 0.01);
  ASSERT_EQ((run<2, 1>(flags + "2")), 0) << error;
  std::vector<Json> two = log("2");
  ASSERT_EQ(two.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(two[i]["loss"], one[i]["loss"]) << i;
    EXPECT_EQ(two[i].value("grad_norms", Json()), one[i].value("grad_norms", Json())) << i;
  }
  ASSERT_EQ((run<2, 2>(flags + "4")), 0) << error;
  std::vector<Json> four = log("4");
  ASSERT_EQ(four.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i)
    EXPECT_NEAR(four[i]["loss"].get<double>(), one[i]["loss"].get<double>(), 1e-5) << i;
}

TEST_F(StagesTest, RanksOfAllStagesShareFiles) {
  std::string flags = "--init 5 --lr 0 --steps 1 --save-weights @/";
  ASSERT_EQ((run<1, 1>(flags + "one --save @/one.onnx")), 0) << error;
  ASSERT_EQ((run<2, 1>(flags + "two --save @/two.onnx")), 0) << error;
  ASSERT_EQ((run<2, 2>(flags + "four --save @/four.onnx")), 0) << error;
  Result<SafetensorsFile> file = SafetensorsFile::open(folder / "one");
  ASSERT_TRUE(succeeded(file));
  EXPECT_EQ(file->entries().size(), 4u);
  EXPECT_EQ(readNumber(file->entries().at("scale").data, DataType::F32), 1.5);
  EXPECT_NE(readNumber(file->entries().at("bias").data, DataType::F32), 0);
  for (const char *name : {"two", "four"}) {
    EXPECT_EQ(readFile(folder / name), readFile(folder / "one"));
    EXPECT_EQ(readFile(folder / concat(name, ".onnx")), readFile(folder / "one.onnx"));
  }
  ASSERT_EQ((run<2, 1>("--weights @/one --steps 2 --save-weights @/a")), 0) << error;
  ASSERT_EQ((run<1, 1>("--weights @/four --steps 2 --save-weights @/b")), 0) << error;
  EXPECT_EQ(readFile(folder / "a"), readFile(folder / "b"));
  EXPECT_NE(readFile(folder / "a"), readFile(folder / "one"));
}

/// From two stages to one and back, compared with an uninterrupted run.
TEST_F(StagesTest, CheckpointsFitEveryPlan) {
  std::string flags = "--seed 7 --checkpoint @/";
  ASSERT_EQ((run<1, 1>("--init 5 --seed 7 --steps 9 --save-weights @/whole")), 0) << error;
  ASSERT_EQ((run<2, 1>("--init 5 --steps 3 " + flags + "ck")), 0) << error;
  copyFolder("ck", "other");
  ASSERT_EQ((run<1, 1>("--steps 6 --resume " + flags + "ck")), 0) << error;
  EXPECT_NE(out.find("resumed from"), std::string::npos);
  ASSERT_EQ((run<2, 1>("--steps 9 --resume --save-weights @/back " + flags + "ck")), 0) << error;
  EXPECT_NE(out.find("(step 6, epoch 4)"), std::string::npos) << out;
  EXPECT_EQ(readFile(folder / "back"), readFile(folder / "whole"));
  EXPECT_EQ(readFile(folder / "ck/latest"), "step-9\n");
  ASSERT_EQ((run<2, 2>("--steps 3 --resume --save-weights @/four " + flags + "other")), 0) << error;
  ASSERT_EQ((run<1, 1>("--init 5 --seed 7 --steps 3 --save-weights @/three")), 0) << error;
  EXPECT_EQ(readFile(folder / "four"), readFile(folder / "three"));
}

TEST_F(StagesTest, ProgramsOfAllPlansHaveOneIdentity) {
  Result<Manifest> one = parseManifest(FakeStages<1, 1>::program()), four = parseManifest(FakeStages<2, 2>::program());
  ASSERT_TRUE(succeeded(one));
  ASSERT_TRUE(succeeded(four));
  std::string identity = one->identity();
  EXPECT_EQ(four->identity(), identity);
  for (int64_t rank = 0; rank < 4; ++rank) {
    Manifest local = *four;
    local.localize(rank);
    EXPECT_EQ(local.identity(), identity);
  }
}

/// Only the second stage reads labels.
TEST_F(StagesTest, AnErrorOfOneStageEndsAll) {
  std::vector<int64_t> label(20, 1);
  label[5] = 99;
  writeNpy(folder / "y.npy", "<i8", {20}, label);
  EXPECT_EQ((run<2, 1>("--init 5 --no-shuffle")), 1);
  expectError("rank 1: '");
  expectError("has the value 99 in row 5");
}

/// The loss is computed on the last stage, and all ranks know it.
TEST_F(StagesTest, AllRanksKnowTheLoss) {
  EXPECT_EQ((run<2, 2>("--init 5 --lr 1e30 --epochs 50")), 1);
  expectError("the loss of step");
  ASSERT_EQ((run<2, 1>("--init 5 --steps 2 --log @/log")), 0) << error;
  EXPECT_NE(out.find("final loss " + log("log")[1]["loss"].dump()), std::string::npos) << out;
}

TEST_F(StagesTest, TheLogCountsTransfers) {
  ASSERT_EQ((run<2, 1>("--init 5 --steps 2 --log @/log")), 0) << error;
  for (const Json &line : log("log")) {
    EXPECT_EQ(line["comm_bytes"], 4 * 2 * 4); // four microbatches of two features each
    EXPECT_GT(line["comm_wait_ms"].get<double>(), 0);
  }
  ASSERT_EQ((run<1, 1>("--init 5 --steps 2 --log @/log1")), 0) << error;
  EXPECT_EQ(log("log1")[0]["comm_bytes"], 0); // to itself
}

TEST_F(StagesTest, DescribesModelsAsUsersKnowThem) {
  ASSERT_EQ((run<2, 2>("--info")), 0) << error;
  EXPECT_NE(out.find("x  F32 [8, 3]"), std::string::npos) << out;
  EXPECT_NE(out.find("label  I64 [8]"), std::string::npos) << out;
  EXPECT_NE(out.find("parameters: 7, of which 5 train"), std::string::npos) << out;
  EXPECT_NE(out.find("memory of each device of stage 1\n  parameters: 16 B in 3 tensors"), std::string::npos) << out;
  ASSERT_EQ((run<2, 1>("--describe json")), 0) << error;
  Json json = Json::parse(out);
  EXPECT_EQ(json["inputs"][0]["shape"], (Json{8, 3}));
  EXPECT_EQ(json["parameter_count"], 7);
  EXPECT_EQ(json["stage_arena_bytes"], (Json{1536, 1216}));
  EXPECT_EQ(json["arena_bytes"], 1536);
}

/// Each run of a task has its calls in the trace, with the microbatch, including communication.
TEST_F(StagesTest, TracesShowMicrobatches) {
  ASSERT_EQ((run<2, 1>("--init 5 --epochs 5 --trace @/trace --profile @/profile")), 0) << error;
  std::map<std::string, std::multiset<int64_t>> seen;
  Json trace = Json::parse(readFile(folder / "trace"));
  std::map<std::pair<int64_t, int64_t>, std::string> threads;
  std::map<int64_t, std::string> ranks;
  for (const Json &event : trace["traceEvents"]) {
    if (event["name"] == "process_name")
      ranks[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name")
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  std::map<std::string, std::vector<std::pair<double, double>>> spans;
  std::map<int64_t, std::set<std::string>> tasks;
  for (const Json &event : trace["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    std::string thread = concat(event["pid"], " ", threads.at({event["pid"], event["tid"]}));
    double begin = event["ts"], duration = event["dur"];
    spans[thread].emplace_back(begin, begin + duration);
    if (event["cat"] == "task")
      tasks[event["pid"]].insert(event["name"]);
    std::string kind = thread.substr(0, thread.find(' ', 2)); // "0 communication 2" is one more thread of the same kind
    seen[concat(kind, " ", event["cat"].get<std::string>())].insert(event["args"].value("microbatch", int64_t(-1)));
  }
  EXPECT_EQ(ranks, (std::map<int64_t, std::string>{{0, "rank 0: stage 0"}, {1, "rank 1: stage 1"}}));
  for (auto &[thread, list] : spans) { // nothing overlaps on a stream; a nanosecond is lost in the text
    std::sort(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); ++i)
      EXPECT_GE(list[i].first, list[i - 1].second - 1e-3) << thread;
  }
  std::map<int64_t, std::set<std::string>> runs = {{0, {"updateFirst, microbatch 0"}}, {1, {"updateSecond, microbatch 0"}}};
  for (int microbatch = 0; microbatch < 4; ++microbatch) {
    runs[0].insert(concat("forward, microbatch ", microbatch));
    runs[0].insert(concat("backward, microbatch ", microbatch));
    runs[1].insert(concat("middle, microbatch ", microbatch));
  }
  EXPECT_EQ(tasks, runs);
  std::multiset<int64_t> each = {0, 1, 2, 3};
  for (std::string rank : {"0", "1"}) {
    EXPECT_EQ(seen[rank + " compute send"], each);
    EXPECT_EQ(seen[rank + " communication send"], each);
    EXPECT_EQ(seen[rank + " compute receive"], each);
    EXPECT_EQ(seen[rank + " communication receive"], each);
    EXPECT_EQ(seen.count(rank + " communication await"), 0u);
  }
  EXPECT_EQ(seen["0 communication all_reduce"].size(), 1u);
  // The profile has the calls of each stage.
  std::map<int64_t, std::map<std::string, size_t>> calls;
  std::vector<std::string> lines = linesOf(readFile(folder / "profile"));
  for (size_t i = 1; i < lines.size(); ++i) {
    Json line = Json::parse(lines[i]);
    ++calls[line["stage"].get<int64_t>()][line["kind"].get<std::string>()];
    EXPECT_GE(line["us"].get<double>(), 0) << lines[i];
  }
  for (int64_t stage : {0, 1})
    for (const char *kind : {"send", "receive"})
      EXPECT_EQ(calls[stage][kind], 4u) << "stage " << stage << ": " << kind;
  // One stage runs all tasks, and sends to itself.
  ASSERT_EQ((run<1, 1>("--init 5 --epochs 5 --profile @/profile")), 0) << error;
  EXPECT_EQ(linesOf(readFile(folder / "profile")).size(), 1u + 4 * (1 + 3 + 2) + 2 + 4);
}
} // namespace
