//===- Evaluation.cpp - evaluations, and when they end training -----------===//
#include "runtime/core/ScoredSet.h"
#include "runtime/main/Trainer.h"

#include <algorithm>
#include <cmath>

using namespace divisi::runtime;

namespace {
/// Measures as text, with the names of the log.
std::string describe(const Measures &m) {
  std::string text;
  for (const auto &[name, value] : m.named())
    text += concat(text.empty() ? "" : " ", name, " ", formatNumber(value));
  return text;
}
} // namespace

Measures Trainer::measuresOf(const Tally &sums) const {
  Measures m = sums.measures();
  bool isMeasured = manifest.result("evaluate", "surprise") != nullptr; // then it is not made of the loss
  if (sequence > 0 && !isMeasured && manifest.result("evaluate", "correct"))
    m.perplexity = std::exp(m.loss);
  return m;
}

bool Trainer::evaluatesAfter(int64_t step, bool epochEnds) const {
  return evalData && (step == total || (options.evalEvery > 0 ? step % options.evalEvery == 0 : epochEnds));
}

void Trainer::endEpoch() {
  int64_t epoch = point.cursor.batch == 0 ? point.cursor.epoch : point.cursor.epoch + 1;
  progress->epoch(point.step, epoch, measuresOf(point.epoch),
                  evaluatedStep == point.step ? std::optional(lastEval) : std::nullopt);
  if (point.cursor.batch == 0) // one that is cut short may be resumed
    point.epoch = {};
}

Status Trainer::evaluate() {
  if (!evalData || evaluatedStep == point.step)
    return {};
  Tally sums;
  std::map<std::string, double> ofSet;
  auto began = Clock::now();
  if (Status status = evaluateAll(sums, ofSet); !status.ok() || stopped)
    return status;
  double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  lastEval = measuresOf(sums);
  lastEval.metrics.merge(ofSet);
  evaluatedStep = point.step;
  point.evaluations.add(point.step, lastEval.loss);
  evalSpeed = static_cast<double>(evalData->samples()) / std::max(seconds, 1e-9);
  int64_t epoch = point.cursor.batch == 0 ? point.cursor.epoch : point.cursor.epoch + 1;
  Log::Evaluation line{point.step, epoch, lastEval, point.evaluations, evalSpeed, {}};
  if (sequence > 0)
    line.tokensPerSecond = evalSpeed * static_cast<double>(sequence);
  if (Status status = log->evaluation(line); !status.ok())
    return status;
  if (options.earlyStop > 0 && point.evaluations.withoutImprovement >= options.earlyStop && point.step < total)
    stopEarly();
  return {};
}

Status Trainer::evaluateBatches(uint32_t wants, const std::string &failing, const std::function<std::string(int64_t)> &where,
                                const std::function<Status(int64_t)> &then) {
  for (int64_t i = 0; i < evalData->allBatches(); ++i) {
    int64_t rows = 0;
    if (Status status = agreeToGoOn(evalData->load(i, program->arena().data(), rows)); !status.ok())
      return status;
    if (stopped)
      return {};
    common = false;
    if (Status status = program->evaluate(rows, wants); !status.ok())
      return failing.empty() ? status : failure(failing, status.message());
    // Missing rows of a last batch are zeros: indices that the model computes for them may be invalid.
    if (Status status = rows < manifest.batch ? Status() : checkIndices("evaluate", where(i)); !status.ok()) {
      common = true;
      return status;
    }
    if (Status status = then(rows); !status.ok())
      return status;
  }
  return {};
}

Status Trainer::evaluateAll(Tally &sums, std::map<std::string, double> &ofSet) {
  auto [scores, labels] = program->manifest().scored();
  std::optional<ScoredSet> set;
  if (scores && labels && scores->shape.size() == 2 && labels->shape == Shape{scores->shape[0]})
    set.emplace(scores->shape[1], std::find(scores->metrics.begin(), scores->metrics.end(), "auc") != scores->metrics.end());
  const std::string when = concat("evaluation after step ", point.step);
  auto addScores = [&](int64_t rows) -> Status {
    Result<std::string> row = program->prediction(*scores);
    if (!row.ok())
      return row.status();
    Result<std::string> label = program->prediction(*labels);
    if (label.ok() && isFirst())
      set->add(row->data(), label->data(), scores->shape[0] / manifest.batch * rows);
    return label.status();
  };
  Status status = evaluateBatches(set ? DIVISI_WHEN_PREDICTIONS : 0, ranks ? "" : when + ": ", [&](int64_t) { return "in the " + when; }, [&](int64_t rows) {
    double count = program->result("evaluate", "count").value_or(static_cast<double>(rows));
    if (count > 0)
      sums.addLoss(program->result("evaluate", "loss").value_or(NAN), count);
    if (auto correct = program->result("evaluate", "correct"))
      sums.addAccuracy(*correct, count);
    addMetrics(sums, count, static_cast<double>(rows));
    return set ? addScores(rows) : Status();
  });
  if (set && isFirst())
    for (const std::string &name : scores->metrics)
      ofSet[name] = set->named(name);
  return status;
}

void Trainer::addMetrics(Tally &sums, double labels, double rows) const {
  if (auto surprise = program->result("evaluate", "surprise"))
    sums.surpriseSum = sums.surpriseSum.value_or(0) + *surprise;
  for (const Output &output : program->manifest().results) {
    bool isMean = output.kind == "mean";
    if (output.function != "evaluate" || (!isMean && output.kind != "hits"))
      continue;
    double value = program->result(&output).value_or(NAN);
    auto &[sum, weight] = sums.metricSums[output.name];
    sum += isMean ? value * rows : value;
    weight += isMean ? rows : labels;
  }
}

void Trainer::stopEarly() {
  total = std::min(total, manifest.sync ? manifest.sync->endFrom(point.step) : point.step);
  const EvaluationHistory &history = point.evaluations;
  std::string best = history.bestStep < 0 ? "no evaluation had a finite loss"
                                          : concat("the least loss, ", formatNumber(history.bestLoss),
                                                   ", was that after step ", history.bestStep);
  progress->say(concat("stopped early after step ", total, ": ", history.withoutImprovement,
                       " evaluations without improvement; ", best));
}

void Trainer::sayFinal() {
  if (!options.predict.empty())
    return;
  if (finder)
    return progress->say(finder->summary());
  if (options.evalOnly)
    return progress->say(concat("evaluation after step ", point.step, ": ", describe(lastEval)));
  if (evalData)
    return progress->say(concat("final ", describe(lastEval), " (evaluation after step ", point.step, ")"));
  if (resumedFrom && resumedAt >= total)
    return progress->say(concat("nothing left to do: step ", point.step, " was the last"));
  progress->say(concat("final ", describe(last), " (training, step ", point.step, ")"));
}
