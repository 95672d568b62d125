// Whole runs of a program, in this process.
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/main/RunProgram.h"
#include "test/runtime/FakeProgram.h"
#include "test/runtime/RunFixture.h"

#include <csignal>
#include <cstring>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class ProgramTest : public RunFixture {
protected:
  ProgramTest() {
    auto x = randomNumbers(42 * 3, 1);
    std::vector<int64_t> label;
    for (size_t i = 0; i < 42; ++i)
      label.push_back(std::lround(x[3 * i] - 2 * x[3 * i + 1] + 3 * x[3 * i + 2] + 1));
    writeNpy(folder / "x.npy", "<f4", {42, 3}, x);
    writeNpy(folder / "y.npy", "<i8", {42}, label);
    x.resize(10 * 3), label.resize(10);
    writeNpy(folder / "xt.npy", "<f4", {10, 3}, x);
    writeNpy(folder / "yt.npy", "<i8", {10}, label);
  }
  ~ProgramTest() override { fakeHook = nullptr; }

  /// The exit code.
  int run(const std::string &arguments, bool data = true) {
    return captured(wordsOf((data ? "--data x=@/x.npy --data label=@/y.npy " : "") + arguments),
                    [&](int argc, const char **argv) { return runProgram(program, argc, argv); });
  }
  /// The parts of a log that two runs must have in common: the losses, exactly as printed, and the learning rates.
  std::vector<std::string> losses(const std::string &name) {
    std::vector<std::string> all;
    for (const Json &line : log(name))
      all.push_back(concat(line.contains("eval") ? "eval " : "", line["step"], " ", line["epoch"], " ", line["loss"],
                           " ", line.value("lr", 0.0)));
    return all;
  }
  DivisiProgram program = fakeProgram();
  std::string manifest; ///< another one of the program
};

TEST_F(ProgramTest, TrainsAndLogs) {
  ASSERT_EQ(run("--init 1 --epochs 3 --eval x=@/xt.npy --eval label=@/yt.npy --log @/log --log-grad-norms"), 0)
      << error;
  auto lines = log("log");
  ASSERT_EQ(lines.size(), 33u);
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[0]["epoch"], 1);
  EXPECT_EQ(lines[0]["lr"], 0.05);
  EXPECT_GT(lines[0]["samples_per_s"], 0);
  EXPECT_EQ(lines[0]["grad_norms"].size(), 2u);
  EXPECT_GT(lines[0]["grad_norms"]["bias"], 0);
  EXPECT_FALSE(lines[1].contains("grad_norms"));
  EXPECT_EQ(lines[10]["eval"], true);
  EXPECT_EQ(lines[10]["step"], 10);
  EXPECT_EQ(lines[11]["epoch"], 2);
  EXPECT_LT(lines[32]["loss"], lines[10]["loss"]);
  EXPECT_GT(lines[32]["accuracy"], 0.0);
  auto text = linesOf(out);
  EXPECT_NE(text.front().find("last 2 of 42 samples"), std::string::npos);
  EXPECT_TRUE(text[3].starts_with("epoch 3/3  step 30  epoch loss ")) << out;
  EXPECT_NE(text[3].find("eval accuracy"), std::string::npos);
  EXPECT_EQ(text.back(), concat("final loss ", lines[32]["loss"].dump(), " accuracy ", lines[32]["accuracy"].dump(),
                                " (evaluation after step 30)"));
  EXPECT_EQ(error, "");
}

