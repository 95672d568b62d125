#include "runtime/main/Trainer.h"
#include "runtime/checkpoint/OnnxExport.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"
#include "runtime/data/BatchRing.h"

#include <cmath>
#include <iostream>

using namespace divisi::runtime;

namespace {
/// The accuracy of training is computed in every metricsPeriod-th step, and only if it is printed.
constexpr int64_t metricsPeriod = 10;
/// Ranks of an asynchronous program synchronise only in every agreementPeriod-th step, and replicas that average seldom
/// ask as often whether to stop.
constexpr int64_t agreementPeriod = 16;
} // namespace

Result<int> Trainer::run() {
  StopSignals signals(transport != nullptr);
  if (transport) {
    ranks = std::make_unique<Communicator>(*transport, manifest.ownMesh(), manifest.collectives);
    ranks->reduceBy(manifest.reducers);
    ranks->linkBy(manifest.links);
    if (Status status = outlive(); !status.ok())
      return status;
    ranks->setInterrupt([] {
      bool asked = StopSignals::received() != 0;
      return StopSignals::isUrgent() ? Interrupt::Urgent : asked ? Interrupt::Stop : Interrupt::None;
    });
  }
  if (Status status = checkCommand(); !status.ok())
    return status;
  for (auto stage : {&Trainer::checkFiles, &Trainer::openData, &Trainer::createProgram, &Trainer::openCheckpoints, &Trainer::numberClasses,
                     &Trainer::prepareImages, &Trainer::setUp, &Trainer::connectDevices})
    if (Status status = together((this->*stage)()); !status.ok())
      return status;
  if (Status status = checkAlike(); !status.ok())
    return status;
  if (isLate()) {
    if (Status status = enter(); !status.ok()) {
      if (!isLate())
        return status;
      std::cerr << concat("note: ", status.message(), "\n") << std::flush;
      return 0;
    }
    if (point.step >= total)
      return 0;
  }
  StopSignals::defer();
  if (Status status = trainSteps(); !status.ok())
    return status;
  if (stopped) {
    if (isFirst())
      std::cerr << "stopped by a signal after step " << point.step
                << (checkpoints ? "; a checkpoint is written, --resume goes on from it" : "") << std::endl;
    return 128 + stopped;
  }
  if (Status status = options.evalOnly ? Status() : saveResults(); !status.ok())
    return status;
  sayFinal();
  return 0;
}

Status Trainer::trainSteps() {
  // A signal may have ended the program before the evaluation after this step.
  if (resumedFrom && point.step < total && point.evaluations.step != point.step &&
      evaluatesAfter(point.step, point.cursor.batch == 0))
    if (Status status = evaluate(); !status.ok())
      return status;
  while (point.step < total && !stopped) {
    if (ranks)
      ranks->setStep(point.step + 1);
    Status ready = prepare();
    if (std::exchange(entered, false)) { // the others have just agreed
      if (!ready.ok())
        return ready;
    } else if (mustAgree()) {
      if (Status status = agreeToGoOn(ready); !status.ok())
        return status;
      if (stopped)
        break;
      if (saver && saver->isActive() && !writing)
        if (Status status = ofCheckpoint(saver->advance()); !status.ok())
          return status;
      if (Status status = report(); !status.ok())
        return status;
      if (newcomers) { // ranks that meet seldom may never meet without a checkpoint in progress
        if (Status status = finishCheckpoint(); !status.ok())
          return status;
        if (Status status = letIn(); !status.ok())
          return status;
      }
    } else if (!ready.ok()) {
      ranks->fail(ranks->located(ready));
      return ready;
    } else if (Status status = askToStop(); !status.ok() || stopped) {
      if (!status.ok())
        return status;
      break;
    }
    if (data->fed() && data->fed()->isClosed()) { // on all ranks after the same batch
      total = point.step;
      break;
    }
    if (Status status = step(); !status.ok())
      return status;
    bool epochEnds = point.cursor.batch == 0;
    bool due = options.every > 0 ? point.step % options.every == 0 : epochEnds;
    bool evaluates = evaluatesAfter(point.step, epochEnds);
    if (!(program->isAsynchronous() || program->meetsSeldom()) || epochEnds || point.step == total || evaluates ||
        (due && checkpoints))
      if (Status status = drain(); !status.ok())
        return status;
    if (evaluates)
      if (Status status = evaluate(); !status.ok())
        return status;
    if (epochEnds || point.step == total)
      endEpoch();
    else if (evaluates && evaluatedStep == point.step)
      progress->evaluation(point.step, point.cursor.epoch + 1, lastEval, evalSpeed);
    if (due || (options.keepBest && evaluates && point.evaluations.bestStep == point.step))
      if (Status status = beginCheckpoint(); !status.ok())
        return status;
  }
  if (stopAgreement)
    if (Status status = stopAgreement->end(); !status.ok())
      return ranks->located(status);
  if (Status status = drain(); !status.ok())
    return status;
  if (!stopped)
    if (Status status = options.predict.empty() ? evaluate() : predict(); !status.ok())
      return status;
  if (Status status = beginCheckpoint(true); !status.ok())
    return status;
  if (Status status = finishCheckpoint(); !status.ok())
    return status;
  return stopped ? Status() : agreeToGoOn({});
}

