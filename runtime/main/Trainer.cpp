#include "runtime/main/Trainer.h"
#include "runtime/checkpoint/OnnxExport.h"
#include "runtime/checkpoint/Weights.h"

#include <cmath>
#include <filesystem>
#include <iostream>

using namespace divisi::runtime;

namespace {
/// Accuracy of training is measured in every so many steps, and only to be shown.
constexpr int64_t metricsPeriod = 10;

void warn(const std::string &line) { std::cerr << "warning: " << line << std::endl; }

/// A file that the compiler left beside the program.
std::string besideProgram(const std::string &name) {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / name).string();
}
} // namespace

Measures Tally::measures() const {
  Measures m{lossWeight > 0 ? lossSum / lossWeight : NAN, std::nullopt};
  if (countSum > 0)
    m.accuracy = correctSum / countSum;
  return m;
}

Result<int> Trainer::run() {
  StopSignals signals;
  for (auto stage : {&Trainer::openData, &Trainer::setUp, &Trainer::trainSteps})
    if (Status status = (this->*stage)(); !status.ok())
      return status;
  if (int signal = StopSignals::received()) {
    std::cerr << "stopped by a signal after step " << point.step
              << (checkpoints ? "; a checkpoint is written, --resume goes on from it" : "") << std::endl;
    return 128 + signal;
  }
  if (Status status = saveResults(); !status.ok())
    return status;
  Measures final = evalData ? lastEval : last;
  std::string line = "final loss " + formatNumber(final.loss);
  if (final.accuracy)
    line += " accuracy " + formatNumber(*final.accuracy);
  progress->say(line);
  return 0;
}

Status Trainer::openData() {
  auto note = [&](const std::string &line) {
    if (!options.quiet)
      std::cout << "note: " << line << std::endl;
  };
  Result<BatchSource> training = BatchSource::open(manifest, options.data, "--data", note);
  if (!training.ok())
    return training.status();
  data.emplace(std::move(*training));
  int64_t samples = data->samples(), each = data->fullBatches();
  if (each == 0)
    return failure("--data: ", samples, " samples are fewer than one batch of ", manifest.batch);
  if (int64_t dropped = samples % manifest.batch; dropped > 0)
    note(concat(each, " batches of ", manifest.batch, " in an epoch; the last ", dropped, " of ", samples,
                options.shuffle ? " samples (others in each epoch)" : " samples", " are dropped"));
  if (options.shuffle && samples > int64_t(UINT32_MAX))
    return failure("--data: ", samples, " samples are too many to shuffle; use --no-shuffle");
  if (!options.eval.empty()) {
    Result<BatchSource> evaluation = BatchSource::open(manifest, options.eval, "--eval", note);
    if (!evaluation.ok())
      return evaluation.status();
    evalData.emplace(std::move(*evaluation));
  }
  // Without either flag: one epoch.
  total = options.epochs || !options.steps ? options.epochs.value_or(1) * each : *options.steps;
  if (options.steps)
    total = std::min(total, *options.steps);
  return {};
}

Status Trainer::setUp() {
  Result<std::unique_ptr<Program>> created = Program::create(code, manifest, options.threads);
  if (!created.ok())
    return created.status();
  program = std::move(*created);
  point = {0, {}, options.seed, options.shuffle, data->samples()};
  Status status = options.resume ? resume() : Status();
  if (status.ok() && !options.checkpoint.empty() && !resumedFrom) {
    Result<CheckpointFolder> folder = CheckpointFolder::open(options.checkpoint);
    if (!folder.ok())
      return folder.status();
    if (auto names = folder->list(); !names.empty())
      return Status::usage(concat("--checkpoint ", options.checkpoint, " already holds ", names.front(),
                                  ": add --resume to go on from it, or name another folder"));
    checkpoints.emplace(std::move(*folder));
  }
  if (status.ok() && !resumedFrom)
    status = startWeights();
  if (!status.ok())
    return status;
  Result<Log> opened = Log::open(options.log, resumedFrom ? std::optional(point.step) : std::nullopt);
  if (!opened.ok())
    return opened.status();
  log.emplace(std::move(*opened));
  progress.emplace(Progress::detect(options.quiet), point.step, total, options.epochs ? *options.epochs : 0,
                   manifest.batch);
  announce();
  return {};
}

void Trainer::announce() {
  if (resumedFrom)
    progress->say(concat("resumed from ", options.checkpoint, "/", *resumedFrom, " (step ", point.step, ", epoch ",
                         point.cursor.epoch + 1, ")"));
  else if (options.resume)
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
  return loadWeights(manifest, program->arena(), path, manifest.weightsHash, wanted);
}

Status Trainer::resume() {
  Result<CheckpointFolder> folder = CheckpointFolder::open(options.checkpoint);
  if (!folder.ok())
    return folder.status();
  if (folder->list().empty())
    return {};
  std::string name;
  Result<TrainingPoint> found = folder->restore(manifest, program->arena(), name, warn);
  if (!found.ok())
    return found.status();
  if (found->samples != data->samples() || found->cursor.batch >= data->fullBatches())
    return failure("--resume: ", name, " was made with ", found->samples, " training samples, but --data has ",
                   data->samples());
  if (found->shuffle != options.shuffle)
    return Status::usage(concat("--resume: ", name, " was made with", found->shuffle ? "out" : "",
                                " --no-shuffle; do the same to go on"));
  if (options.seedGiven && found->seed != options.seed)
    return Status::usage(
        concat("--resume: ", name, " was made with --seed ", found->seed, "; leave --seed out to go on"));
  if (program->step().value_or(found->step) != found->step)
    return failure("--resume: ", name, " is damaged: it is of step ", found->step, ", but its state of step ",
                   *program->step());
  point = *found;
  savedStep = point.step;
  resumedFrom = name;
  checkpoints.emplace(std::move(*folder));
  return {};
}