/// The losses in the log are those of the model, computed here step by step.
TEST_F(ProgramTest, LossesAreThoseOfTheModel) {
  ASSERT_EQ(run("--init 5 --steps 25 --no-shuffle --seed 3 --lr 0.02 --log @/log"), 0) << error;
  alignas(64) char arena[fakeArenaBytes] = {};
  ASSERT_EQ(run("--init 5 --steps 1 --lr 0 --save-weights @/start"), 0) << error;
  auto start = *SafetensorsFile::open(folder / "start");
  std::memcpy(arena + 128, start.entries().at("w").data, 12);
  writeNumber(arena + 192, DataType::F32, 0.25);
  writeNumber(arena + 384, DataType::F32, 1);
  writeInteger(arena + 512, DataType::I64, 3);
  writeNumber(arena + 576, DataType::F32, 0.02);
  std::string x = readFile(folder / "x.npy").substr(128), y = readFile(folder / "y.npy").substr(128);
  ASSERT_EQ(x.size(), 42u * 12);
  auto lines = log("log");
  ASSERT_EQ(lines.size(), 25u);
  for (size_t step = 0; step < 25; ++step) {
    size_t row = step % 10 * 4; // ten batches, then from the beginning
    std::memcpy(arena, x.data() + row * 12, 48);
    std::memcpy(arena + 64, y.data() + row * 8, 32);
    double loss = 0;
    for (int r = 0; r < 4; ++r) {
      double error = readNumber(arena + 192, DataType::F32) - double(readInteger(arena + 64 + 8 * r, DataType::I64));
      for (int f = 0; f < 3; ++f)
        error += readNumber(arena + 4 * (3 * r + f), DataType::F32) * readNumber(arena + 128 + 4 * f, DataType::F32);
      loss += error * error / 4;
    }
    EXPECT_NEAR(lines[step]["loss"], loss, 1e-5 * loss) << step;
    fakeTrainDirect(arena);
  }
}

TEST_F(ProgramTest, ShufflingDiffersByEpochAndSeed) {
  ASSERT_EQ(run("--init 1 --lr 0 --epochs 2 --log @/a"), 0);
  ASSERT_EQ(run("--init 1 --lr 0 --epochs 2 --log @/b"), 0);
  ASSERT_EQ(run("--init 1 --lr 0 --epochs 2 --seed 9 --log @/c"), 0);
  ASSERT_EQ(run("--init 1 --lr 0 --epochs 2 --no-shuffle --log @/d"), 0);
  auto a = losses("a"), c = losses("c"), d = losses("d");
  EXPECT_EQ(a, losses("b"));
  EXPECT_NE(a, c);
  auto lossOf = [](const std::string &line) { return line.substr(line.find(' ', line.find(' ') + 1)); };
  for (size_t i = 0; i < 10; ++i)
    EXPECT_EQ(lossOf(d[i]), lossOf(d[i + 10]));
  EXPECT_NE(lossOf(a[0]), lossOf(a[10]));
}

TEST_F(ProgramTest, SchedulesComeFromFlagsOrTheManifest) {
  ASSERT_EQ(run("--init 1 --steps 8 --lr 0.08 --warmup-steps 4 --lr-schedule linear --log @/log"), 0) << error;
  std::vector<double> rates;
  for (const Json &line : log("log"))
    rates.push_back(line["lr"]);
  std::vector<double> want = {0.02, 0.04, 0.06, 0.08, 0.08, 0.06, 0.04, 0.02};
  EXPECT_LT(worstError(rates, want), 1e-9);
  std::string manifest = fakeManifest;
  const std::string constant = "\"lr_schedule\": \"constant\"";
  manifest.replace(manifest.find(constant), constant.size(), "\"lr_schedule\": \"step\"");
  program.manifest = manifest.c_str(), program.manifest_bytes = manifest.size();
  ASSERT_EQ(run("--init 1 --steps 5 --lr-step-size 2 --log @/log"), 0) << error;
  rates.clear();
  for (const Json &line : log("log"))
    rates.push_back(line["lr"]);
  want = {0.05, 0.05, 0.005, 0.005, 0.0005};
  EXPECT_LT(worstError(rates, want), 1e-9);
}