bool Trainer::mustAgree() const {
  if (program->meetsSeldom())
    return program->meetsAfter(point.step, false) || point.step == resumedAt;
  return !program->isAsynchronous() || point.step % agreementPeriod == 0;
}

Status Trainer::askToStop() {
  if (!program->meetsSeldom() || point.step % agreementPeriod != 0)
    return {};
  if (!stopAgreement)
    stopAgreement.emplace(*ranks);
  Result<int> signal = stopAgreement->ask(StopSignals::received());
  if (!signal.ok())
    return ranks->located(signal.status());
  stopped = *signal;
  writing = writing || stopped != 0;
  return {};
}

Status Trainer::drain() {
  if (program->isAsynchronous())
    if (Status status = program->drain(); !status.ok())
      return status;
  if (program->meetsSeldom()) {
    auto began = Clock::now();
    if (Status status = program->exchangeResults(); !status.ok())
      return status;
    if (!unreported.empty()) { // it waits for the slowest replica
      Log::Step &line = unreported.back();
      line.seconds += std::chrono::duration<double>(Clock::now() - began).count();
      line.samplesPerSecond = static_cast<double>(manifest.batch) / line.seconds;
    }
  }
  return report();
}

Status Trainer::load(const Cursor &place, int64_t &rowCount) {
  if (orderedEpoch != place.epoch) {
    auto epoch = static_cast<uint64_t>(place.epoch);
    if (point.shuffle)
      data->shuffle(point.seed, epoch);
    data->augment(point.seed, epoch);
    orderedEpoch = place.epoch;
  }
  rowCount = manifest.batch;
  return manifest.dealsShares() ? Status() : program->load(*data, place.batch, rowCount); // workers load shares
}

Status Trainer::prepare() {
  stepBegan = Clock::now();
  if (std::optional<Ahead> loaded = std::exchange(ahead, {}); loaded && loaded->place == point.cursor) {
    rows = loaded->rows;
    return loaded->status;
  }
  return load(point.cursor, rows);
}

void Trainer::loadAhead() {
  Cursor next = cursorBehind();
  bool epochEnds = next.batch == 0;
  if (point.step + 1 >= total || evaluatesAfter(point.step + 1, epochEnds) || (epochEnds && data->fed()))
    return; // an evaluation has other data; another process that feeds may wait for the end of a pass
  ahead.emplace();
  ahead->place = next;
  ahead->status = load(next, ahead->rows);
}

uint32_t Trainer::wantsOf(int64_t number, bool lastOfEpoch) const {
  uint32_t wants = 0;
  if (options.logGradNorms && number == 1)
    wants |= DIVISI_WHEN_GRAD_NORMS;
  // Equal on all ranks, although only one of them prints it.
  if (!options.quiet && (number % metricsPeriod == 0 || lastOfEpoch || number == total))
    wants |= DIVISI_WHEN_METRICS;
  return wants;
}

Log::Step &Trainer::addLine(int64_t number, double seconds, bool endsEpoch) {
  double speed = static_cast<double>(manifest.batch) / seconds;
  Log::Step &line = unreported.emplace_back(Log::Step{number, point.cursor.epoch + 1, {}, rateOf(number), speed, seconds, {}, {}, {}, {}, {}, endsEpoch, {}});
  if (sequence > 0)
    line.tokensPerSecond = speed * static_cast<double>(sequence);
  return line;
}

Status Trainer::step() {
  if (manifest.dealsShares())
    return freeSteps();
  int64_t number = point.step + 1;
  const Cursor behind = cursorBehind(); // fed data know it of the batch that was loaded last
  bool lastOfEpoch = behind.batch == 0;
  const BatchRing *fed = data->fed().get();
  std::string position = fed ? fed->position() : ""; // of this batch: the next one may be loaded meanwhile
  if (fed && fed->isLast())
    total = std::min(total, number);
  uint32_t wants = wantsOf(number, lastOfEpoch);
  if (ranks)
    ranks->takeUsage();
  common = false;
  if (profile)
    profile->recorder.begin();
  auto taskBegan = Clock::now();
  std::function<void()> meanwhile;
  if (!profile) // a profile separates the time for data from that for computing
    meanwhile = [this] { loadAhead(); };
  delay();
  if (Status status = program->train(rateOf(number), rows, wants, meanwhile); !status.ok())
    return ranks ? status : failure("step ", number, ": ", status.message());
  if (Status status = program->meetReplicas(number, number == total); !status.ok())
    return status;
  if (ranks && ranks->outlives() && program->meetsAfter(number, number == total) &&
      (number == total || !manifest.sync->gossip))
    if (Status status = log->average(program->averagedOver(), number); !status.ok())
      return status;
  double task = std::chrono::duration<double>(Clock::now() - taskBegan).count();
  double seconds = std::chrono::duration<double>(Clock::now() - stepBegan).count();
  if (profile && wants == 0)
    profile->add(task, seconds);
  Log::Step &line = addLine(number, seconds, lastOfEpoch);
  if (fed)
    line.feedSeconds = data->fed()->takeSeconds();
  if (ranks)
    line.comm = ranks->takeUsage();
  point.step = number;
  point.position = std::move(position);
  point.cursor = behind;
  return {};
}

