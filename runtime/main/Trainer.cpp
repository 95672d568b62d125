#include "runtime/main/Trainer.h"
#include "runtime/checkpoint/OnnxExport.h"
#include "runtime/checkpoint/Weights.h"

#include <cmath>
#include <iostream>

using namespace divisi::runtime;

namespace {
/// Accuracy of training is measured in every so many steps, and only to be shown.
constexpr int64_t metricsPeriod = 10;
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
  Log::Step line{number, epoch, {now.loss, std::nullopt}, rate, static_cast<double>(rows) / seconds, seconds, {}};
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