TEST_F(ProgramTest, ResumedTrainingIsTheSameBitForBit) {
  std::string common = "--init 1 --epochs 4 --eval x=@/xt.npy --eval label=@/yt.npy --lr-schedule cosine ";
  ASSERT_EQ(run(common + "--log @/whole --save-weights @/whole.safetensors --save @/whole.onnx"), 0) << error;
  for (int stop : {1, 7, 10, 13, 39}) {
    // Ends after `stop` steps as if killed, with a checkpoint in every third step.
    std::string more = concat("--checkpoint @/ck", stop, " --every 3 --log @/part --save-weights @/part.safetensors");
    static int last;
    last = stop;
    fakeHook = [](int64_t step) {
      if (step == last)
        throw std::runtime_error("killed");
    };
    ASSERT_EQ(run(common + more), 1);
    fakeHook = nullptr;
    ASSERT_EQ(run(common + more + " --resume"), 0) << error;
    if (stop >= 3) {
      EXPECT_NE(out.find(concat("resumed from ", folder.path.string(), "/ck", stop, "/step-", stop / 3 * 3)),
                std::string::npos);
    }
    EXPECT_EQ(losses("part"), losses("whole")) << stop;
    EXPECT_EQ(readFile(folder / "part.safetensors"), readFile(folder / "whole.safetensors")) << stop;
  }
  // Resumed when no steps are left.
  ASSERT_EQ(run(common + "--checkpoint @/ck7 --every 3 --resume --save @/again.onnx --log @/part"), 0) << error;
  EXPECT_EQ(losses("part"), losses("whole"));
  EXPECT_EQ(readFile(folder / "again.onnx"), readFile(folder / "whole.onnx"));
}

TEST_F(ProgramTest, AResumedLogKeepsOtherLines) {
  std::string flags = "--init 1 --log @/log --checkpoint @/ck --every 2 --steps ";
  ASSERT_EQ(run(flags + "2"), 0) << error;
  std::string lines = readFile(folder / "log"), notes = "# notes\n\n{\"remark\": 1}\n";
  writeBytes(folder / "log", notes + lines + "an unfinished li");
  ASSERT_EQ(run(flags + "4 --resume"), 0) << error;
  std::string after = readFile(folder / "log");
  EXPECT_TRUE(after.starts_with(notes + lines.substr(0, lines.find("\"step\":2")))) << after;
  EXPECT_EQ(after.find("unfinished"), std::string::npos);
  EXPECT_NE(after.find("\"step\":4"), std::string::npos);
}

TEST_F(ProgramTest, ASignalEndsTrainingWithACheckpoint) {
  ASSERT_EQ(run("--init 1 --epochs 2 --log @/whole"), 0) << error;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    static int current;
    current = number;
    fakeHook = [](int64_t step) {
      if (step == 4)
        raise(current);
    };
    std::string flags = concat("--init 1 --epochs 2 --log @/part --checkpoint @/ck", number);
    EXPECT_EQ(run(flags), 128 + number);
    EXPECT_NE(error.find("after step 5"), std::string::npos);
    fakeHook = nullptr;
    EXPECT_EQ(readFile(folder / concat("ck", number, "/latest")), "step-5\n");
    ASSERT_EQ(run(flags + " --resume"), 0) << error;
    EXPECT_EQ(losses("part"), losses("whole"));
  }
}

TEST_F(ProgramTest, ResumeRefusesOtherTrainings) {
  ASSERT_EQ(run("--init 1 --steps 5 --checkpoint @/ck"), 0) << error;
  EXPECT_EQ(run("--init 1 --steps 5 --checkpoint @/ck"), 2);
  expectError("already holds step-5: add --resume");
  EXPECT_EQ(run("--steps 9 --checkpoint @/ck --resume --seed 4"), 2);
  expectError("--seed 0");
  EXPECT_EQ(run("--steps 9 --checkpoint @/ck --resume --no-shuffle"), 2);
  expectError("--no-shuffle");
  EXPECT_EQ(run("--data x=@/xt.npy --data label=@/yt.npy --steps 9 --checkpoint @/ck --resume", false), 1);
  expectError("made with 42 training samples, but --data has 10");
  EXPECT_EQ(run("--init 1 --steps 5 --checkpoint @/new --resume"), 0);
  EXPECT_NE(out.find("no checkpoint in"), std::string::npos);
}

