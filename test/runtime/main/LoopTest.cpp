// Evaluations during training: when they happen, when they end it, what is logged, and that a resumed run does the same.
#include "runtime/main/RunProgram.h"
#include "test/runtime/FakeProgram.h"
#include "test/runtime/RunFixture.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
/// 40 samples: ten batches in an epoch.
class LoopTest : public RunFixture {
protected:
  LoopTest() {
    write("x", "y", 40, 1);
    write("xt", "yt", 10, 2);
  }
  ~LoopTest() override { fakeHook = nullptr; }
  void write(const std::string &x, const std::string &y, size_t count, unsigned seed) {
    auto values = randomNumbers(count * 3, seed);
    std::vector<int64_t> label;
    for (size_t i = 0; i < count; ++i)
      label.push_back(std::lround(values[3 * i] - 2 * values[3 * i + 1] + 3 * values[3 * i + 2] + 1));
    writeNpy(folder / (x + ".npy"), "<f4", {int64_t(count), 3}, values);
    writeNpy(folder / (y + ".npy"), "<i8", {int64_t(count)}, label);
  }
  int run(const std::string &arguments, const std::string &data = "--data x=@/x.npy --data label=@/y.npy ") {
    return captured(wordsOf(data + "--eval x=@/xt.npy --eval label=@/yt.npy " + arguments),
                    [&](int argc, const char **argv) { return runProgram(program, argc, argv); });
  }
  /// Runs as if killed after a step.
  void runKilled(const std::string &arguments, int64_t step) {
    static int64_t last;
    last = step;
    fakeHook = [](int64_t now) {
      if (now == last)
        throw std::runtime_error("killed");
    };
    EXPECT_EQ(run(arguments), 1);
    fakeHook = nullptr;
  }
  std::vector<Json> evaluations(const std::string &name) {
    std::vector<Json> all = log(name);
    std::erase_if(all, [](const Json &line) { return !line.contains("eval"); });
    return all;
  }
  /// The lines of a log without times and rates.
  std::vector<Json> timeless(const std::string &name) {
    std::vector<Json> all = log(name);
    for (Json &line : all)
      for (const char *field : {"schema", "samples_per_s", "tokens_per_s", "step_ms", "wall_time"})
        line.erase(field);
    return all;
  }
  std::vector<std::string> checkpoints(const std::string &name) {
    std::vector<std::string> all;
    for (const auto &entry : std::filesystem::directory_iterator(folder / name))
      if (std::string file = entry.path().filename().string(); file.starts_with("step-"))
        all.push_back(file);
    std::sort(all.begin(), all.end());
    return all;
  }
  DivisiProgram program = fakeProgram();
};

TEST_F(LoopTest, EvaluatesEveryNSteps) {
  ASSERT_EQ(run("--init 1 --steps 14 --eval-every 4 --log @/log"), 0) << error;
  std::vector<int64_t> steps, epochs;
  for (const Json &line : evaluations("log")) {
    steps.push_back(line["step"]);
    epochs.push_back(line["epoch"]);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{4, 8, 12, 14}));
  EXPECT_EQ(epochs, (std::vector<int64_t>{1, 1, 2, 2}));
  EXPECT_NE(out.find("epoch 1  step 8  eval loss "), std::string::npos) << out;
  // Evaluations do not change training.
  ASSERT_EQ(run("--init 1 --steps 14 --log @/other"), 0) << error;
  auto trained = [&](const std::string &name) {
    std::vector<Json> all = timeless(name);
    std::erase_if(all, [](const Json &line) { return line.contains("eval"); });
    return all;
  };
  EXPECT_EQ(trained("log"), trained("other"));
}

/// With a rate of zero all evaluations are equal: only the first improves.
TEST_F(LoopTest, StopsEarly) {
  std::string flags = "--init 1 --lr 0 --epochs 9 --eval-every 5 --early-stop 3 --log @/log --checkpoint @/ck ";
  ASSERT_EQ(run(flags), 0) << error;
  std::vector<Json> all = evaluations("log");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all.back()["step"], 20);
  EXPECT_EQ(all.back()["best_step"], 5);
  EXPECT_EQ(all.back()["best_loss"], all.front()["loss"]);
  EXPECT_EQ(all.back()["without_improvement"], 3);
  EXPECT_EQ(log("log").size(), 24u);
  EXPECT_NE(out.find("stopped early after step 20: 3 evaluations without improvement; the least loss, "),
            std::string::npos)
      << out;
  EXPECT_NE(out.find("was that after step 5\n"), std::string::npos) << out;
  // It stays over when it is resumed, unless more patience is asked for.
  std::vector<Json> whole = timeless("log");
  ASSERT_EQ(run("--checkpoint @/ck --resume --log @/log"), 0) << error;
  EXPECT_EQ(timeless("log"), whole);
  EXPECT_NE(out.find("--early-stop 3"), std::string::npos) << out;
  ASSERT_EQ(run("--checkpoint @/ck --resume --early-stop 5 --log @/log"), 0) << error;
  EXPECT_EQ(evaluations("log").back()["step"], 30);
}

TEST_F(LoopTest, ResumedEvaluationsGoOn) {
  std::string flags = "--init 1 --lr 0.01 --lr-schedule cosine --epochs 4 --eval-every 3 --early-stop 4 --log @/";
  ASSERT_EQ(run(flags + "whole"), 0) << error;
  for (int stop : {2, 6, 10, 14, 31}) {
    std::string more = concat(flags, "part --every 2 --checkpoint @/ck", stop);
    runKilled(more, stop);
    ASSERT_EQ(run(more + " --resume"), 0) << error;
    EXPECT_EQ(timeless("part"), timeless("whole")) << stop;
  }
}

