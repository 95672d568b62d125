#include "runtime/main/Trainer.h"
#include "runtime/checkpoint/OnnxExport.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/core/Hash.h"

#include <cmath>
#include <iostream>

using namespace divisi::runtime;

namespace {
/// The accuracy of training is computed in every metricsPeriod-th step, and only if it is printed.
constexpr int64_t metricsPeriod = 10;
/// Ranks of an asynchronous program synchronise only in every agreementPeriod-th step.
constexpr int64_t agreementPeriod = 16;
} // namespace

Measures Tally::measures() const {
  Measures m{lossWeight > 0 ? lossSum / lossWeight : NAN, std::nullopt};
  if (countSum > 0)
    m.accuracy = correctSum / countSum;
  return m;
}

Result<int> Trainer::run() {
  try {
    Result<int> code = runAll();
    if (!code.ok() && program)
      program->abandon();
    return code;
  } catch (...) {
    if (program)
      program->abandon();
    throw;
  }
}

Result<int> Trainer::runAll() {
  StopSignals signals(transport != nullptr);
  if (transport) {
    ranks = std::make_unique<Communicator>(*transport, manifest.mesh, manifest.collectives);
    ranks->setInterrupt([] {
      bool asked = StopSignals::received() != 0;
      return StopSignals::isUrgent() ? Interrupt::Urgent : asked ? Interrupt::Stop : Interrupt::None;
    });
  }
  if (Status status = checkCommand(); !status.ok())
    return status;
  for (auto stage : {&Trainer::openData, &Trainer::createProgram, &Trainer::openCheckpoints, &Trainer::setUp,
                     &Trainer::connectDevices})
    if (Status status = together((this->*stage)()); !status.ok())
      return status;
  if (Status status = checkAlike(); !status.ok())
    return status;
  StopSignals::defer();
  if (Status status = trainSteps(); !status.ok())
    return status;
  if (stopped) {
    if (isFirst())
      std::cerr << "stopped by a signal after step " << point.step
                << (checkpoints ? "; a checkpoint is written, --resume goes on from it" : "") << std::endl;
    return 128 + stopped;
  }
  if (Status status = saveResults(); !status.ok())
    return status;
  if (resumedFrom && !evalData && resumedAt >= total) {
    if (isFirst())
      progress->say(concat("nothing left to do: step ", point.step, " was the last"));
    return 0;
  }
  Measures final = evalData ? lastEval : last;
  std::string line = "final loss " + formatNumber(final.loss);
  if (final.accuracy)
    line += " accuracy " + formatNumber(*final.accuracy);
  progress->say(line);
  return 0;
}

Status Trainer::together(const Status &mine) {
  if (!ranks)
    return mine;
  Status status = ranks->agree(mine).status();
  common = !transport->failed();
  return status;
}

Status Trainer::agreeToGoOn(const Status &mine) {
  bool busy = saver && saver->isBusy();
  if (!ranks) {
    stopped = StopSignals::received();
    writing = busy;
    return mine;
  }
  Result<int64_t> most = ranks->agree(mine, 2 * StopSignals::received() + busy, true);
  common = !transport->failed();
  if (most.ok()) {
    stopped = static_cast<int>(*most / 2);
    writing = *most % 2 != 0 || stopped != 0; // it is then unknown whether all have finished
  }
  return most.status();
}

Status Trainer::compare(int64_t mine, const std::function<Status(int64_t)> &problem) {
  Result<int64_t> most = ranks->maximum(mine);
  if (!most.ok())
    return most.status();
  return together(*most == mine ? Status() : problem(*most));
}

Status Trainer::checkCommand() {
  if (!ranks)
    return {};
  std::string flags = options.common(), all = concat(std::string_view(code.manifest, code.manifest_bytes), flags);
  auto number = static_cast<int64_t>(std::stoull(fnv1a64(all.data(), all.size()).substr(8), nullptr, 16) >> 1);
  return compare(number, [&](int64_t) {
    return Status::usage(concat("all ranks must be started with the same program and flags; this one has ", flags));
  });
}

Status Trainer::checkAlike() {
  if (!ranks)
    return {};
  Status samples = compare(data->samples(), [&](int64_t most) {
    return failure("--data: this rank has ", data->samples(), " samples, and another one ", most,
                   ": all ranks must see the same files");
  });
  if (!samples.ok())
    return samples;
  return compare(point.step, [&](int64_t most) {
    return failure("--resume: this rank finds step ", point.step, " in '", options.checkpoint,
                   "', and another one step ", most, ": all ranks must see the same folder");
  });
}

