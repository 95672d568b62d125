#include "runtime/main/Profile.h"
#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/core/Json.h"

#include <algorithm>
#include <cstdio>

using namespace divisi::runtime;

namespace {
/// The value below which a share of the sorted values is; 0 without values.
double quantile(std::vector<double> values, double share) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

void addTimes(OrderedJson &line, const std::vector<double> &values) {
  line["us"] = quantile(values, 0.5) * 1e6;
  line["low_us"] = quantile(values, 0.25) * 1e6;
  line["high_us"] = quantile(values, 0.75) * 1e6;
}
} // namespace

Profile::Profile(const Manifest &manifest, int threads)
    : manifest(manifest), threads(threads), times(manifest.calls.size()) {
  std::map<std::pair<std::string, int64_t>, size_t> seen;
  for (const Call &call : manifest.calls)
    occurrences.push_back(seen[{call.kind, call.id}]++);
}

const Recorder::Span *Profile::travelOf(const Call &call, size_t occurrence, const Recorder::ById &collectives,
                                        const Recorder::ById &sends) {
  const Recorder::ById &spans = call.kind == "send" ? sends : collectives;
  auto it = spans.find(call.id);
  bool found = call.kind != "await" && it != spans.end() && occurrence < it->second.size();
  return found ? &it->second[occurrence] : nullptr;
}

void Profile::add(double task, double step) {
  if (recorder.calls.size() != manifest.calls.size() || ++seen <= warmUp)
    return;
  for (size_t i = 0; i < times.size(); ++i) {
    const Recorder::Span *travel = travelOf(manifest.calls[i], occurrences[i], recorder.collectives, recorder.sends);
    times[i].push_back((travel ? *travel : recorder.calls[i]).seconds());
  }
  tasks.push_back(task);
  steps.push_back(step);
  lastCalls = recorder.calls;
  lastCollectives = recorder.collectives;
  lastSends = recorder.sends;
}

Status Profile::writeProfile(const std::string &path, const std::vector<std::string> &lists) const {
  if (steps.empty())
    return failure("--profile: there were no steps to measure: more than ", warmUp,
                   " are needed that compute no metrics; the last one of each epoch does, except with --quiet");
  OrderedJson head;
  head["profile"] = 1;
  head["model"] = manifest.model;
  head["ranks"] = manifest.mesh.size();
  head["threads"] = threads;
  head["steps"] = steps.size();
  int64_t inputBytes = 0;
  for (const Input &input : manifest.inputs)
    inputBytes += input.here ? input.bytes : 0;
  head["input_bytes"] = inputBytes;
  addTimes(head, steps);
  head["task_us"] = quantile(tasks, 0.5) * 1e6;
  if (manifest.expectedStep > 0)
    head["expected_us"] = manifest.expectedStep;
  std::string text = dumpJson(head) + "\n";
  for (const std::string &list : lists)
    text += list;
  return writeFile(path, text);
}

std::string Profile::lines() const {
  std::string text;
  if (manifest.rank != manifest.firstOf(manifest.stageOf(manifest.rank)))
    return text;
  for (size_t i = 0; i < times.size(); ++i) {
    const Call &call = manifest.calls[i];
    OrderedJson line;
    line["kind"] = call.kind;
    line["name"] = call.name;
    line["key"] = call.key;
    if (manifest.stages() > 1)
      line["stage"] = manifest.stageOf(manifest.rank);
    addTimes(line, times[i]);
    if (call.expected > 0)
      line["expected_us"] = call.expected;
    text += dumpJson(line) + "\n";
  }
  return text;
}

std::string Profile::table() const {
  if (steps.empty())
    return "";
  struct Sums {
    int calls = 0;
    double measured = 0, expected = 0; ///< seconds
  };
  std::map<std::string, Sums> kinds;
  for (size_t i = 0; i < times.size(); ++i) {
    Sums &sums = kinds[manifest.calls[i].kind];
    ++sums.calls;
    sums.measured += quantile(times[i], 0.5);
    sums.expected += manifest.calls[i].expected * 1e-6;
  }
  std::vector<std::pair<std::string, Sums>> rows(kinds.begin(), kinds.end());
  std::stable_sort(rows.begin(), rows.end(), [](auto &a, auto &b) { return a.second.measured > b.second.measured; });
  rows.push_back({"step", {0, quantile(steps, 0.5), manifest.expectedStep * 1e-6}});
  std::string text = manifest.stages() > 1 ? "in a step, rank 0" : "in a step        ";
  text += "calls  measured ms  expected ms";
  for (const auto &[kind, sums] : rows) {
    char line[128], calls[16] = "", expected[32] = "-";
    if (sums.calls > 0)
      std::snprintf(calls, sizeof calls, "%d", sums.calls);
    if (sums.expected > 0)
      std::snprintf(expected, sizeof expected, "%.3f", sums.expected * 1e3);
    std::snprintf(line, sizeof line, "\n%-16.32s %5s %12.3f %12s", kind.c_str(), calls, sums.measured * 1e3, expected);
    text += line;
  }
  return text;
}

