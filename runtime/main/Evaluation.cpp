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

/// The results of an evaluation of a batch from those of parts of it.
class EvaluationSum {
public:
  explicit EvaluationSum(const Manifest &manifest) : manifest(manifest), sums(manifest.results.size()) {}
  void add(const std::vector<double> &part) {
    const double labels = countIn(part);
    for (size_t i = 0; i < sums.size(); ++i) {
      const Output &output = manifest.results[i];
      if (output.function != "evaluate")
        sums[i] = part[i];
      else if (output.kind == "index")
        sums[i] = std::max(sums[i], part[i]);
      else if (output.kind != "loss" || !counts())
        sums[i] += part[i]; // a mean over rows is a sum over those of this part
      else if (labels > 0)
        sums[i] += part[i] * labels;
    }
  }
  std::vector<double> take() {
    if (const double labels = countIn(sums); counts())
      for (size_t i = 0; i < sums.size(); ++i)
        if (manifest.results[i].function == "evaluate" && manifest.results[i].kind == "loss" && labels > 0)
          sums[i] /= labels;
    return std::move(sums);
  }

private:
  bool counts() const { return manifest.result("evaluate", "count") != nullptr; }
  double countIn(const std::vector<double> &values) const {
    const Output *output = manifest.result("evaluate", "count");
    return output ? values[static_cast<size_t>(output - manifest.results.data())] : 0;
  }

  const Manifest &manifest;
  std::vector<double> sums;
};
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
    if (Status status = agreeToGoOn(program->load(*evalData, i, rows)); !status.ok())
      return status;
    if (stopped)
      return {};
    common = false;
    if (Status status = ranks && ranks->outlives() ? evaluateShares(i, rows, wants) : program->evaluate(rows, wants);
        !status.ok())
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

std::vector<int> Trainer::workersHere() const {
  std::vector<int> here;
  for (int rank = 0; rank < static_cast<int>(manifest.mesh.size()); ++rank)
    if (ranks->tookPart(rank))
      here.push_back(rank);
  return here;
}

Status Trainer::evaluateShares(int64_t batch, int64_t rows, uint32_t wants) {
  for (;;) {
    const std::vector<int> here = workersHere();
    std::vector<int> shares = here; // those of the workers themselves come first
    for (int share = 0; share < static_cast<int>(manifest.mesh.size()); ++share)
      if (std::find(here.begin(), here.end(), share) == here.end())
        shares.push_back(share);
    EvaluationSum sum(manifest);
    Status mine;
    for (size_t first = 0; first < shares.size(); first += here.size()) {
      std::vector<bool> absent(static_cast<size_t>(ranks->size()), true);
      std::optional<int> share;
      for (size_t i = 0; i < here.size() && first + i < shares.size(); ++i) {
        absent[static_cast<size_t>(here[i])] = false;
        if (here[i] == ranks->rank())
          share = shares[first + i];
      }
      if (!share)
        continue; // a server, or there are fewer shares than workers
      evalData->loadFor(manifest, *share);
      if (Status loaded = program->load(*evalData, batch, rows); mine.ok())
        mine = loaded;
      if (Status status = program->evaluateShare(*share, rows, wants, absent); !status.ok())
        return status;
      sum.add(program->numbersOfAll());
    }
    evalData->loadFor(manifest, manifest.rank);
    if (Status status = together(mine); !status.ok())
      return status;
    if (workersHere() == here) // else one was lost meanwhile
      return program->setEvaluation(sum.take(), wants);
  }
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