Status Trainer::trainSteps() {
  while (point.step < total && !stopped) {
    if (ranks)
      ranks->setStep(point.step + 1);
    Status ready = prepare();
    if (mustAgree()) {
      if (Status status = agreeToGoOn(ready); !status.ok())
        return status;
      if (stopped)
        break;
      if (saver && saver->isActive() && !writing)
        if (Status status = ofCheckpoint(saver->advance()); !status.ok())
          return status;
      if (Status status = report(); !status.ok())
        return status;
    } else if (!ready.ok()) {
      ranks->fail(ranks->located(ready));
      return ready;
    }
    if (Status status = step(); !status.ok())
      return status;
    bool epochEnds = point.cursor.batch == 0;
    bool due = options.every > 0 ? point.step % options.every == 0 : epochEnds;
    if (!program->isAsynchronous() || epochEnds || point.step == total || (due && checkpoints))
      if (Status status = drain(); !status.ok())
        return status;
    if (epochEnds || point.step == total)
      if (Status status = endEpoch(); !status.ok())
        return status;
    if (due)
      if (Status status = beginCheckpoint(); !status.ok())
        return status;
  }
  if (Status status = drain(); !status.ok())
    return status;
  if (!stopped)
    if (Status status = evaluate(); !status.ok())
      return status;
  if (Status status = beginCheckpoint(true); !status.ok())
    return status;
  if (Status status = finishCheckpoint(); !status.ok())
    return status;
  return stopped ? Status() : agreeToGoOn({});
}

bool Trainer::mustAgree() const { return !program->isAsynchronous() || point.step % agreementPeriod == 0; }

Status Trainer::drain() {
  if (program->isAsynchronous())
    if (Status status = program->drain(); !status.ok())
      return status;
  return report();
}

Status Trainer::prepare() {
  if (point.shuffle && (!ordered || point.cursor.batch == 0))
    data->shuffle(point.seed, static_cast<uint64_t>(point.cursor.epoch));
  ordered = true;
  stepBegan = Clock::now();
  if (std::optional<Ahead> loaded = std::exchange(ahead, {}); loaded && loaded->batch == point.cursor.batch) {
    rows = loaded->rows;
    return loaded->status;
  }
  return data->load(point.cursor.batch, program->arena().data(), rows);
}

void Trainer::loadAhead() {
  if (point.cursor.batch + 1 == data->fullBatches() || point.step + 1 >= total)
    return; // another epoch has another order, and an evaluation may come before it
  ahead.emplace();
  ahead->batch = point.cursor.batch + 1;
  ahead->status = data->load(ahead->batch, program->arena().data(), ahead->rows);
}

Status Trainer::step() {
  int64_t number = point.step + 1, epoch = point.cursor.epoch + 1;
  bool lastOfEpoch = point.cursor.batch + 1 == data->fullBatches();
  uint32_t wants = 0;
  if (options.logGradNorms && number == 1)
    wants |= DIVISI_WHEN_GRAD_NORMS;
  // Equal on all ranks, although only one of them prints it.
  if (!options.quiet && (number % metricsPeriod == 0 || lastOfEpoch || number == total))
    wants |= DIVISI_WHEN_METRICS;
  double rate = options.schedule.at(point.step, total);
  if (ranks)
    ranks->takeUsage();
  common = false;
  if (profile)
    profile->recorder.begin();
  auto taskBegan = Clock::now();
  std::function<void()> meanwhile;
  if (!profile) // a profile separates the time for data from that for computing
    meanwhile = [this] { loadAhead(); };
  if (Status status = program->train(rate, rows, wants, meanwhile); !status.ok())
    return ranks ? status : failure("step ", number, ": ", status.message());
  double task = std::chrono::duration<double>(Clock::now() - taskBegan).count();
  double seconds = std::chrono::duration<double>(Clock::now() - stepBegan).count();
  if (profile && wants == 0)
    profile->add(task, seconds);
  unreported.push_back({number, epoch, {}, rate, static_cast<double>(rows) / seconds, seconds, {}, {}});
  if (ranks)
    unreported.back().comm = ranks->takeUsage();
  point.step = number;
  point.cursor = lastOfEpoch ? Cursor{epoch, 0} : Cursor{epoch - 1, point.cursor.batch + 1};
  return {};
}

Status Trainer::report() {
  if (program->isAsynchronous())
    if (Status status = program->exchangeResults(); !status.ok())
      return status;
  while (!unreported.empty() && (!program->isAsynchronous() || program->nextResults())) {
    Log::Step line = std::move(unreported.front());
    unreported.pop_front();
    line.measures.loss = program->result("train", "loss").value_or(NAN);
    line.gradNorms = gradNorms();
    if (Status status = log->step(line); !status.ok())
      return status;
    Status sound = checkIndices("train", concat("in step ", line.step));
    if (sound.ok())
      sound = checkLoss(line);
    if (!sound.ok()) {
      common = true; // results are the same on all ranks
      return sound;
    }
    auto batch = static_cast<double>(manifest.batch);
    auto correct = program->result("train", "correct"), count = program->result("train", "count");
    Measures now{line.measures.loss, last.accuracy};
    if (correct) {
      tally.addAccuracy(*correct, count.value_or(batch));
      now.accuracy = *correct / std::max(count.value_or(batch), 1.0);
    }
    tally.addLoss(now.loss, 1);
    last = now;
    progress->step(line.step, line.epoch, {now.loss, tally.measures().accuracy});
  }
  return {};
}

