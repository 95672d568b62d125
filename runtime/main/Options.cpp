#include "runtime/main/Options.h"
#include "runtime/checkpoint/AtomicFile.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>

using namespace divisi::runtime;

namespace {
/// The values that CLI11 parses, before they are checked and converted to Options.
struct Raw {
  std::vector<std::string> data, eval;
  bool noShuffle = false;
  std::string schedule, describe;
};

std::string examples(const Manifest &manifest, const std::string &program) {
  std::string data, eval;
  for (const Input &input : manifest.inputs) {
    data += concat(" --data ", input.name, "=", input.name, ".npy");
    eval += concat(" --eval ", input.name, "=", input.name, "_test.npy");
  }
  return concat("Examples:\n  ", program, data, " --epochs 20", eval, " --save trained.onnx\n  ", program, data,
                " --epochs 100 --checkpoint ckpt --every 500 --resume\n  ", program, data,
                " --steps 1000 --lr-schedule cosine --warmup-steps 50 --log log.jsonl\n");
}

/// A whole number of at least `least`; the error text does not name the largest one.
CLI::Validator whole(int64_t least) {
  auto check = [least](const std::string &text) -> std::string {
    int64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    bool good = error == std::errc() && end == text.data() + text.size() && number >= least;
    return good ? "" : concat("expected a whole number from ", least, ", got '", text, "'");
  };
  return {check, "", "whole"};
}

void declare(CLI::App &app, Options &o, Raw &raw) {
  auto list = [&](const char *flag, std::vector<std::string> &to, const char *text) {
    app.add_option(flag, to, text)->type_name("NAME=FILE.npy")->allow_extra_args(false);
  };
  list("--data", raw.data, "training data of an input; once for each input");
  list("--eval", raw.eval, "evaluation data of an input; once for each input");
  app.add_option("--epochs", o.epochs, "passes over the training data [1]")->check(whole(1));
  app.add_option("--steps", o.steps, "stop after this many steps of training")->check(whole(1));
  app.add_flag("--no-shuffle", raw.noShuffle, "consecutive rows are consecutive batches");
  app.add_option("--seed", o.seed, "seed of shuffling and dropout")->check(whole(0))->capture_default_str();
  app.add_option("--lr", o.schedule.rate, "learning rate")->capture_default_str();
  app.add_option("--lr-schedule", raw.schedule, "how the learning rate falls: constant, linear, cosine or step")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "step"}))
      ->capture_default_str();
  app.add_option("--warmup-steps", o.schedule.warmup, "steps in which the learning rate rises")
      ->check(whole(0))
      ->capture_default_str();
  app.add_option("--lr-step-size", o.schedule.stepSize, "schedule 'step': steps between two falls")
      ->check(whole(0))
      ->capture_default_str();
  app.add_option("--lr-gamma", o.schedule.gamma, "schedule 'step': factor of each fall")->capture_default_str();
  app.add_option("--log", o.log, "write a line of JSON for each step and evaluation")->type_name("FILE.jsonl");
  app.add_flag("--log-grad-norms", o.logGradNorms, "add the gradients' L2 norms to the line of step 1");
  app.add_option("--profile", o.profile,
                 "write what each kernel, library call and collective took, for divisi profile --from; "
                 "and print it by kind, beside what was expected")
      ->type_name("FILE.jsonl");
  app.add_option("--trace", o.trace, "write the last step for chrome://tracing")->type_name("FILE.json");
  app.add_option("--save", o.save, "write the trained model")->type_name("FILE.onnx");
  app.add_option("--save-weights", o.saveWeights, "write the trained weights")->type_name("FILE.safetensors");
  auto *weights = app.add_option("--weights", o.weights, "start from these weights")->type_name("FILE.safetensors");
  app.add_option("--init", o.init, "start from random weights with this seed")
      ->type_name("SEED")
      ->check(whole(0))
      ->excludes(weights);
  auto *checkpoint = app.add_option("--checkpoint", o.checkpoint, "keep checkpoints in this folder")->type_name("DIR");
  app.add_option("--every", o.every, "steps between checkpoints [one epoch]")->check(whole(1))->needs(checkpoint);
  app.add_option("--keep-checkpoints", o.keepCheckpoints,
                 "how many of the last checkpoints to keep; that with the least loss of --eval is kept, too")
      ->check(whole(1))
      ->capture_default_str()
      ->needs(checkpoint);
  auto *resume = app.add_flag("--resume", o.resume,
                              "go on from the newest checkpoint, if there is one; what is not given again of --lr, "
                              "--lr-schedule, --warmup-steps, --lr-step-size, --lr-gamma, --epochs and --steps is as "
                              "before, and so are the seed and the order of the data")
                     ->needs(checkpoint);
  app.add_flag("--resume-anyway", o.resumeAnyway,
               "... from that of another model, optimizer or precision, too, if its state fits")
      ->needs(resume);
  app.add_option("--device", o.device,
                 "what computes: a GPU if there is one and the program has code for it, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads of a rank to compute with [OMP_NUM_THREADS or the cores allowed]")
      ->check(CLI::Range(1, 4096));
  app.add_option("--timeout", o.timeout,
                 "seconds that ranks wait for one that does not come or has fallen silent, before the job ends")
      ->check(CLI::Range(1.0, 1e9))
      ->capture_default_str();
  app.add_flag("--quiet", o.quiet, "print errors only");
  app.add_flag("--info", o.info, "print inputs, parameters and memory, then exit");
  app.add_option("--describe", raw.describe, "print the same as JSON, then exit")
      ->type_name("json")
      ->check(CLI::IsMember({"json"}));
}