/// The flags of a run are kept unless they are given again.
TEST_F(ProgramTest, ResumedTrainingKeepsItsFlags) {
  std::string flags = "--lr 0.07 --lr-schedule step --lr-step-size 4 --lr-gamma 0.3 --warmup-steps 2 --epochs 2 --seed 5 ";
  auto part = [&](const std::string &name, const std::string &checkpoint) {
    fakeHook = [](int64_t step) {
      if (step == 7)
        throw std::runtime_error("killed");
    };
    EXPECT_EQ(run("--init 1 " + flags + "--every 3 --log @/" + name + " --checkpoint @/" + checkpoint), 1);
    fakeHook = nullptr;
  };
  ASSERT_EQ(run("--init 1 " + flags + "--log @/whole"), 0) << error;
  part("part", "ck");
  ASSERT_EQ(run("--checkpoint @/ck --resume --log @/part"), 0) << error;
  EXPECT_EQ(losses("part"), losses("whole"));
  EXPECT_NE(out.find("step-6 (step 6, epoch 1); taken from it: --epochs 2 --lr 0.07 --lr-gamma 0.3 --lr-schedule step "
                     "--lr-step-size 4 --warmup-steps 2 --seed 5\n"),
            std::string::npos)
      << out;
  // Flags that are given again change from there on; --epochs and --steps together determine when training ends.
  part("again", "ck2");
  ASSERT_EQ(run("--checkpoint @/ck2 --resume --lr 0.5 --lr-gamma=1 --steps 9 --log @/again"), 0) << error;
  auto lines = log("again");
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[5]["lr"], 0.07);
  EXPECT_EQ(lines[6]["lr"], 0.5);
  EXPECT_NE(out.find("taken from it: --lr-schedule step --lr-step-size 4 --warmup-steps 2 --seed 5\n"), std::string::npos)
      << out;
  // A flag replaces the one that says the same in another way.
  ASSERT_EQ(run("--checkpoint @/ck2 --resume --steps 12 --lr 1 --lr-gamma 0.5 --lr-milestones 9,11 --warmup-steps 1 --log @/again"), 0) << error;
  EXPECT_EQ(log("again").back()["lr"], 0.25);
  ASSERT_EQ(run("--checkpoint @/ck2 --resume --steps 14 --lr-step-size 4 --log @/again"), 0) << error;
  EXPECT_EQ(log("again").back()["lr"], 0.125); // step 13 after one of warm-up: three falls
  // The order of the data, too.
  ASSERT_EQ(run("--init 1 --steps 25 --no-shuffle --log @/whole"), 0) << error;
  ASSERT_EQ(run("--init 1 --steps 13 --no-shuffle --log @/part --checkpoint @/ck3"), 0) << error;
  ASSERT_EQ(run("--steps 25 --log @/part --checkpoint @/ck3 --resume"), 0) << error;
  EXPECT_EQ(losses("part"), losses("whole"));
  EXPECT_NE(out.find("taken from it: --no-shuffle\n"), std::string::npos) << out;
}

/// Every schedule goes on as if training had not been interrupted. The program's batch is 4.
TEST_F(ProgramTest, ResumedTrainingKeepsItsSchedule) {
  int number = 0;
  for (const char *flags :
       {"--lr-schedule polynomial --lr-power 1.5", "--lr-schedule one-cycle", "--lr-schedule wsd --lr-decay-steps 4",
        "--lr-schedule step --lr-milestones 3,6", "--base-batch 3 --warmup-steps 8",
        "--base-batch 16 --lr-scale sqrt --lr-schedule cosine"}) {
    std::string common = concat("--lr 0.04 --steps 10 --init 1 ", flags), folder = concat(" --checkpoint @/sch", number++);
    ASSERT_EQ(run(common + " --log @/whole"), 0) << flags << error;
    fakeHook = [](int64_t step) {
      if (step == 5)
        throw std::runtime_error("killed");
    };
    EXPECT_EQ(run(common + folder + " --every 2 --log @/part"), 1);
    fakeHook = nullptr;
    ASSERT_EQ(run("--resume --log @/part" + folder), 0) << flags << error;
    auto whole = log("whole"), part = log("part");
    ASSERT_EQ(whole.size(), part.size()) << flags;
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_EQ(whole[i]["lr"], part[i]["lr"]) << flags << ", step " << i;
  }
  EXPECT_NEAR(log("whole")[0]["lr"].get<double>(), 0.02, 1e-9);
}

