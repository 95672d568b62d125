// Whole programs for several ranks, as threads of this process: state, data, checkpoints and the log.
#include "runtime/checkpoint/Safetensors.h"
#include "test/runtime/comm/FakeRanks.h"
#include "test/runtime/comm/RanksFixture.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class RanksTest : public RanksFixture {
protected:
  RanksTest() {
    auto x = randomNumbers(10 * 4, 1);
    std::vector<int64_t> label;
    for (size_t i = 0; i < 10; ++i)
      label.push_back(std::lround(3 * x[4 * i] - 2 * x[4 * i + 1] + x[4 * i + 3]));
    writeNpy(folder / "x.npy", "<f4", {10, 4}, x);
    writeNpy(folder / "y.npy", "<i8", {10}, label);
  }

  using RanksFixture::run;
  template <int Data, int Model> int run(const std::string &arguments) {
    return run(FakeRanks<Data, Model>::program(), Data * Model, arguments);
  }
};

/// Random weights depend on their position in the whole tensor, and files contain whole tensors.
TEST_F(RanksTest, InitialWeightsAreTheSameForEveryPlan) {
  std::string flags = "--init 5 --lr 0 --steps 1 --no-shuffle --save-weights @/";
  ASSERT_EQ((run<1, 1>(flags + "one --save @/one.onnx")), 0) << error;
  std::string one = readFile(folder / "one"), onnx = readFile(folder / "one.onnx");
  Result<SafetensorsFile> file = SafetensorsFile::open(folder / "one");
  ASSERT_TRUE(succeeded(file));
  EXPECT_EQ(file->entries().at("table").shape, (Shape{4, 6}));
  ASSERT_EQ((run<2, 2>(flags + "four --save @/four.onnx")), 0) << error;
  EXPECT_EQ(readFile(folder / "four"), one);
  EXPECT_EQ(readFile(folder / "four.onnx"), onnx);
  ASSERT_EQ((run<2, 1>(flags + "two")), 0) << error;
  EXPECT_EQ(readFile(folder / "two"), one);
  ASSERT_EQ((run<1, 2>(flags + "other")), 0) << error;
  EXPECT_EQ(readFile(folder / "other"), one);
  // They are read again, by each rank its shard.
  std::string again = "--lr 0 --steps 1 --weights @/four --save-weights @/";
  ASSERT_EQ((run<4, 1>(again + "rows")), 0) << error;
  ASSERT_EQ((run<1, 1>(again + "all")), 0) << error;
  EXPECT_EQ(readFile(folder / "rows"), readFile(folder / "all"));
}

/// A checkpoint of four ranks is resumed on two and on one, bit by bit, and the other way around.
TEST_F(RanksTest, CheckpointsFitEveryPlan) {
  ASSERT_EQ((run<2, 2>("--init 5 --steps 3 --checkpoint @/ck")), 0) << error;
  std::string four = readFile(folder / "ck/step-3/state-0.safetensors");
  ASSERT_FALSE(four.empty());
  auto moved = [&](const char *from, const char *to) {
    std::filesystem::copy(folder / from, folder / to, std::filesystem::copy_options::recursive);
  };
  moved("ck", "ck2"), moved("ck", "ck1");
  ASSERT_EQ((run<2, 1>("--steps 3 --checkpoint @/ck2 --resume --save-weights @/w2")), 0) << error;
  EXPECT_NE(out.find("resumed from"), std::string::npos);
  ASSERT_EQ((run<1, 1>("--steps 3 --checkpoint @/ck1 --resume --save-weights @/w1")), 0) << error;
  ASSERT_EQ((run<2, 2>("--steps 3 --checkpoint @/ck --resume --save-weights @/w4")), 0) << error;
  EXPECT_EQ(readFile(folder / "w2"), readFile(folder / "w4"));
  EXPECT_EQ(readFile(folder / "w1"), readFile(folder / "w4"));
  // Further steps on one rank, then back.
  ASSERT_EQ((run<1, 1>("--steps 4 --checkpoint @/ck1 --resume")), 0) << error;
  moved("ck1", "ck4");
  ASSERT_EQ((run<2, 2>("--steps 4 --checkpoint @/ck4 --resume --save-weights @/w4")), 0) << error;
  ASSERT_EQ((run<1, 1>("--steps 4 --checkpoint @/ck1 --resume --save-weights @/w1")), 0) << error;
  EXPECT_EQ(readFile(folder / "w1"), readFile(folder / "w4"));
}