Status Trainer::checkIndices(std::string_view function, const std::string &after) const {
  for (const Output &output : program->manifest().results) {
    auto result = output.kind == "index" && output.function == function ? program->result(&output) : std::nullopt;
    if (!result)
      continue;
    // The encoding is twice the distance from the middle of the range, or that minus one for negative distances: 0, -1,
    // 1, -2, ...
    auto [low, high] = *output.range;
    auto code = static_cast<int64_t>(*result);
    if (code < high - low)
      continue;
    int64_t index = low + (high - low) / 2 + ((code >> 1) ^ -(code & 1));
    return failure("node '", output.name, "' has the index ", index, " ", after, ", but takes ", low, " to ", high - 1,
                   ": training stops and nothing is saved");
  }
  return {};
}

Status Trainer::checkLoss(const Log::Step &line) const {
  double loss = line.measures.loss;
  if (std::isfinite(loss))
    return {};
  return failure("the loss of step ", line.step, " is ", std::isnan(loss) ? "NaN" : "infinite",
                 ": training stops and nothing is saved; a smaller --lr or --warmup-steps may help, or the data is at "
                 "fault: NaN, or no label of a batch that counts");
}

std::vector<std::pair<std::string, double>> Trainer::gradNorms() const {
  std::vector<std::pair<std::string, double>> norms;
  for (const Output &output : program->manifest().results)
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
    int64_t rows = 0;
    if (Status status = agreeToGoOn(evalData->load(i, program->arena().data(), rows)); !status.ok())
      return status;
    if (stopped)
      return {};
    common = false;
    std::string when = concat("evaluation after step ", point.step);
    if (Status status = program->evaluate(rows); !status.ok())
      return failure(ranks ? "" : when + ": ", status.message());
    // Missing rows of a last batch are zeros: indices that the model computes for them may be invalid.
    if (Status status = rows < manifest.batch ? Status() : checkIndices("evaluate", "in the " + when); !status.ok()) {
      common = true;
      return status;
    }
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

Status Trainer::beginCheckpoint(bool waits) {
  if (!saver || savedStep == point.step)
    return {};
  if (Status status = finishCheckpoint(); !status.ok())
    return status;
  if (Status status = program->pullStates(); !status.ok())
    return status;
  point.evalLoss = evaluatedStep == point.step ? std::optional(lastEval.loss) : std::nullopt;
  if (Status status = ofCheckpoint(saver->begin(point, waits)); !status.ok())
    return status;
  savedStep = point.step;
  return {};
}

Status Trainer::finishCheckpoint() { return saver ? ofCheckpoint(saver->finish()) : Status(); }

Status Trainer::ofCheckpoint(const Status &status) {
  if (announced(status).ok())
    return {};
  std::optional<int64_t> complete = saver->saved();
  if (!complete && resumedFrom)
    complete = resumedAt;
  return failure(status.message(), complete ? concat(" (step-", *complete, " is still complete)") : "");
}

Status Trainer::announced(const Status &status) {
  // A failure to write files is known on all ranks, unless they cannot be told.
  common = ranks && !transport->failed();
  return status;
}

Status Trainer::saveProfile() {
  if (!profile)
    return {};
  auto ofAll = [&](const std::string &mine) {
    return ranks ? ranks->gather(mine) : Result<std::vector<std::string>>(std::vector{mine});
  };
  if (!options.trace.empty()) {
    auto lists = ofAll(profile->traceEvents());
    if (!lists.ok())
      return lists.status();
    if (Status status = isFirst() ? Profile::writeTrace(options.trace, *lists) : Status(); !status.ok())
      return status;
  }
  if (options.profile.empty())
    return {};
  auto lists = ofAll(profile->lines());
  if (!lists.ok() || !isFirst())
    return lists.status();
  Status status = profile->writeProfile(options.profile, *lists);
  if (status.ok() && !options.quiet)
    progress->say(profile->table());
  return status;
}

Status Trainer::saveResults() {
  if (Status status = program->pullStates(); !status.ok())
    return status;
  GlobalState state(manifest, program->arena(), ranks.get());
  // If one file cannot be written, the others still are.
  Status model, weights;
  if (!options.save.empty())
    model = announced(exportOnnx(state, program->skeleton(), options.save));
  if (!options.saveWeights.empty())
    weights = announced(saveWeights(state, options.saveWeights));
  Status times = together(saveProfile());
  return !model.ok() ? model : !weights.ok() ? weights : times;
}