TEST_F(ProgramTest, ResumeRefusesOtherPrograms) {
  auto meaning = [&](const std::string &optimizer) {
    manifest = fakeManifest;
    manifest.replace(1, 0, R"("program": {"model": "sha256:1", "optimizer": ")" + optimizer + R"("}, )");
    program.manifest = manifest.c_str(), program.manifest_bytes = manifest.size();
  };
  meaning("sgd momentum 0.9");
  ASSERT_EQ(run("--init 1 --steps 5 --checkpoint @/ck"), 0) << error;
  ASSERT_EQ(run("--steps 6 --checkpoint @/ck --resume"), 0) << error;
  meaning("sgd momentum 0.8");
  EXPECT_EQ(run("--steps 7 --checkpoint @/ck --resume"), 1);
  expectError("its optimizer is sgd momentum 0.9, this program's sgd momentum 0.8 (--resume-anyway goes on");
  EXPECT_EQ(run("--steps 7 --checkpoint @/ck --resume --resume-anyway"), 0) << error;
  EXPECT_EQ(run("--steps 8 --checkpoint @/ck --resume"), 0) << error; // its own by now
}

TEST_F(ProgramTest, ALossThatIsNoNumberEndsTraining) {
  writeBytes(folder / "w.safetensors", "old");
  EXPECT_EQ(run("--init 1 --lr 1e12 --epochs 3 --log @/log --save-weights @/w.safetensors"), 1);
  expectError("the loss of step 3 is infinite");
  EXPECT_EQ(readFile(folder / "w.safetensors"), "old");
  auto lines = log("log");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[2]["loss"].is_null());
  std::vector<float> x(42 * 3, 1);
  x[20] = NAN;
  writeNpy(folder / "x.npy", "<f4", {42, 3}, x);
  EXPECT_EQ(run("--init 1 --no-shuffle"), 1);
  expectError("the loss of step 2 is NaN");
}

TEST_F(ProgramTest, WrongUsageIsExitCodeTwo) {
  struct Case {
    const char *arguments, *message;
  };
  for (const Case &c : std::initializer_list<Case>{{"--epoch 3", "--epoch"},
                                                   {"--epochs -3", "--epochs"},
                                                   {"--epochs x", "--epochs"},
                                                   {"--lr nan", "--lr"},
                                                   {"--lr-schedule exp", "--lr-schedule"},
                                                   {"--lr-schedule step", "--lr-step-size"},
                                                   {"--lr-power nan", "--lr-power"},
                                                   {"--base-batch 0", "--base-batch"},
                                                   {"--lr-scale sqrt", "--base-batch"},
                                                   {"--lr-milestones 0", "--lr-milestones"},
                                                   {"--every 3", "--checkpoint"},
                                                   {"--resume", "--checkpoint"},
                                                   {"--threads 0", "--threads"},
                                                   {"--init 1 --weights a", "--weights"},
                                                   {"--data x", "--data x: expected NAME=FILE"},
                                                   {"--data x=@/x.npy", "this input has two files"},
                                                   {"--data z=@/x.npy", "the model has no input 'z'"},
                                                   {"--eval x=@/x.npy", "no file for input 'label': give --eval"},
                                                   {"--save @/none/a.onnx", "there is no folder"},
                                                   {"--save @", "this is a folder"},
                                                   {"--save @/a.safetensors", "--save writes ONNX"},
                                                   {"--save-weights @/a.onnx", "--save-weights safetensors"},
                                                   {"stray", "stray"}}) {
    EXPECT_EQ(run(c.arguments), 2) << c.arguments;
    expectError(c.message);
  }
  EXPECT_EQ(run("--epochs 3", false), 2);
  expectError("no file for input 'x': give --data x=FILE.npy with F32 [N, 3]");
}

/// Before the first step: afterwards, what was computed would be lost.
TEST_F(ProgramTest, FilesThatCannotBeWrittenAreNoticedBeforeTraining) {
  std::string tooLong = "@/" + std::string(300, 'a');
  for (std::string flag : {"--save", "--save-weights", "--trace", "--profile"}) {
    EXPECT_EQ(run(concat("--init 1 --log @/log ", flag, " ", tooLong)), 1) << flag;
    expectError(concat(flag, ": cannot write '"));
    EXPECT_FALSE(std::filesystem::exists(folder / "log")) << flag;
  }
  EXPECT_EQ(run("--init 1 --epochs 1 --save-weights /dev/null --trace /dev/null"), 0) << error;
}