/// Each rank has its rows and its features: the losses are those of one rank, except for rounding.
TEST_F(RanksTest, EveryPlanLearnsTheSame) {
  std::string flags = "--init 5 --epochs 4 --eval x=@/x.npy --eval label=@/y.npy --log @/";
  ASSERT_EQ((run<1, 1>(flags + "1")), 0) << error;
  auto one = log("1");
  ASSERT_EQ(one.size(), 12u); // eight steps, four evaluations of three batches, the last incomplete
  auto compare = [&](const char *name) {
    auto lines = log(name);
    ASSERT_EQ(lines.size(), one.size());
    for (size_t i = 0; i < lines.size(); ++i)
      EXPECT_NEAR(lines[i]["loss"].get<double>(), one[i]["loss"].get<double>(), 1e-5) << name << " line " << i;
  };
  ASSERT_EQ((run<2, 1>(flags + "2")), 0) << error;
  compare("2");
  ASSERT_EQ((run<2, 2>(flags + "4")), 0) << error;
  compare("4");
  ASSERT_EQ((run<1, 2>(flags + "m")), 0) << error;
  compare("m");
}

/// all_reduce sends 2 (n-1)/n of its operands: between two ranks as many bytes as the operands have. 2 predictions, 1
/// loss, 3 gradients.
TEST_F(RanksTest, TheLogHasTheCostOfCommunication) {
  ASSERT_EQ((run<2, 2>("--init 5 --steps 3 --log @/log")), 0) << error;
  auto lines = log("log");
  ASSERT_EQ(lines.size(), 3u);
  for (const Json &line : lines) {
    EXPECT_EQ(line["comm_bytes"], 4 * (2 + 1 + 3));
    EXPECT_GT(line["comm_ms"].get<double>(), 0);
    EXPECT_GE(line["comm_wait_ms"].get<double>(), 0);
  }
  EXPECT_NE(out.find("final loss"), std::string::npos);
  EXPECT_EQ(out.find("final loss"), out.rfind("final loss"));
}

/// Errors that all ranks have are printed once.
TEST_F(RanksTest, CommonErrorsAreSaidOnce) {
  EXPECT_EQ((run<2, 2>("--init 5 --weights no.safetensors")), 2);
  expectError("--weights");
  EXPECT_EQ((run<2, 2>("--weights @/no.safetensors")), 1);
  expectError("no.safetensors");
  EXPECT_EQ((run<2, 2>("--init 5 --lr 1e30 --epochs 50")), 1);
  expectError("the loss of step");
  EXPECT_EQ((run<2, 2>("--init 5 --save /dev/full/no")), 2);
  expectError("--save");
  EXPECT_EQ(run(FakeRanks<2, 2>::program(), 2, "--init 5"), 2);
  expectError("is for 4 devices, but was started as 2 processes: start it with 'divisi run --devices 4 line ...'");
}

/// A bad label in the last row of a batch: only the ranks with that row see it.
TEST_F(RanksTest, OneRanksErrorEndsAll) {
  std::vector<int64_t> label(10, 1);
  label[3] = 99;
  writeNpy(folder / "y.npy", "<i8", {10}, label);
  EXPECT_EQ((run<2, 2>("--init 5 --no-shuffle")), 1);
  expectError("rank 2: '");
  expectError("has the value 99 in row 3");
}

TEST_F(RanksTest, HelpIsPrintedOnce) {
  EXPECT_EQ((run<2, 2>("--info")), 0);
  EXPECT_EQ(out.find("model line"), out.rfind("model line"));
  EXPECT_NE(out.find("model line"), std::string::npos);
}
} // namespace
