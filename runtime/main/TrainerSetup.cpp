//===- TrainerSetup.cpp - everything before the first step ----------------===//
#include "runtime/checkpoint/Weights.h"
#include "runtime/comm/LocalRank.h"
#include "runtime/core/Cores.h"
#include "runtime/core/Team.h"
#include "runtime/data/BatchRing.h"
#include "runtime/data/images/ImageList.h"
#include "runtime/devices/cpu/MatmulPlan.h"
#include "runtime/devices/cuda/Device.h"
#include "runtime/main/OneLine.h"
#include "runtime/main/Targets.h"
#include "runtime/main/Trainer.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

using namespace divisi::runtime;

namespace {
void printWarning(const std::string &line) { std::cerr << "warning: " << oneLine(line) << std::endl; }

/// The number of tokens in a sample of a model whose input is sequences of them, [batch, tokens]; else 0.
int64_t sequenceOf(const Manifest &manifest) {
  for (const Input &input : manifest.inputs)
    if (const Shape &shape = input.wholeShape();
        !input.label && input.range && !isFloat(input.dtype) && shape.size() == 2 && shape[0] == manifest.batch)
      return shape[1];
  return 0;
}

/// The classes that were there before and now lack, and the ones that are new.
std::string differenceOf(const std::vector<std::string> &before, const std::vector<std::string> &now) {
  auto without = [](const std::vector<std::string> &all, const std::vector<std::string> &known) {
    std::vector<std::string> rest;
    for (const std::string &name : all)
      if (std::find(known.begin(), known.end(), name) == known.end())
        rest.push_back(name);
    return rest;
  };
  std::vector<std::string> missing = without(before, now), added = without(now, before);
  return concat(missing.empty() ? "" : concat("without ", namesOf(missing)),
                missing.empty() || added.empty() ? "" : ", ", added.empty() ? "" : concat("with ", namesOf(added)));
}

/// The list of an older checkpoint is that of each input that has one now.
void takeForAll(ClassNames &kept, const ClassNames &now) {
  auto all = kept.find("");
  if (all == kept.end())
    return;
  for (const auto &[input, names] : now)
    kept.emplace(input, all->second);
  kept.erase("");
}

std::filesystem::path ownPath() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

/// A file that the compiler wrote beside the program.
std::string besideProgram(const std::string &name) {
  return (ownPath().parent_path() / name).string();
}
} // namespace

int Trainer::threads() const {
  // Ranks share the cores of a host.
  return options.threads > 0 || !ranks || std::getenv("OMP_NUM_THREADS") ? options.threads : transport->cores();
}

void Trainer::printNote(const std::string &line) const {
  if (!options.quiet && isFirst())
    std::cout << "note: " << oneLine(line) << std::endl;
}

Status Trainer::checkFiles() {
  const std::string weights = manifest.weightsFile.empty() ? "" : besideProgram(manifest.weightsFile);
  return isFirst() ? checkTargets(options, ownPath().string(), weights) : Status();
}

Status Trainer::openData() {
  auto note = [this](const std::string &line) { printNote(line); };
  sequence = sequenceOf(manifest);
  if (!options.evalOnly) {
    Result<BatchSource> training = options.feed.empty()
                                       ? BatchSource::open(manifest, options.data, "--data", note, options.tokenType)
                                       : BatchSource::openRing(manifest, options.feed);
    if (!training.ok())
      return training.status();
    data.emplace(std::move(*training));
    if (data->fullBatches() == 0)
      return failure("--data: ", data->samples(), " samples are fewer than one batch of ", manifest.batch);
    if (data->fed()) // a step of an asynchronous program cannot be left out where ranks do not agree on it
      data->fed()->interruptBy([this] { return StopSignals::received() != 0 && mustAgree(); });
  }
  if (!options.eval.empty() || !options.predict.empty()) {
    std::set<std::string> needed;
    for (const Prediction &prediction : manifest.predictions)
      if (options.predict.contains(prediction.name))
        needed.insert(prediction.inputs.begin(), prediction.inputs.end());
    bool predicts = !options.predict.empty();
    Result<BatchSource> evaluation = BatchSource::open(manifest, options.eval, predicts ? "--data" : "--eval", note, options.tokenType,
                                                       predicts ? &needed : nullptr);
    if (!evaluation.ok())
      return evaluation.status();
    evalData.emplace(std::move(*evaluation));
  }
  return {};
}