TEST_F(LoopTest, KeepsTheBest) {
  // With so large a rate the loss rises and falls.
  std::string flags = "--init 1 --lr 1 --epochs 3 --eval-every 2 --every 5 --keep-best --log @/log --checkpoint @/ck";
  ASSERT_EQ(run(flags), 0) << error;
  std::vector<Json> all = evaluations("log");
  auto least = std::min_element(all.begin(), all.end(), [](auto &a, auto &b) { return a["loss"] < b["loss"]; });
  std::string name = concat("step-", (*least)["step"].get<int64_t>());
  ASSERT_NE(name, "step-30");
  EXPECT_EQ(readFile(folder / "ck/best"), name + "\n");
  EXPECT_EQ(checkpoints("ck").size(), 3u);
  Json manifest = Json::parse(readFile(folder / ("ck/" + name + "/manifest.json")));
  EXPECT_EQ(concat(manifest["eval_loss"].get<double>()), concat((*least)["loss"].get<double>()));
  EXPECT_EQ(manifest["evaluations"]["best_step"], (*least)["step"]);
}

/// The log has what the console says, under the same names, and the mean of an epoch is that of its steps.
TEST_F(LoopTest, LogsTheEpoch) {
  ASSERT_EQ(run("--init 1 --epochs 2 --log @/log"), 0) << error;
  std::vector<Json> lines = log("log");
  ASSERT_EQ(lines.size(), 22u);
  EXPECT_EQ(lines[0]["schema"], 1);
  double sum = 0;
  for (size_t i = 0; i < 10; ++i) {
    sum += lines[i]["loss"].get<double>();
    EXPECT_EQ(lines[i].contains("epoch_loss"), i == 9);
    EXPECT_EQ(lines[i].contains("accuracy"), i == 9);
  }
  EXPECT_NEAR(lines[9]["epoch_loss"], sum / 10, 1e-6 * sum);
  char text[128];
  std::snprintf(text, sizeof(text), "step 10  epoch loss %.4f  epoch accuracy %.4f  eval loss %.4f",
                lines[9]["epoch_loss"].get<double>(), lines[9]["epoch_accuracy"].get<double>(),
                lines[10]["loss"].get<double>());
  EXPECT_NE(out.find(text), std::string::npos) << out;
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].contains("schema"), i == 0);
    EXPECT_GT(lines[i]["samples_per_s"], 0);
    EXPECT_NEAR(lines[i]["wall_time"], static_cast<double>(time(nullptr)), 600);
    EXPECT_FALSE(lines[i].contains("tokens_per_s")); // a model without sequences
    EXPECT_FALSE(lines[i].contains("perplexity"));
  }
  ASSERT_EQ(captured(wordsOf("--data x=@/x.npy --data label=@/y.npy --init 1 --steps 3 --log @/log"),
                     [&](int argc, const char **argv) { return runProgram(program, argc, argv); }), 0);
  EXPECT_NE(out.find(concat("final loss ", log("log")[2]["loss"].dump(), " accuracy ")), std::string::npos);
  EXPECT_NE(out.find("(training, step 3)"), std::string::npos);
}

TEST_F(LoopTest, EvaluatesOnly) {
  ASSERT_EQ(run("--init 1 --epochs 2 --log @/log --checkpoint @/ck --save-weights @/w.safetensors"), 0) << error;
  Json last = evaluations("log").back();
  std::string before = readFile(folder / "log");
  ASSERT_EQ(run("--eval-only --weights @/w.safetensors --log @/alone", ""), 0) << error;
  ASSERT_EQ(log("alone").size(), 1u);
  EXPECT_EQ(log("alone")[0]["loss"], last["loss"]);
  EXPECT_EQ(log("alone")[0]["accuracy"], last["accuracy"]);
  EXPECT_NE(out.find("evaluation after step 0: loss " + last["loss"].dump()), std::string::npos) << out;
  // The checkpoint, whose folder and log stay as they are.
  std::vector<std::string> names = checkpoints("ck");
  ASSERT_EQ(run("--eval-only --checkpoint @/ck --resume --log @/log", ""), 0) << error;
  EXPECT_NE(out.find("evaluation after step 20: loss " + last["loss"].dump()), std::string::npos) << out;
  EXPECT_TRUE(readFile(folder / "log").starts_with(before));
  EXPECT_EQ(evaluations("log").size(), 3u);
  EXPECT_EQ(checkpoints("ck"), names);
  EXPECT_EQ(run("--eval-only --checkpoint @/none --resume", ""), 1);
  expectError("--eval-only: there is no checkpoint in");
  EXPECT_EQ(run("--eval-only --checkpoint @/ck", ""), 2);
  expectError("--eval-only --checkpoint needs --resume");
  EXPECT_EQ(run("--eval-only"), 2);
  expectError("--data excludes --eval-only");
}

TEST_F(LoopTest, EvaluationsNeedData) {
  for (const std::string flag : {"--eval-every 2", "--early-stop 2", "--keep-best --checkpoint @/ck", "--eval-only"}) {
    EXPECT_EQ(captured(wordsOf((flag == "--eval-only" ? "" : "--data x=@/x.npy --data label=@/y.npy ") + flag),
                       [&](int argc, const char **argv) { return runProgram(program, argc, argv); }),
              2);
    expectError(flag.substr(0, flag.find(' ')) + " needs --eval");
  }
  EXPECT_EQ(run("--eval-every 0"), 2);
  expectError("--eval-every: expected a whole number from 1");
}
} // namespace
