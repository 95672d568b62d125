#include "runtime/main/Options.h"
#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/data/TokenFiles.h"
#include "runtime/data/images/ImageList.h"
#include "runtime/main/FlagErrors.h"
#include "runtime/main/NumberRange.h"

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
  std::vector<std::string> data, eval, predict, augment;
  bool noShuffle = false;
  std::string schedule, describe, tokenType;
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
    if (error == std::errc::result_out_of_range && !text.starts_with('-'))
      return concat("'", text, "' is too large");
    bool good = error == std::errc() && end == text.data() + text.size() && number >= least;
    return good ? "" : concat("expected a whole number from ", least, ", got '", text, "'");
  };
  return {check, "", "whole"};
}

void declare(CLI::App &app, Options &o, Raw &raw) {
  auto list = [&](const char *flag, std::vector<std::string> &to, const char *text) {
    return app.add_option(flag, to, text)->type_name("NAME=FILE")->allow_extra_args(false);
  };
  auto *data = list("--data", raw.data,
                    "training data of an input; once for each input: FILE.npy, FILE.csv or FILE.csv:COLUMN,COLUMN, "
                    "tokens in FILE.bin (also several times, or 'part*.bin'), whose next tokens are then the label, or "
                    "images in FOLDER/CLASS/ or in FILE.tar ('part-{000..123}.tar'), whose classes are then the label");
  auto *eval = list("--eval", raw.eval, "evaluation data of an input, in the same way");
  auto *feed = app.add_option("--feed", o.feed,
                              "batches that another process writes to memory that it shares, instead of --data "
                              "(docs/data.md); training ends with them")
                   ->type_name("RING")
                   ->excludes(data);
  app.add_option("--token-type", raw.tokenType,
                 "tokens in files without llm.c's header [uint16; uint32 for more than 65536 tokens]")
      ->check(CLI::IsMember({"uint16", "uint32"}));
  auto numbers = [&](const char *flag, std::vector<double> &to, const char *text) {
    app.add_option(flag, to, text)->type_name("X,X,X")->delimiter(',')->allow_extra_args(false);
  };
  auto *augment = app.add_option("--augment", raw.augment,
                 "images of --data: crop takes a random part (of 8 to 100 % of the area), flip mirrors half of them [the "
                 "middle, as of --eval]")
      ->type_name("crop,flip")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"crop", "flip"}));
  app.add_option("--resize", o.images.shorter,
                 "images: pixels of the shorter side before the middle is taken [those of the input]")
      ->check(whole(1));
  numbers("--mean", o.images.mean, "images: what is subtracted from values from 0 to 1, once or for each channel [ImageNet's; gray: 0]");
  numbers("--std", o.images.deviation, "images: by what they are then divided [ImageNet's; gray: 1]");
  app.add_option("--workers", o.images.workers, "threads of a rank that prepare images [the cores allowed]")->check(CLI::Range(1, 4096));
  auto *epochs = app.add_option("--epochs", o.epochs, "passes over the training data [1]")->check(whole(1))->excludes(feed);
  auto *steps = app.add_option("--steps", o.steps, "stop after this many steps of training")->check(whole(1));
  auto *evalEvery = app.add_option("--eval-every", o.evalEvery,
                                   "steps between evaluations [one epoch]; the last step is followed by one, too")
                        ->check(whole(1));
  auto *earlyStop = app.add_option("--early-stop", o.earlyStop,
                                   "stop after this many evaluations without a smaller loss than the least before")
                        ->check(whole(1));
  auto *evalOnly =
      app.add_flag("--eval-only", o.evalOnly, "evaluate the weights, or with --resume the newest checkpoint, and exit")
          ->excludes(data)
          ->excludes(feed)
          ->excludes(epochs)
          ->excludes(steps)
          ->excludes(evalEvery)
          ->excludes(earlyStop)
          ->excludes(augment);
  auto *predict =
      app.add_option("--predict", raw.predict,
                     "write an output of the model (--predict of divisi compile) for each row of --data, in their order, "
                     "by the weights, or with --resume those of the newest checkpoint, and exit; labels are not needed")
          ->type_name("[NAME=]FILE.npy")
          ->allow_extra_args(false)
          ->excludes(evalOnly)
          ->excludes(feed)
          ->excludes(eval)
          ->excludes(epochs)
          ->excludes(steps)
          ->excludes(evalEvery)
          ->excludes(earlyStop)
          ->excludes(augment);
  app.add_flag("--ema", o.ema, "evaluate, predict with and save the moving average of the weights (--ema of divisi compile)");
  app.add_flag("--no-shuffle", raw.noShuffle, "consecutive rows are consecutive batches");
  app.add_option("--seed", o.seed, "seed of shuffling and dropout")->check(whole(0))->capture_default_str();
  app.add_option("--lr", o.schedule.rate, "learning rate")->capture_default_str();
  app.add_option("--lr-schedule", raw.schedule,
                 "how the learning rate falls: constant, linear, cosine, step, polynomial, one-cycle or wsd (warm-up, "
                 "stable, linear decay)")
      ->check(CLI::IsMember(Schedule::names()))
      ->capture_default_str();
  app.add_option("--warmup-steps", o.schedule.warmup, "steps in which the learning rate rises [0; one-cycle: 0.3 of all]")
      ->check(whole(0))
      ->capture_default_str();
  app.add_option("--lr-step-size", o.schedule.stepSize, "schedule 'step': steps between two falls")
      ->check(whole(0))
      ->capture_default_str();
  app.add_option("--lr-gamma", o.schedule.gamma, "schedule 'step': factor of each fall")->capture_default_str();
  app.add_option("--lr-milestones", o.schedule.milestones,
                 "schedule 'step': the steps at which the rate falls, instead of --lr-step-size")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole(1));
  app.add_option("--lr-power", o.schedule.power, "schedule 'polynomial': the exponent")->capture_default_str();
  app.add_option("--lr-decay-steps", o.schedule.decaySteps,
                 "schedule 'wsd': the last steps, in which the rate falls [a tenth of all]")
      ->check(whole(1));
  auto *base = app.add_option("--base-batch", o.baseBatch,
                              "the batch for which --lr is: the rate is scaled to this program's batch, and "
                              "--warmup-steps rise from --lr to the scaled rate")
                   ->check(whole(1));
  app.add_option("--lr-scale", o.lrScale, "how --base-batch scales the rate: linear (default) or sqrt")
      ->check(CLI::IsMember({"linear", "sqrt"}))
      ->needs(base);
  app.add_option("--log", o.log, "write a line of JSON for each step and evaluation")->type_name("FILE.jsonl");
  app.add_option("--tensorboard", o.tensorboard, "write the same as curves for TensorBoard: DIR/train, DIR/eval")
      ->type_name("DIR");
  app.add_flag("--log-grad-norms", o.logGradNorms, "add the gradients' L2 norms to the line of step 1");
  auto *profile = app.add_option("--profile", o.profile,
                 "write what each kernel, library call and collective took, for divisi profile --from; "
                 "and print it by kind, beside what was expected")
      ->type_name("FILE.jsonl");
  auto *trace =
      app.add_option("--trace", o.trace, "write the last step as a timeline for Perfetto")->type_name("FILE.json");
  auto *save = app.add_option("--save", o.save, "write the trained model")->type_name("FILE.onnx");
  auto *saveWeights =
      app.add_option("--save-weights", o.saveWeights, "write the trained weights")->type_name("FILE.safetensors");
  auto *findRate = app.add_flag("--find-lr", o.findRate,
                                "the learning rate range test: --steps [100] steps whose rate grows from 1e-7 to 10, until the loss "
                                "diverges; says which rates are good, and saves nothing")
                       ->excludes(evalOnly)
                       ->excludes(predict)
                       ->excludes(epochs)
                       ->excludes(eval);
  for (CLI::Option *writes : {save, saveWeights})
    findRate->excludes(writes);
  for (CLI::Option *writes : {profile, trace, save, saveWeights}) {
    evalOnly->excludes(writes);
    predict->excludes(writes);
  }
  auto *weights = app.add_option("--weights", o.weights, "start from these weights")->type_name("FILE.safetensors");
  app.add_option("--init", o.init, "start from random weights with this seed")
      ->type_name("SEED")
      ->check(whole(0))
      ->excludes(weights);
  auto *checkpoint = app.add_option("--checkpoint", o.checkpoint, "keep checkpoints in this folder")->type_name("DIR");
  findRate->excludes(checkpoint);
  app.add_option("--every", o.every, "steps between checkpoints [one epoch]")->check(whole(1))->needs(checkpoint);
  app.add_option("--keep-checkpoints", o.keepCheckpoints,
                 "how many of the last checkpoints to keep; that with the least loss of --eval is kept, too")
      ->check(whole(1))
      ->capture_default_str()
      ->needs(checkpoint);
  app.add_flag("--keep-best", o.keepBest,
               "write a checkpoint after each evaluation with the least loss so far; DIR/best names it")
      ->needs(checkpoint)
      ->excludes(evalOnly)
      ->excludes(predict);
  auto *resume = app.add_flag("--resume", o.resume,
                              "go on from the newest checkpoint, if there is one; what is not given again of --lr, "
                              "--warmup-steps, --base-batch, --eval-every, --early-stop and the flags that begin with --lr- "
                              "is as before, the end of training unless --epochs or --steps is given, and so are the seed, "
                              "the order of the data and how images are prepared")
                     ->needs(checkpoint);
  app.add_flag("--resume-anyway", o.resumeAnyway,
               "... from that of another model, optimizer or precision, too, if its state fits")
      ->needs(resume);
  app.add_option("--device", o.device,
                 "what computes: a GPU if there is one and the program has code for it, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_flag("--no-nccl", o.noNccl, "GPUs exchange data through the hosts' memory, where they cannot by NCCL");
  app.add_option("--threads", o.threads, "threads of a rank to compute with [OMP_NUM_THREADS or the cores allowed]")
      ->check(CLI::Range(1, 4096));
  app.add_option("--timeout", o.timeout,
                 "seconds that ranks wait for one that does not come or has fallen silent, before the job ends")
      ->check(numberBetween(1, 1e9))
      ->capture_default_str();
  app.add_flag("--quiet", o.quiet, "print errors only");
  app.add_flag("--info", o.info, "print inputs, parameters, memory and, of a program for GPUs, the versions of its libraries, then exit");
  app.add_option("--describe", raw.describe, "print the same as JSON, then exit")
      ->type_name("json")
      ->check(CLI::IsMember({"json"}));
}

