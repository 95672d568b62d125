#include "passes/Planning/Simulator/Schedule.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace divisi::planning;
using namespace divisi::planning::pipeline;
using llvm::StringRef;

namespace {

/// Names by enum value.
constexpr StringRef kinds[] = {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "pipedream", "pipedream-2bw"};
constexpr StringRef stalenesses[] = {"stashed", "vertical-sync", "latest", "predicted"};
constexpr StringRef tasks[] = {"forward", "backward", "input gradient", "weight gradient", "update"};

template <typename Enum> std::optional<Enum> parse(llvm::ArrayRef<StringRef> names, StringRef text) {
  const StringRef *found = llvm::find(names, text);
  return found == names.end() ? std::nullopt : std::optional((Enum)(found - names.begin()));
}

/// Writes the task order of one device.
class Writer {
public:
  Writer(const ScheduleOptions &options, int device) : o(options), device(device) {}

  std::vector<Task> write() {
    switch (o.kind) {
    case ScheduleKind::naive:
      alternate(0);
      break;
    case ScheduleKind::gpipe:
      alternate(o.microbatches);
      break;
    case ScheduleKind::f1b1:
    case ScheduleKind::pipedream:
    case ScheduleKind::pipedream2bw:
      alternate(o.lagOf(device));
      break;
    case ScheduleKind::interleaved:
      alternate(2 * (o.devices - device - 1) + (o.chunks - 1) * o.devices);
      break;
    case ScheduleKind::zbH1:
      alternateSplit(o.devices - device - 1, device);
      break;
    }
    if (!o.asynchronous())
      for (int chunk = o.chunks; chunk-- > 0;)
        add(Task::update, o.microbatches - 1, chunk);
    return std::move(result);
  }

private:
  void add(Task::Kind kind, int microbatch, int chunk) { result.push_back({kind, microbatch, chunk}); }

  /// The n-th forward or backward pass of the device: p microbatches through a chunk, then through the next one
  /// (Megatron-LM, core/pipeline_parallel/schedules.py). The backward pass takes the chunks from the last to the first.
  void pass(Task::Kind kind, int n) {
    int round = n / (o.devices * o.chunks), chunk = n / o.devices % o.chunks;
    if (o.chunks == 1)
      return add(kind, n, 0);
    add(kind, round * o.devices + n % o.devices, kind == Task::forward ? chunk : o.chunks - 1 - chunk);
  }

  /// Runs `warmup` forward passes, then a forward and a backward pass in turn, then the remaining backward passes.
  void alternate(int warmup) {
    int passes = o.microbatches * o.chunks;
    warmup = std::min(warmup, passes);
    for (int n = 0; n < warmup; ++n)
      pass(Task::forward, n);
    for (int n = 0; n < passes; ++n) {
      if (n + warmup < passes)
        pass(Task::forward, n + warmup);
      pass(Task::backward, n);
      if (o.asynchronous() && (n + 1) % o.batch == 0)
        add(Task::update, n, 0);
    }
  }

  /// The same with each weight gradient behind the next `delay` input gradients. Device d keeps p - d microbatches in
  /// flight for 1F1B and d for the delay: p on every device, which is what 1F1B needs on its first device.
  void alternateSplit(int warmup, int delay) {
    warmup = std::min(warmup, o.microbatches);
    for (int n = 0; n < warmup; ++n)
      add(Task::forward, n, 0);
    for (int n = 0; n < o.microbatches; ++n) {
      if (n + warmup < o.microbatches)
        add(Task::forward, n + warmup, 0);
      add(Task::inputGradient, n, 0);
      if (n >= delay)
        add(Task::weightGradient, n - delay, 0);
    }
    for (int n = std::max(0, o.microbatches - delay); n < o.microbatches; ++n)
      add(Task::weightGradient, n, 0);
  }

  const ScheduleOptions &o;
  int device;
  std::vector<Task> result;
};
} // namespace