TEST_F(ProgramTest, FilesDoNotCommandTheTerminal) {
  writeBytes(folder / "a.csv", "a,b,c\n1,\x1b[31m\tred\x7f\xc3\xa9,3\n1,2,3\n1,2,3\n1,2,3\n");
  writeBytes(folder / "y.csv", "label\n1\n1\n1\n1\n");
  EXPECT_EQ(run("--data x=@/a.csv --data label=@/y.csv --init 1 --no-shuffle", false), 1);
  expectError("has '\\x1b[31m\\x09red\\x7f\xc3\xa9' in row 0, column 'b', which is no number");
  std::string type = std::string("(\x1b") + std::string(5000, '(');
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (4, 3), }\n";
  std::string start = "\x93NUMPY";
  start += {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  writeBytes(folder / "a.npy", start + header + std::string(48, '\0'));
  EXPECT_EQ(run("--data x=@/a.npy --data label=@/y.csv --init 1", false), 1);
  expectError("has elements of type '(\\x1b(((");
  EXPECT_LT(error.size(), 400U);
}

TEST_F(ProgramTest, OutputsDoNotReplaceDataOrEachOther) {
  std::string before = readFile(folder / "x.npy");
  std::filesystem::create_symlink(folder / "x.npy", folder / "link");
  for (std::string flag : {"--log", "--save", "--save-weights", "--trace", "--profile"})
    for (std::string name : {"@/x.npy", "@/./x.npy", "@/link"}) {
      EXPECT_EQ(run(concat("--init 1 ", flag, " ", name)), 2) << flag;
      expectError(": this is the data of 'x', which would be lost: name another file");
    }
  EXPECT_EQ(readFile(folder / "x.npy"), before);
  ASSERT_EQ(run("--init 1 --epochs 1 --checkpoint @/ck --every 1 --save-weights @/w.safetensors"), 0) << error;
  ASSERT_EQ(run("--weights @/w.safetensors --save-weights @/w.safetensors --log @/ck/log"), 0) << error;
  ASSERT_EQ(run("--weights @/w.safetensors --log @/w.safetensors"), 2);
  expectError(": this is the file of --weights, which would be lost: name another file");
  std::string latest = readFile(folder / "ck/latest");
  latest.erase(latest.find_last_not_of('\n') + 1);
  ASSERT_EQ(run(concat("--resume --checkpoint @/ck --epochs 3 --save-weights @/ck/", latest, "/state.safetensors")), 2);
  expectError(": this is a file of --checkpoint, which would be lost: name another file");
  ASSERT_EQ(run(concat("--init 1 --trace ", std::filesystem::read_symlink("/proc/self/exe").string())), 2);
  expectError(": this is this program, which would be lost: name another file");
  EXPECT_EQ(run("--init 1 --save @/out --save-weights @/./out"), 2);
  expectError("/./out: --save writes this file, too: name another one");
}

TEST_F(ProgramTest, FailuresAreExitCodeOne) {
  EXPECT_EQ(run(""), 1);
  expectError("line.safetensors");
  EXPECT_EQ(run("--weights @/x.npy"), 1);
  expectError("x.npy'");
  EXPECT_EQ(run("--init 1 --checkpoint @/x.npy"), 1);
  expectError("cannot make the folder");
  EXPECT_EQ(run("--data x=@/xt.npy --data label=@/yt.npy --init 1 --eval x=@/xt.npy --eval label=@/y.npy", false), 1);
  expectError("y.npy' has 42 samples");
  program.arena_bytes = uint64_t(1) << 62;
  EXPECT_EQ(run("--init 1"), 1);
  expectError("cannot reserve");
  program = fakeProgram();
  program.manifest_bytes = 100;
  EXPECT_EQ(run("--init 1"), 1);
  expectError("the program's manifest is not valid JSON");
  program = fakeProgram();
  static constexpr DivisiTask failing = [](DivisiContext *context, char *arena, char *, const char *) {
    DivisiTopK params = {1, 2, 1, 3, 1, 0, 4};
    void *buffers[] = {arena, arena, arena};
    divisi_top_k(context, &params, buffers);
  };
  const DivisiTask tasks[] = {failing, failing};
  program.tasks = tasks;
  EXPECT_EQ(run("--init 1"), 1);
  expectError("step 1: top-k: cannot take 3 of 2 values");
}