Status Trainer::trainSteps() {
  bool ordered = false;
  while (point.step < total && !StopSignals::received()) {
    if (point.shuffle && (!ordered || point.cursor.batch == 0))
      data->shuffle(point.seed, static_cast<uint64_t>(point.cursor.epoch));
    ordered = true;
    if (Status status = step(); !status.ok())
      return status;
    bool epochEnds = point.cursor.batch == 0;
    if (epochEnds || point.step == total)
      if (Status status = endEpoch(); !status.ok())
        return status;
    bool due = options.every > 0 ? point.step % options.every == 0 : epochEnds;
    if (due)
      if (Status status = saveCheckpoint(); !status.ok())
        return status;
  }
  if (!StopSignals::received())
    if (Status status = evaluate(); !status.ok())
      return status;
  return saveCheckpoint();
}

Status Trainer::step() {
  auto start = Clock::now();
  int64_t number = point.step + 1, epoch = point.cursor.epoch + 1, rows = 0;
  bool lastOfEpoch = point.cursor.batch + 1 == data->fullBatches();
  uint32_t wants = 0;
  if (options.logGradNorms && number == 1)
    wants |= DIVISI_WHEN_GRAD_NORMS;
  if (progress->shown() && (number % metricsPeriod == 0 || lastOfEpoch || number == total))
    wants |= DIVISI_WHEN_METRICS;
  double rate = options.schedule.at(point.step, total);
  if (Status status = data->load(point.cursor.batch, program->arena().data(), rows); !status.ok())
    return status;
  if (Status status = program->train(rate, rows, wants); !status.ok())
    return failure("step ", number, ": ", status.message());

  Measures now{program->result("train", "loss").value_or(NAN), std::nullopt};
  auto correct = program->result("train", "correct"), count = program->result("train", "count");
  if (correct) {
    tally.addAccuracy(*correct, count.value_or(static_cast<double>(rows)));
    now.accuracy = *correct / std::max(count.value_or(static_cast<double>(rows)), 1.0);
  }
  tally.addLoss(now.loss, 1);
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  Log::Step line{number, epoch, {now.loss, std::nullopt}, rate, static_cast<double>(rows) / seconds, {}};
  if (wants & DIVISI_WHEN_GRAD_NORMS)
    line.gradNorms = gradNorms();
  if (Status status = log->step(line); !status.ok())
    return status;
  if (Status status = checkLoss(now.loss); !status.ok())
    return status;
  if (!now.accuracy)
    now.accuracy = last.accuracy;
  last = now;
  point.step = number;
  point.cursor = lastOfEpoch ? Cursor{epoch, 0} : Cursor{epoch - 1, point.cursor.batch + 1};
  progress->step(number, epoch, {now.loss, tally.measures().accuracy});
  return {};
}

Status Trainer::checkLoss(double loss) const {
  if (std::isfinite(loss))
    return {};
  return failure("the loss of step ", point.step + 1, " is ", std::isnan(loss) ? "NaN" : "infinite",
                 ": training stops and nothing is saved; a smaller --lr or --warmup-steps may help");
}

std::vector<std::pair<std::string, double>> Trainer::gradNorms() const {
  std::vector<std::pair<std::string, double>> norms;
  for (const Output &output : manifest.results)
    if (output.kind == "grad_norm" && output.function == "train")
      if (auto norm = program->result(&output))
        norms.emplace_back(output.name, *norm);
  return norms;
}

Status Trainer::endEpoch() {
  if (Status status = evaluate(); !status.ok())
    return status;
  int64_t epoch = point.cursor.batch == 0 ? point.cursor.epoch : point.cursor.epoch + 1;
  progress->epoch(point.step, epoch, tally.measures(),
                  evaluatedStep == point.step ? std::optional(lastEval) : std::nullopt);
  tally = {};
  return {};
}

Status Trainer::evaluate() {
  if (!evalData || evaluatedStep == point.step)
    return {};
  Tally sums;
  for (int64_t i = 0; i < evalData->allBatches(); ++i) {
    if (StopSignals::received())
      return {};
    int64_t rows = 0;
    if (Status status = evalData->load(i, program->arena().data(), rows); !status.ok())
      return status;
    if (Status status = program->evaluate(rows); !status.ok())
      return failure("evaluation after step ", point.step, ": ", status.message());
    double count = program->result("evaluate", "count").value_or(static_cast<double>(rows));
    if (count > 0)
      sums.addLoss(program->result("evaluate", "loss").value_or(NAN), count);
    if (auto correct = program->result("evaluate", "correct"))
      sums.addAccuracy(*correct, count);
  }
  lastEval = sums.measures();
  evaluatedStep = point.step;
  int64_t epoch = point.cursor.batch == 0 ? point.cursor.epoch : point.cursor.epoch + 1;
  return log->evaluation(point.step, epoch, lastEval);
}

Status Trainer::saveCheckpoint() {
  if (!checkpoints || savedStep == point.step)
    return {};
  if (Status status = checkpoints->save(manifest, program->arena(), point); !status.ok())
    return failure(status.message(), savedStep ? concat(" (step-", *savedStep, " is still complete)") : "");
  savedStep = point.step;
  return {};
}

Status Trainer::saveResults() {
  if (!options.save.empty())
    if (Status status = exportOnnx(manifest, program->arena(), program->skeleton(), options.save); !status.ok())
      return status;
  return options.saveWeights.empty() ? Status() : saveWeights(manifest, program->arena(), options.saveWeights);
}
