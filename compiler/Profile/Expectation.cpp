#include "compiler/Profile/Expectation.h"

#include "compiler/Profile/Timeline.h"
#include "dialects/Dist/Tasks.h"

#include "dialects/Graph/Graph.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace divisi;
using namespace divisi::compiler;
using codegen::ProgramCall;

namespace {

/// Latency in seconds and bytes/s between any two ranks: those of the outermost level.
std::pair<double, double> linkOf(const planning::Cluster &cluster) {
  double bandwidth = 1e9, latency = 1e-5;
  for (const auto &level : cluster.levels)
    bandwidth = level.bandwidth, latency = level.latency;
  return {latency, bandwidth};
}

/// From the end of a send's copy until the other side has it, in microseconds.
double messageTime(const ProgramCall &call, const planning::Cluster &cluster) {
  auto [latency, bandwidth] = linkOf(cluster);
  return 1e6 * (latency + call.bytes / bandwidth);
}

/// Roofline for computation, a ring for collectives; in microseconds.
double byFormula(const ProgramCall &call, const planning::Cluster &cluster) {
  const auto &device = cluster.device;
  if (call.kind == "await" || call.kind == "receive")
    return 0;
  if (call.collective) {
    double n = call.group;
    auto [latency, bandwidth] = linkOf(cluster);
    double rounds = call.kind == "all_reduce" ? 2 : 1;
    return 1e6 * (rounds * (n - 1) * latency + rounds * (n - 1) / n * call.bytes / bandwidth);
  }
  double arithmetic = call.flops / (device.flops[planning::Cluster::Device::fp32] * device.computeEfficiency);
  double traffic = call.bytes / (device.bandwidth * device.memoryEfficiency);
  return 1e6 * std::max({arithmetic, traffic, device.launch});
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 1 : values[values.size() / 2];
}

/// The times of all calls, and what is known of them.
class Estimator {
public:
  Estimator(const planning::Cluster &cluster, const RunSetting &setting, const ProfileDatabase &database,
            llvm::ArrayRef<ProgramCall> calls)
      : cluster(cluster), setting(setting), database(database) {
    std::map<std::string, std::vector<double>> all; // measured over formula, by kind
    for (const ProgramCall &call : calls)
      if (auto known = measured(call))
        all[call.kind].push_back(*known / std::max(1e-3, byFormula(call, cluster)));
    for (auto &[kind, list] : all)
      ratios[kind] = median(list);
  }

  std::optional<double> measured(const ProgramCall &call) const {
    return call.kind == "await" || call.key.empty() ? std::nullopt : database.microseconds(setting, call.key);
  }
  double time(const ProgramCall &call) const {
    if (auto known = measured(call))
      return *known;
    auto ratio = ratios.find(call.kind);
    return byFormula(call, cluster) * (ratio == ratios.end() ? 1 : ratio->second);
  }

private:
  const planning::Cluster &cluster;
  const RunSetting &setting;
  const ProfileDatabase &database;
  std::map<std::string, double> ratios;
};

/// What each device of the training step runs, by the numbers of its tasks: from the schedule, or the one task that
/// there is. Of an asynchronous schedule, what it runs in so many steps.
std::vector<std::vector<int64_t>> rowsOf(mlir::ModuleOp module, int64_t steps) {
  std::map<std::string, int64_t> numbers;
  for (auto task : module.getOps<mlir::func::FuncOp>())
    numbers.emplace(task.getName().str(), numbers.size());
  for (auto schedule : module.getOps<dist::ScheduleOp>()) {
    if (schedule.getFunction() != "train")
      continue;
    std::vector<std::vector<int64_t>> rows;
    for (size_t row = 0; row < schedule.getRows().size(); ++row) {
      rows.emplace_back();
      for (int64_t step = 0; step < (schedule.isAsynchronous() ? steps : 1); ++step)
        for (const dist::ScheduledTask &task : dist::tasksOf(schedule, row))
          if (!schedule.isAsynchronous() || step + task.microbatch >= 0)
            rows.back().push_back(numbers[task.symbol]);
    }
    return rows;
  }
  if (auto it = numbers.find("train"); it != numbers.end())
    return {{it->second}};
  return {};
}
/// The stages of an asynchronous schedule; 0: there is none.
int64_t stagesInFlight(mlir::ModuleOp module) {
  for (auto schedule : module.getOps<dist::ScheduleOp>())
    if (schedule.isAsynchronous())
      return schedule.getRows().size();
  return 0;
}
} // namespace

Expectation compiler::expectStep(mlir::ModuleOp module, const planning::Cluster &cluster, const RunSetting &setting,
                                 const ProfileDatabase &database) {
  Expectation result;
  std::map<int64_t, std::pair<size_t, size_t>> callsOf; // by task
  int64_t fed = 0, number = 0;
  std::map<std::string, int64_t> inputs; // bytes
  for (auto task : module.getOps<mlir::func::FuncOp>()) {
    int64_t mine = number++;
    if (task.getName().split('.').first != "train")
      continue;
    size_t first = result.calls.size();
    for (ProgramCall &call : codegen::callsOf(task)) {
      result.calls.push_back(std::move(call));
      result.tasks.push_back(mine);
    }
    callsOf[mine] = {first, result.calls.size()};
    for (unsigned i = 0; i < task.getNumArguments(); ++i)
      if (auto name = task.getArgAttrOfType<mlir::StringAttr>(i, graph::names::input))
        inputs[name.str()] = graph::bytesOf(task.getArgumentTypes()[i]);
  }
  for (auto &[name, bytes] : inputs)
    fed += bytes;
  Estimator estimator(cluster, setting, database, result.calls);
  for (const ProgramCall &call : result.calls)
    result.microseconds.push_back(estimator.time(call));
  double sum = 0, known = 0;
  auto timeOf = [&](int64_t steps) {
    std::vector<std::vector<TimedCall>> devices;
    for (const auto &row : rowsOf(module, steps)) {
      devices.emplace_back();
      for (int64_t task : row)
        for (size_t i = callsOf[task].first; i < callsOf[task].second; ++i) {
          const ProgramCall &call = result.calls[i];
          bool send = call.kind == "send";
          devices.back().push_back(
              {&call, send ? messageTime(call, cluster) : result.microseconds[i], send ? result.microseconds[i] : 0});
          if (send || call.kind == "receive" || call.kind == "await")
            continue;
          sum += result.microseconds[i];
          known += estimator.measured(call) ? result.microseconds[i] : 0;
        }
    }
    return finishTime(devices, /*runsEmpty=*/stagesInFlight(module) == 0);
  };
  double computed = 0;
  if (int64_t stages = stagesInFlight(module)) { // a step of many: the pipeline is full
    double first = timeOf(2 * stages), both = timeOf(4 * stages);
    result.ends = first >= 0 && both >= 0;
    computed = (both - first) / (2 * stages);
  } else {
    computed = timeOf(1);
    result.ends = computed >= 0;
  }
  result.step = computed + database.microseconds(setting, feedKey(fed)).value_or(0);
  result.measured = sum > 0 ? known / sum : 0;
  return result;
}