Status Trainer::report() {
  if (program->isAsynchronous())
    if (Status status = program->exchangeResults(); !status.ok())
      return status;
  while (!unreported.empty() && (!resultsComeLater() || program->nextResults())) {
    Log::Step line = std::move(unreported.front());
    unreported.pop_front();
    double loss = program->result("train", "loss").value_or(NAN), batch = static_cast<double>(manifest.batch);
    line.gradNorms = gradNorms();
    line.noise = addNoise();
    Tally now;
    now.addLoss(loss, 1);
    point.epoch.addLoss(loss, 1);
    if (auto correct = program->result("train", "correct")) {
      double count = program->result("train", "count").value_or(batch);
      now.addAccuracy(*correct, count);
      point.epoch.addAccuracy(*correct, count);
    }
    line.measures = measuresOf(now);
    if (line.endsEpoch || line.step == total)
      line.epochMeasures = measuresOf(point.epoch);
    if (Status status = log->step(line); !status.ok())
      return status;
    Status sound = checkIndices("train", concat("in step ", line.step));
    if (finder && line.step <= total && !finder->add(line.learningRate, loss))
      total = point.step;
    if (sound.ok() && !finder)
      sound = checkLoss(line);
    if (!sound.ok()) {
      common = true;                      // results are the same on all ranks
      if (saver && !saver->finish().ok()) // as one device does; the checkpoint before it is kept, too
        common = ranks && !transport->failed();
      return sound;
    }
    std::optional<double> accuracy = line.measures.accuracy ? line.measures.accuracy : last.accuracy;
    last = line.measures;
    progress->step(line.step, line.epoch, {last.loss, accuracy, last.perplexity});
    last.accuracy = accuracy;
  }
  return {};
}

Status Trainer::checkIndices(std::string_view function, const std::string &after) const {
  for (const Output &output : program->manifest().results) {
    auto result = output.kind == "index" && output.function == function ? program->result(&output) : std::nullopt;
    if (!result)
      continue;
    if (output.isInRange(*result))
      continue;
    auto [low, high] = *output.range;
    auto code = static_cast<int64_t>(*result);
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
  // Before the first update no rate is at fault.
  const char *remedy = line.step > 1 ? "a smaller --lr or --warmup-steps may help, or the data is at fault: NaN, or no label of a batch that counts"
                       : std::isnan(loss)
                           ? "look for NaN in the weights and the data, for a batch without a label that counts, and for operations that have no "
                             "result (0 / 0, a root of a negative number, a softmax whose scores are all -inf)"
                           : "look for infinite or very large numbers in the weights and the data, and for divisions by zero and logarithms of it";
  return failure("the loss of step ", line.step, " is ", std::isnan(loss) ? "NaN" : "infinite", ": training stops and nothing is saved; ", remedy);
}

std::vector<std::pair<std::string, double>> Trainer::gradNorms() const {
  std::vector<std::pair<std::string, double>> norms;
  for (const Output &output : program->manifest().results)
    if (output.kind == "grad_norm" && output.function == "train")
      if (auto norm = program->result(&output))
        norms.emplace_back(output.name, *norm);
  return norms;
}

std::optional<Log::Step::Noise> Trainer::addNoise() {
  for (const Output &output : program->manifest().results) {
    if (output.kind != "grad_sq_small" || output.function != "train")
      continue;
    auto small = program->result(&output), big = program->result("train", "grad_sq_big");
    if (!small || !big)
      return std::nullopt;
    NoiseEstimate estimate = NoiseEstimate::of(*small, *big, manifest.batch, output.shares);
    point.noise.add(estimate);
    return Log::Step::Noise{*big, *small, estimate, point.noise.scale()};
  }
  return std::nullopt;
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
  GlobalState state(manifest, program->arena(), ranks.get(), options.ema);
  // If one file cannot be written, the others still are.
  Status model, weights;
  if (!options.save.empty())
    model = announced(exportOnnx(state, program->skeleton(), options.save));
  if (!options.saveWeights.empty())
    weights = announced(saveWeights(state, options.saveWeights));
  Status times = together(saveProfile());
  return !model.ok() ? model : !weights.ok() ? weights : times;
}