Status sortFiles(const char *flag, const std::vector<std::string> &given, std::map<std::string, std::string> &files) {
  for (const std::string &item : given) {
    size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size())
      return Status::usage(concat(flag, " ", item, ": expected NAME=FILE.npy"));
    if (!files.emplace(item.substr(0, equals), item.substr(equals + 1)).second)
      return Status::usage(concat(flag, " ", item, ": this input has two files"));
  }
  return {};
}

/// Checks before training whether a file can be written after it.
Status checkTarget(const char *flag, const std::string &path) {
  std::error_code error;
  if (path.empty())
    return {};
  if (std::filesystem::is_directory(path, error))
    return Status::usage(concat(flag, " ", path, ": this is a folder"));
  if (!std::filesystem::is_directory(folderOf(path), error))
    return Status::usage(concat(flag, " ", path, ": there is no folder '", folderOf(path), "'"));
  return {};
}

Status finish(const Raw &raw, Options &o) {
  o.shuffle = !raw.noShuffle;
  o.describe = !raw.describe.empty();
  std::optional<Schedule::Kind> kind = Schedule::parse(raw.schedule);
  if (!kind)
    return Status::usage(concat("unknown learning rate schedule '", raw.schedule, "'"));
  o.schedule.kind = *kind;
  if (!std::isfinite(o.schedule.rate) || o.schedule.rate < 0)
    return Status::usage("--lr: expected a finite number that is not negative");
  if (!std::isfinite(o.schedule.gamma) || o.schedule.gamma < 0)
    return Status::usage("--lr-gamma: expected a finite number that is not negative");
  if (o.schedule.kind == Schedule::Kind::Step && o.schedule.stepSize < 1)
    return Status::usage("--lr-schedule step needs --lr-step-size");
  for (auto status : {sortFiles("--data", raw.data, o.data), sortFiles("--eval", raw.eval, o.eval),
                      checkTarget("--log", o.log), checkTarget("--profile", o.profile), checkTarget("--trace", o.trace),
                      checkTarget("--save", o.save), checkTarget("--save-weights", o.saveWeights)})
    if (!status.ok())
      return status;
  return {};
}
} // namespace