namespace {
/// The threads of a rank in a trace: its runs of tasks, their calls, and communication, which is on as many threads as
/// travel at the same time: what is on one thread does not overlap.
enum TraceThread { tasksThread, computeThread, communicationThread };

Json traceEvent(const std::string &name, const std::string &category, int64_t rank, int64_t thread, Recorder::Span span) {
  return {{"name", name},  {"cat", category},          {"ph", "X"}, {"pid", rank}, {"tid", thread}, {"ts", span.begin * 1e6},
          {"dur", span.seconds() * 1e6}, {"args", Json::object()}};
}

/// "rank 3: stage 1, data 1": the rank's indices along the axes of the mesh.
std::string titleOf(const Mesh &mesh, int64_t rank) {
  std::string title = concat("rank ", rank), separator = ": ";
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    if (mesh.axes()[axis].size > 1) {
      title += concat(separator, mesh.axes()[axis].name, " ", mesh.index(rank, static_cast<int64_t>(axis)));
      separator = ", ";
    }
  return title;
}
} // namespace

std::string Profile::traceEvents() const {
  Json events = Json::array();
  auto label = [&](const char *what, int64_t thread, Json args) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", manifest.rank}, {"tid", thread}, {"args", std::move(args)}});
  };
  label("process_name", 0, {{"name", titleOf(manifest.mesh, manifest.rank)}});
  label("process_sort_index", 0, {{"sort_index", manifest.rank}});
  auto add = [&](int64_t thread, const Call &call, Recorder::Span span) {
    Json event = traceEvent(call.title(), call.kind, manifest.rank, thread, span);
    event["args"]["task"] = manifest.tasks[static_cast<size_t>(call.task)];
    if (call.microbatch >= 0)
      event["args"]["microbatch"] = call.microbatch;
    if (call.id >= 0)
      event["args"]["id"] = call.id;
    if (call.expected > 0)
      event["args"]["expected_us"] = call.expected;
    events.push_back(std::move(event));
  };
  for (size_t first = 0, last; first < lastCalls.size(); first = last) { // a run of a task: its calls follow each other
    const Call &call = manifest.calls[first];
    double expected = 0;
    for (last = first; last < lastCalls.size() && manifest.calls[last].task == call.task &&
                       manifest.calls[last].microbatch == call.microbatch;
         ++last)
      expected += manifest.calls[last].expected;
    std::string title = manifest.tasks[static_cast<size_t>(call.task)];
    title += call.microbatch >= 0 ? concat(", microbatch ", call.microbatch) : "";
    Json event = traceEvent(title, "task", manifest.rank, tasksThread, {lastCalls[first].begin, lastCalls[last - 1].end});
    if (expected > 0)
      event["args"]["expected_us"] = expected;
    events.push_back(std::move(event));
  }
  std::vector<std::pair<const Recorder::Span *, const Call *>> travels;
  for (size_t i = 0; i < lastCalls.size(); ++i) {
    const Call &call = manifest.calls[i];
    add(computeThread, call, lastCalls[i]);
    if (const Recorder::Span *travel = travelOf(call, occurrences[i], lastCollectives, lastSends))
      travels.emplace_back(travel, &call);
  }
  std::stable_sort(travels.begin(), travels.end(), [](auto &a, auto &b) { return a.first->begin < b.first->begin; });
  std::vector<double> ends; // of each thread for communication
  for (auto [travel, call] : travels) {
    size_t lane = 0;
    while (lane < ends.size() && ends[lane] > travel->begin)
      ++lane;
    ends.resize(std::max(ends.size(), lane + 1));
    ends[lane] = travel->end;
    add(communicationThread + static_cast<int64_t>(lane), *call, *travel);
  }
  std::vector<std::string> threads = {"tasks", "compute", "communication"};
  for (size_t lane = 1; lane < ends.size(); ++lane)
    threads.push_back(concat("communication ", lane + 1));
  for (size_t thread = 0; thread < threads.size(); ++thread) {
    label("thread_name", static_cast<int64_t>(thread), {{"name", threads[thread]}});
    label("thread_sort_index", static_cast<int64_t>(thread), {{"sort_index", thread}});
  }
  return dumpJson(events);
}

Status Profile::writeTrace(const std::string &path, const std::vector<std::string> &lists) {
  std::string events;
  for (const std::string &list : lists)
    if (list.size() > 2) // "[...]"
      events += (events.empty() ? "" : ",\n") + list.substr(1, list.size() - 2);
  return writeFile(path, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + events + "]}");
}