Status sortFiles(const char *flag, const std::vector<std::string> &given, BatchSource::Files &files) {
  for (const std::string &item : given) {
    size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size())
      return Status::usage(concat(flag, " ", item, ": expected NAME=FILE"));
    std::string name = item.substr(0, equals), path = item.substr(equals + 1);
    auto known = files.find(name);
    if (known != files.end() && !(isTokenPath(path) && isTokenPath(known->second)) &&
        !(isTarPath(path) && isTarPath(known->second)))
      return Status::usage(concat(flag, " ", item, ": this input has two files"));
    files.emplace(name, path);
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

/// Finds the output of each [NAME=]FILE of --predict.
Status sortPredictions(const Manifest &manifest, const std::vector<std::string> &given, Options &o) {
  std::vector<std::string> names;
  std::string list;
  for (const Prediction &prediction : manifest.predictions) {
    if (!prediction.metrics.empty())
      continue;
    names.push_back(prediction.name);
    list += (list.empty() ? "" : ", ") + prediction.name;
  }
  if (!given.empty() && names.empty())
    return Status::usage("--predict: this program writes no output: compile it with --predict NAME, the name of an output of the model");
  for (const std::string &item : given) {
    size_t equals = item.find('=');
    std::string name = equals == std::string::npos ? "" : item.substr(0, equals), path = item.substr(equals + 1);
    if (equals == std::string::npos && names.size() == 1)
      name = names.front();
    if (name.empty() || path.empty())
      return Status::usage(concat("--predict ", item, ": expected NAME=FILE.npy; the outputs are ", list));
    if (std::find(names.begin(), names.end(), name) == names.end())
      return Status::usage(concat("--predict ", item, ": the program writes no output '", name, "'; the outputs are ", list));
    if (!o.predict.emplace(name, path).second)
      return Status::usage(concat("--predict ", item, ": this output has two files"));
    if (Status status = checkTarget("--predict", path); !status.ok())
      return status;
  }
  return {};
}

Status finish(const Manifest &manifest, const Raw &raw, Options &o) {
  o.shuffle = !raw.noShuffle && o.feed.empty(); // its order is the other process's
  o.describe = !raw.describe.empty();
  if (!raw.tokenType.empty())
    o.tokenType = raw.tokenType == "uint16" ? DataType::U16 : DataType::U32;
  for (const std::string &word : raw.augment)
    (word == "crop" ? o.images.crop : o.images.flip) = true;
  for (double number : o.images.mean)
    if (!std::isfinite(number))
      return Status::usage("--mean: expected finite numbers");
  for (double number : o.images.deviation)
    if (!std::isfinite(number) || number <= 0)
      return Status::usage("--std: expected finite numbers above 0");
  std::optional<Schedule::Kind> kind = Schedule::parse(raw.schedule);
  if (!kind)
    return Status::usage(concat("unknown learning rate schedule '", raw.schedule, "'"));
  o.schedule.kind = *kind;
  if (!std::isfinite(o.schedule.rate) || o.schedule.rate < 0)
    return Status::usage("--lr: expected a finite number that is not negative");
  if (!std::isfinite(o.schedule.gamma) || o.schedule.gamma < 0)
    return Status::usage("--lr-gamma: expected a finite number that is not negative");
  if (!std::isfinite(o.schedule.power) || o.schedule.power < 0)
    return Status::usage("--lr-power: expected a finite number that is not negative");
  if (o.schedule.kind == Schedule::Kind::Step && o.schedule.stepSize < 1 && o.schedule.milestones.empty())
    return Status::usage("--lr-schedule step needs --lr-step-size or --lr-milestones");
  if (o.schedule.stepSize > 0 && !o.schedule.milestones.empty())
    return Status::usage("--lr-milestones replaces --lr-step-size: leave one of them out");
  bool evaluates = !raw.eval.empty();
  for (auto [flag, given] : {std::pair("--eval-every", o.evalEvery > 0), {"--early-stop", o.earlyStop > 0},
                             {"--keep-best", o.keepBest}, {"--eval-only", o.evalOnly}})
    if (given && !evaluates)
      return Status::usage(concat(flag, " needs --eval"));
  if (o.evalOnly && !o.checkpoint.empty() && !o.resume)
    return Status::usage("--eval-only --checkpoint needs --resume: it evaluates the newest checkpoint");
  for (auto status : {sortFiles("--data", raw.data, o.data), sortFiles("--eval", raw.eval, o.eval),
                      checkTarget("--log", o.log), checkTarget("--profile", o.profile), checkTarget("--trace", o.trace),
                      checkTarget("--save", o.save), checkTarget("--save-weights", o.saveWeights)})
    if (!status.ok())
      return status;
  if (o.save.ends_with(".safetensors") || o.saveWeights.ends_with(".onnx"))
    return Status::usage("--save writes ONNX, and --save-weights safetensors");
  // A step of servers is not one of this rank's, and none of several has all gradients.
  for (auto [given, flag] : {std::pair(!o.profile.empty(), "--profile"), {!o.trace.empty(), "--trace"}, {o.findRate, "--find-lr"}, {!o.feed.empty(), "--feed"}})
    if (manifest.dealsShares() && given)
      return Status::usage(concat(flag, " is for plans whose ranks all make the same steps: compile it with another --sync"));
  if (o.logGradNorms && manifest.servers && manifest.servers->count() > 1)
    return Status::usage("--log-grad-norms: no server has all gradients: compile the program with --servers 1");
  if (o.ema && std::none_of(manifest.state.begin(), manifest.state.end(), [](const State &s) { return s.average; }))
    return Status::usage("--ema: this program keeps no moving average of the weights: compile it with --ema 0.999");
  if (Status status = sortPredictions(manifest, raw.predict, o); !status.ok())
    return status;
  if (!o.predict.empty()) {
    if (!o.checkpoint.empty() && !o.resume)
      return Status::usage("--predict --checkpoint needs --resume: it takes the weights of the newest checkpoint");
    o.evalOnly = true;
    o.eval = std::exchange(o.data, {});
  }
  if (o.ema && o.evalOnly && !o.resume)
    return Status::usage("--ema needs --checkpoint DIR --resume here: before the first step there is no average");
  return {};
}
} // namespace

Result<std::optional<Options>> divisi::runtime::parseOptions(const Manifest &manifest, int argc,
                                                             const char *const *argv, bool print) {
  Options options;
  options.schedule = {Schedule::Kind::Constant, manifest.learningRate, manifest.warmupSteps};
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
    return Status::usage(describeFlagError(app, e));
  }
  options.seedGiven = app.count("--seed") > 0;
  options.words.assign(argv, argv + argc);
  if (Status status = finish(manifest, raw, options); !status.ok())
    return status;
  if (options.baseBatch > 0) {
    double times = static_cast<double>(manifest.batch) / static_cast<double>(options.baseBatch);
    options.schedule.batchScale = options.lrScale == "sqrt" ? std::sqrt(times) : times;
  }
  return std::optional(std::move(options));
}

std::vector<std::string> divisi::runtime::programFlags() {
  Options options;
  Raw raw;
  CLI::App app;
  declare(app, options, raw);
  return flagsOf(app);
}