TEST_F(ProgramTest, AFullDiskIsExitCodeOne) {
  std::string full = fullDevice(folder);
  if (full.empty())
    GTEST_SKIP() << "needs the right to make a device";
  for (const char *flag : {"--log ", "--save-weights ", "--save "}) {
    EXPECT_EQ(run("--init 1 " + (flag + full)), 1);
    expectError("'" + full + "': No space left on device");
  }
}

TEST_F(ProgramTest, ADataSetSmallerThanABatchIsRefused) {
  writeNpy(folder / "x.npy", "<f4", {3, 3}, std::vector<float>(9));
  writeNpy(folder / "y.npy", "<i8", {3}, std::vector<int64_t>(3));
  EXPECT_EQ(run("--init 1"), 1);
  expectError("3 samples are fewer than one batch of 4");
  // Evaluation pads it: the loss is the mean over three samples.
  ASSERT_EQ(
      run("--data x=@/xt.npy --data label=@/yt.npy --eval x=@/x.npy --eval label=@/y.npy --lr 0 --init 1 --log @/log",
          false),
      0)
      << error;
  EXPECT_DOUBLE_EQ(log("log").back()["loss"], 0.0625); // bias 0.25, features and labels 0
  EXPECT_DOUBLE_EQ(log("log").back()["accuracy"], 1);
}

TEST_F(ProgramTest, WeightsLieBesideTheProgram) {
  ASSERT_EQ(run("--init 1 --steps 3 --save-weights @/w.safetensors"), 0) << error;
  ASSERT_EQ(run("--weights @/w.safetensors --lr 0 --save-weights @/v.safetensors"), 0) << error;
  auto w = *SafetensorsFile::open(folder / "w.safetensors"), v = *SafetensorsFile::open(folder / "v.safetensors");
  EXPECT_EQ(std::memcmp(w.entries().at("w").data, v.entries().at("w").data, 12), 0);
  std::filesystem::path beside =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "divisi-program-test.safetensors";
  std::filesystem::copy_file(folder / "w.safetensors", beside, std::filesystem::copy_options::overwrite_existing);
  std::string manifest = fakeManifest;
  manifest.replace(manifest.find("line.safetensors"), 16, "divisi-program-test.safetensors");
  program.manifest = manifest.c_str(), program.manifest_bytes = manifest.size();
  EXPECT_EQ(run("--lr 0"), 0) << error;
  manifest.replace(manifest.find("\"hashes\": \"\""), 12, "\"hashes\": \"0123456789abcdef\"");
  program.manifest = manifest.c_str(), program.manifest_bytes = manifest.size();
  EXPECT_EQ(run("--lr 0"), 1);
  expectError("is not the weights file that this program was compiled with");
  std::filesystem::remove(beside);
}

TEST_F(ProgramTest, DescribesItself) {
  EXPECT_EQ(run("--info", false), 0);
  EXPECT_NE(out.find("x  F32 [4, 3]"), std::string::npos);
  EXPECT_NE(out.find("parameters: 4"), std::string::npos);
  EXPECT_EQ(run("--describe json", false), 0);
  Json json = Json::parse(out);
  EXPECT_EQ(json["parameter_count"], 4);
  EXPECT_EQ(json["arena_bytes"], fakeArenaBytes);
  EXPECT_EQ(json["inputs"][1]["name"], "label");
  EXPECT_EQ(run("--help", false), 0);
  EXPECT_NE(out.find("--data x=x.npy --data label=label.npy"), std::string::npos);
  EXPECT_EQ(run("--init 1 --quiet"), 0);
  EXPECT_EQ(out, "");
}
} // namespace
