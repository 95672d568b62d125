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
    return failure("--profile: there were no steps to measure: more than ", warmUp, " are needed");
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

std::string Profile::traceEvents() const {
  Json events = Json::array();
  auto add = [&](const char *thread, const Call &call, Recorder::Span span) {
    Json event = {{"name", call.title()},
                  {"cat", call.kind},
                  {"ph", "X"},
                  {"pid", manifest.rank},
                  {"tid", thread},
                  {"ts", span.begin * 1e6},
                  {"dur", span.seconds() * 1e6},
                  {"args", {{"task", manifest.tasks[static_cast<size_t>(call.task)]}}}};
    if (call.microbatch >= 0)
      event["args"]["microbatch"] = call.microbatch;
    if (call.id >= 0)
      event["args"]["id"] = call.id;
    events.push_back(std::move(event));
  };
  for (size_t i = 0; i < lastCalls.size(); ++i) {
    const Call &call = manifest.calls[i];
    add("compute", call, lastCalls[i]);
    if (const Recorder::Span *travel = travelOf(call, occurrences[i], lastCollectives, lastSends))
      add("communication", call, *travel);
  }
  return dumpJson(events);
}

Status Profile::writeTrace(const std::string &path, const std::vector<std::string> &lists) {
  std::string events;
  for (const std::string &list : lists)
    if (list.size() > 2) // "[...]"
      events += (events.empty() ? "" : ",\n") + list.substr(1, list.size() - 2);
  return writeFile(path, "{\"traceEvents\":[" + events + "]}");
}