Status Trainer::prepareImages() {
  auto note = [this](const std::string &line) { printNote(line); };
  ImageOptions chosen = options.images;
  // Those that a checkpoint kept wait for images.
  if (options.givesImageFlags() && !(data && data->hasImages()) && !(evalData && evalData->hasImages()))
    return Status::usage("--augment, --resize, --mean and --std are for images, and no file of --data or --eval has any");
  if (chosen.workers == 0)
    chosen.workers = ranks ? transport->cores() : coresAllowed();
  if (data)
    if (Status status = data->prepareImages(chosen, note); !status.ok())
      return status;
  chosen.crop = chosen.flip = false; // augmentation is for training
  return evalData ? evalData->prepareImages(chosen, data ? BatchSource::Note() : note) : Status();
}

Status Trainer::numberClasses() {
  // Without a checkpoint, an evaluation alone knows no names but its own.
  if (!evalData)
    return {};
  takeForAll(point.classes, evalData->classes());
  return evalData->numberClassesAs(point.classes, "--eval");
}

Status Trainer::planSteps() {
  if (options.evalOnly) {
    total = point.step;
    return {};
  }
  if (!options.save.empty() && program->skeleton().empty())
    return Status::usage("--save: this program was compiled from a dump, which has no ONNX model: use --save-weights FILE.safetensors");
  int64_t samples = data->samples(), each = data->fullBatches();
  if (data->fed() && !options.steps && options.schedule.needsTotal())
    return Status::usage(concat("--lr-schedule ", Schedule::nameOf(options.schedule.kind),
                                ": the rate depends on the number of steps, which --feed does not say: give --steps"));
  if (int64_t dropped = samples % manifest.batch; dropped > 0 && !options.quiet && isFirst())
    std::cout << "note: " << each << " batches of " << manifest.batch << " in an epoch; the last " << dropped << " of "
              << samples << (point.shuffle ? " samples (others in each epoch)" : " samples") << " are dropped"
              << std::endl;
  // Without both flags, one epoch.
  if (!options.epochs && options.steps)
    total = *options.steps;
  else if (__builtin_mul_overflow(options.epochs.value_or(1), each, &total))
    total = INT64_MAX;
  if (options.steps)
    total = std::min(total, *options.steps);
  if (options.findRate) {
    total = options.steps.value_or(RateFinder::steps);
    finder.emplace();
  }
  planned = total;
  if (options.earlyStop > 0 && point.evaluations.withoutImprovement >= options.earlyStop)
    total = std::min(total, point.step); // training had stopped early
  return {};
}

Result<std::unique_ptr<Accelerator>> Trainer::openDevice() {
  bool cuda = code.device_code_count > 0, asked = options.device == "cuda";
  if (asked && !cuda)
    return Status::usage("--device cuda: this program has no code for GPUs; compile it with --target cpu,cuda");
  if (options.device == "cpu" && !code.has_cpu)
    return Status::usage("--device cpu: this program has code for GPUs alone; compile it with --target cpu,cuda");
  if (!cuda || options.device == "cpu")
    return std::unique_ptr<Accelerator>();
  auto bytes = static_cast<uint64_t>(manifest.arenas[static_cast<size_t>(manifest.stageOf(manifest.rank))]);
  Status why = failure("no GPU: this program was linked without the library for GPUs (libdivisi_cuda.a)");
  bool found = false;
  if (divisi_cuda_open) {
    Result<std::optional<int>> local = localRankOfLauncher();
    if (!local.ok())
      return local.status();
    GpuPlace where{transport ? local->value_or(transport->local()) : 0};
    if (transport && transport->size() > 1) {
      std::vector<Route> routes = routesOf(manifest.mesh, manifest.messages, manifest.groups.size());
      where.communicators = manifest.groups.size() + static_cast<size_t>(std::count_if(routes.begin(), routes.end(), [&](const Route &route) {
                              return route.from == manifest.rank || route.to == manifest.rank;
                            }));
    }
    for (const Input &input : manifest.inputs)
      where.inputBytes += input.here ? static_cast<uint64_t>(input.bytes) : 0;
    std::unique_ptr<Accelerator> gpu(divisi_cuda_open(code, bytes, where, &found, &why));
    if (gpu)
      return gpu;
  }
  // A run must not be silently slow because another program has the GPU's memory.
  if (found && code.has_cpu)
    return failure(why.message(), " (--device cpu computes on this processor)");
  if (asked || !code.has_cpu)
    return why;
  if (!options.quiet && isFirst())
    std::cout << "note: " << why.message() << ": computing on this processor" << std::endl;
  return std::unique_ptr<Accelerator>();
}

Status Trainer::connectDevices() {
  if (!options.noNccl && !isLate()) {
    Result<std::string> obstacle = program->connectDevices(options.timeout);
    if (!obstacle.ok())
      return obstacle.status();
    if (!obstacle->empty())
      return failure("GPUs cannot exchange data by NCCL: ", *obstacle,
                     " (--no-nccl: they exchange it through the hosts' memory, slowly)");
  }
  Status status = program->rehearse();
  return status.ok() ? program->pushStates() : status;
}