StringRef pipeline::nameOf(ScheduleKind kind) { return kinds[(int)kind]; }
StringRef pipeline::nameOf(Staleness staleness) { return stalenesses[(int)staleness]; }
StringRef pipeline::nameOf(Task::Kind kind) { return tasks[kind]; }

std::optional<ScheduleKind> pipeline::parseScheduleKind(StringRef text) { return parse<ScheduleKind>(kinds, text); }
std::optional<Staleness> pipeline::parseStaleness(StringRef text) { return parse<Staleness>(stalenesses, text); }
std::vector<std::string> pipeline::scheduleKinds() { return {std::begin(kinds), std::end(kinds)}; }
std::string pipeline::scheduleKindNames() { return llvm::join(llvm::ArrayRef(kinds), ", "); }
std::string pipeline::stalenessNames() { return llvm::join(llvm::ArrayRef(stalenesses), ", "); }

std::string pipeline::describe(const Task &task) {
  return nameOf(task.kind).str() + " of microbatch " + std::to_string(task.microbatch) +
         (task.chunk ? " (chunk " + std::to_string(task.chunk) + ")" : "");
}

std::string ScheduleOptions::invalid() const {
  auto number = [](int value) { return std::to_string(value); };
  std::string name = "schedule " + nameOf(kind).str();
  if (devices < 1)
    return "stages: at least 1 is needed, not " + number(devices);
  if (microbatches < 1)
    return "microbatches: at least 1 is needed, not " + number(microbatches);
  if (chunks < 1)
    return "chunks: at least 1 is needed, not " + number(chunks);
  if (kind == ScheduleKind::interleaved && chunks < 2)
    return name + " needs at least 2 chunks per device; with 1 it is 1f1b";
  if (kind != ScheduleKind::interleaved && chunks > 1)
    return name + " has 1 chunk per device, not " + number(chunks) + "; interleaved takes more";
  if (kind == ScheduleKind::interleaved && microbatches % devices != 0)
    return name + " needs microbatches in multiples of the " + number(devices) + " devices, not " +
           number(microbatches);
  if (doubleBuffered() && (batch < devices || microbatches % batch))
    return name + " keeps two versions of the weights, which is enough for batches of at least as many microbatches as " +
           "there are stages: " + number(devices) + " or more, not " + number(batch);
  if (!replicas.empty()) {
    if (kind == ScheduleKind::interleaved || kind == ScheduleKind::zbH1 || doubleBuffered())
      return name + " has no replicas that take microbatches in turn; naive, gpipe, 1f1b and pipedream have";
    if ((int)replicas.size() != devices)
      return "replicas: a number for each of " + number(devices) + " stages is needed, not " + number(replicas.size());
    if (asynchronous() && replicas.back() != 1)
      return "replicas: the last stage of pipedream has one, which has the loss of every minibatch, not " +
             number(replicas.back());
    if (asynchronous() && staleness != Staleness::stashed)
      return "replicas that take minibatches in turn need stashed weights, not '" + nameOf(staleness).str() + "'";
    for (int64_t count : replicas)
      if (count < 1 || (!asynchronous() && count > microbatches))
        return "replicas: from 1 to the " + number(microbatches) + " microbatches are possible, not " + number(count) +
               ": each takes one in turn";
  }
  if (staleness != Staleness::stashed && !unsplit())
    return name + " has no choice of staleness: '" + nameOf(staleness).str() + "' weights are for pipedream";
  if ((double)devices * chunks * 3 * microbatches > (double)mostTasks)
    return "stages x microbatches: more than " + std::to_string(mostTasks) + " tasks";
  return "";
}

llvm::Expected<Schedule> pipeline::makeSchedule(const ScheduleOptions &options) {
  if (std::string wrong = options.invalid(); !wrong.empty())
    return llvm::createStringError(wrong);
  Schedule schedule{options, {}};
  for (int device = 0; device < options.devices; ++device)
    schedule.devices.push_back(Writer(options, device).write());
  return schedule;
}