Result<std::optional<Options>> divisi::runtime::parseOptions(const Manifest &manifest, int argc,
                                                             const char *const *argv, bool print) {
  Options options;
  options.schedule = {Schedule::Kind::Constant, manifest.learningRate, manifest.warmupSteps, manifest.stepSize,
                      manifest.gamma};
  Raw raw;
  raw.schedule = manifest.schedule;
  std::string program = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "program";
  CLI::App app("Trains '" + manifest.model + "': compiled by Divisi.", program);
  app.footer(examples(manifest, argc > 0 ? argv[0] : program));
  app.get_formatter()->column_width(34);
  declare(app, options, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    if (print)
      std::cout << app.help();
    return std::optional<Options>();
  } catch (const CLI::ParseError &e) {
    return Status::usage(e.what());
  }
  options.seedGiven = app.count("--seed") > 0;
  options.words.assign(argv, argv + argc);
  if (Status status = finish(raw, options); !status.ok())
    return status;
  return std::optional(std::move(options));
}

namespace {
/// The shortest text that parses as this number.
std::string exactly(double number) {
  std::array<char, 40> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

/// Whether a command line contains a flag, as "--flag" or "--flag=value".
bool gives(const std::vector<std::string> &words, const std::string &flag) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string &word) { return word == flag || word.starts_with(flag + "="); });
}
} // namespace

std::map<std::string, std::string> Options::training() const {
  std::map<std::string, std::string> flags = {{"--lr", exactly(schedule.rate)},
                                              {"--lr-schedule", Schedule::nameOf(schedule.kind)},
                                              {"--warmup-steps", std::to_string(schedule.warmup)},
                                              {"--lr-step-size", std::to_string(schedule.stepSize)},
                                              {"--lr-gamma", exactly(schedule.gamma)}};
  if (epochs)
    flags["--epochs"] = std::to_string(*epochs);
  if (steps)
    flags["--steps"] = std::to_string(*steps);
  return flags;
}

Result<Options> divisi::runtime::withKept(const Manifest &manifest, const Options &options,
                                          const std::map<std::string, std::string> &kept, std::string &taken) {
  std::vector<std::string> words = options.words;
  bool ends = gives(words, "--epochs") || gives(words, "--steps"); // both together determine when training ends
  std::map<std::string, std::string> before = options.training();
  for (const auto &[flag, text] : kept) {
    if (!before.contains(flag) && flag != "--epochs" && flag != "--steps")
      return failure("--resume: the checkpoint has the unknown flag ", flag);
    if (gives(options.words, flag) || (ends && (flag == "--epochs" || flag == "--steps")))
      continue;
    words.insert(words.begin() + 1, concat(flag, "=", text));
    if (auto it = before.find(flag); it == before.end() || it->second != text)
      taken += concat(" ", flag, " ", text);
  }
  std::vector<const char *> argv;
  for (const std::string &word : words)
    argv.push_back(word.c_str());
  Result<std::optional<Options>> read = parseOptions(manifest, static_cast<int>(argv.size()), argv.data(), false);
  if (!read.ok())
    return read.status();
  Options merged = std::move(**read);
  merged.words = options.words;
  return merged;
}

std::string Options::common() const {
  std::ostringstream text;
  text.precision(17);
  auto given = [&](const char *name, bool is) {
    if (is)
      text << ' ' << name;
  };
  text << "--lr " << schedule.rate << " --lr-schedule " << static_cast<int>(schedule.kind) << " --warmup-steps "
       << schedule.warmup << " --lr-step-size " << schedule.stepSize << " --lr-gamma " << schedule.gamma << " --seed "
       << seed << " --every " << every << " --keep-checkpoints " << keepCheckpoints << " --timeout " << timeout;
  if (steps)
    text << " --steps " << *steps;
  if (epochs)
    text << " --epochs " << *epochs;
  if (init)
    text << " --init " << *init;
  given("--no-shuffle", !shuffle);
  given("--eval", !eval.empty());
  given("--weights", !weights.empty());
  given("--checkpoint", !checkpoint.empty());
  given("--resume", resume);
  given("--resume-anyway", resumeAnyway);
  given("--save", !save.empty());
  given("--save-weights", !saveWeights.empty());
  given("--log", !log.empty());
  given("--log-grad-norms", logGradNorms);
  given("--profile", !profile.empty());
  given("--trace", !trace.empty());
  given("--quiet", quiet);
  return text.str();
}