void Trainer::keepToShare() {
  if (!ranks)
    return;
  const std::vector<int> &hosts = transport->hosts();
  if (hosts.empty()) // of a rank that came late
    return;
  const auto here = static_cast<int>(std::count(hosts.begin(), hosts.end(), hosts[static_cast<size_t>(transport->rank())]));
  const int wanted = threads() > 0 ? threads() : divisi_team_size();
  if (here > 1 && wanted <= transport->cores())
    keepToPart(transport->local(), here, transport->cores());
}

void Trainer::noteProcessor() {
  if (options.quiet || !isFirst())
    return;
  int cores = ranks ? transport->cores() : coresAllowed(), number = program->threads();
  if (number > cores)
    std::cout << "note: " << number << " threads on " << cores << (cores == 1 ? " core" : " cores")
              << ": steps are faster with --threads " << cores << std::endl;
  auto numerics = manifest.program.find("numerics");
  if (numerics != manifest.program.end() && numerics->second.starts_with("bf16") && !MatmulPlan::hasUnits())
    std::cout << "note: this processor has no units for bf16: it multiplies in fp32, and bf16 saves memory only" << std::endl;
}

Status Trainer::createProgram() {
  Result<std::unique_ptr<Accelerator>> device = openDevice();
  if (!device.ok())
    return device.status();
  bool onDevice = *device != nullptr;
  Result<Delay> slowed = Delay::ofRank(ranks ? ranks->rank() : 0);
  if (!slowed.ok())
    return slowed.status();
  delay = *slowed;
  if (onDevice && !options.quiet)
    std::cout << "note: computing on " << (*device)->name() << std::endl;
  if (!onDevice)
    keepToShare();
  Result<std::unique_ptr<Program>> created =
      Program::create(code, manifest, threads(), ranks.get(), std::move(*device));
  if (!created.ok())
    return created.status();
  program = std::move(*created);
  if (options.ema)
    program->useAverages();
  if (!onDevice)
    noteProcessor();
  if (!options.profile.empty() || !options.trace.empty()) {
    if (program->isAsynchronous())
      return Status::usage(
          "--profile and --trace are for steps that end before the next one begins: this program's schedule is "
          "asynchronous");
    profile = std::make_unique<Profile>(manifest, program->threads());
    program->setRecorder(&profile->recorder);
  }
  Result<bool> profiler = nvtx::attach();
  if (!profiler.ok() && isFirst())
    printWarning(profiler.status().message());
  if (profiler.ok() && *profiler)
    program->nameRanges();
  point = {0, {}, options.seed, options.shuffle, data ? data->samples() : 0};
  if (data)
    point.classes = data->classes();
  return {};
}

Status Trainer::setUp() {
  Status status = planSteps();
  point.flags = options.training();
  if (status.ok() && data && data->fed() && isFirst())
    data->fed()->begin({point.step, point.cursor.epoch, point.cursor.batch, point.position});
  if (status.ok() && !resumedFrom) {
    status = startWeights();
    program->beginReplicas();
  } else if (status.ok() && !options.evalOnly) {
    status = program->resumeReplicas(point.step);
  }
  if (!status.ok())
    return status;
  std::optional<int64_t> kept; // lines of a log that is continued
  if (resumedFrom)
    kept = options.evalOnly ? INT64_MAX : point.step;
  bool writes = isFirst();
  Result<Log> opened = Log::open(writes ? options.log : "", writes ? options.tensorboard : "", kept,
                                 options.evalOnly ? INT64_MAX : total);
  if (!opened.ok())
    return opened.status();
  log.emplace(std::move(*opened));
  progress.emplace(Progress::detect(options.quiet || !isFirst()), point.step, total,
                   options.epochs ? *options.epochs : 0, manifest.batch, sequence);
  announce();
  return {};
}

void Trainer::announce() {
  if (resumedFrom)
    progress->say(concat("resumed from ", options.checkpoint, "/", *resumedFrom, " (step ", point.step, ", epoch ",
                         point.cursor.epoch + 1, ")",
                         resumedFlags.empty() ? "" : concat("; taken from it:", resumedFlags)));
  else if (options.resume && !isLate())
    progress->say(concat("no checkpoint in ", options.checkpoint, " yet: starting from the beginning"));
}

Status Trainer::startWeights() {
  bool all = !options.init;
  StateFilter wanted = [&](const State &s) { return s.isWeight() && (all || !s.init); };
  if (options.init)
    initialize(manifest, program->arena(), *options.init);
  program->setSeed(options.seed);
  if (std::none_of(manifest.state.begin(), manifest.state.end(), wanted))
    return {};
  if (!options.weights.empty())
    return loadWeights(manifest, program->arena(), options.weights, "", wanted);
  if (manifest.weightsFile.empty())
    return Status::usage("this program has no weights file: give --weights FILE.safetensors or --init SEED");
  std::string path = besideProgram(manifest.weightsFile);
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return failure("there is no weights file '", path,
                   "': put it back, or give --weights FILE.safetensors or --init SEED");
  if (all)
    program->setStep(point.updatesBefore = manifest.updatesBefore);
  return loadWeights(manifest, program->arena(), path, manifest.weightsHashes,
                     [&](const State &s) { return wanted(s) || (all && s.isStored); });
}

Status Trainer::openCheckpoints() {
  if (options.checkpoint.empty())
    return {};
  Result<CheckpointFolder> folder = CheckpointFolder::open(options.checkpoint, options.keepCheckpoints);
  Status status = folder.status();
  if (status.ok()) {
    checkpoints.emplace(std::move(*folder));
    if (!options.evalOnly) {
      saver = std::make_unique<CheckpointSaver>(*checkpoints, manifest, program->arena(), ranks.get());
      status = isFirst() ? checkpoints->lock() : Status();
    }
  }
  if (isLate()) // what it goes on from is told to it
    return status;
  if (Status all = together(status); !all.ok())
    return all;
  if (options.resume)
    return resume();
  Result<std::vector<std::string>> names = checkpoints->list();
  if (!names.ok() || names->empty())
    return names.status();
  return Status::usage(concat("--checkpoint ", options.checkpoint, " already holds ", names->front(),
                              ": add --resume to go on from it, or name another folder"));
}

Status Trainer::resume() {
  std::string name;
  auto warn = [&](const std::string &line) {
    if (isFirst())
      printWarning(line);
  };
  Result<TrainingPoint> found =
      checkpoints->restore(manifest, program->arena(), name, warn, options.resumeAnyway, ranks.get());
  if (found.ok() && name.empty() && options.evalOnly)
    return failure(options.predict.empty() ? "--eval-only" : "--predict", ": there is no checkpoint in '", options.checkpoint, "'");
  if (!found.ok() || name.empty())
    return found.status();
  if (options.evalOnly) {
    // Of the flags of training, those that say what the model is fed.
    std::erase_if(found->flags, [](const auto &flag) { return !ImageOptions::isOfAll(flag.first); });
    Result<Options> merged = withKept(manifest, options, found->flags, resumedFlags);
    if (!merged.ok())
      return merged.status();
    options = std::move(*merged);
    point = *found;
    resumedFrom = name;
    resumedAt = point.step;
    return {};
  }
  if ((found->samples == 0) != (data->samples() == 0))
    return Status::usage(concat("--resume: ", name, " was made ", found->samples == 0 ? "with" : "without",
                                " --feed; do the same to go on"));
  if (found->samples != data->samples() || found->cursor.batch >= data->fullBatches())
    return failure("--resume: ", name, " was made with ", found->samples, " training samples, but --data has ",
                   data->samples());
  takeForAll(found->classes, point.classes);
  for (const auto &[input, names] : point.classes)
    if (auto before = found->classes.find(input); before != found->classes.end() && before->second != names)
      return failure("--resume: ", name, " was trained on other classes than --data has", point.classes.size() > 1 ? concat(" of '", input, "'") : "",
                     ": ", differenceOf(before->second, names),
                     "; the labels are their numbers: make the folders equal, or give the labels as a file");
  if (found->shuffle && !options.shuffle)
    return Status::usage(concat("--resume: ", name, " was made without --no-shuffle; do the same to go on"));
  if (options.seedGiven && found->seed != options.seed)
    return Status::usage(
        concat("--resume: ", name, " was made with --seed ", found->seed, "; leave --seed out to go on"));
  // Asynchronous servers count updates, several in a step.
  const bool counts = !options.resumeAnyway && !(manifest.servers && manifest.servers->asynchronous);
  const int64_t expected = found->updatesBefore + found->step;
  if (counts && program->step().value_or(expected) != expected)
    return failure("--resume: ", name, " is damaged: it is of step ", found->step, ", but its state of step ",
                   *program->step() - found->updatesBefore);
  Result<Options> merged = withKept(manifest, options, found->flags, resumedFlags);
  if (!merged.ok())
    return merged.status();
  if (found->seed != options.seed)
    resumedFlags += concat(" --seed ", found->seed);
  if (!found->shuffle && options.shuffle)
    resumedFlags += " --no-shuffle";
  options = std::move(*merged);
  ClassNames classes = std::move(point.classes); // an older checkpoint has none
  point = *found;
  if (point.classes.empty())
    point.classes = std::move(classes);
  savedStep = point.step;
  resumedFrom = name;
  resumedAt = point.step;
  return {};
}
