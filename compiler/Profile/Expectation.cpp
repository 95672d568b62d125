#include "compiler/Profile/Expectation.h"

#include "compiler/Profile/FinishTime.h"
#include "compiler/Report/Numbers.h"
#include "dialects/Dist/Tasks.h"
#include "passes/Planning/Cost/Collectives.h"
#include "passes/Planning/Cost/Packing.h"

#include "dialects/Graph/Graph.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace divisi;
using namespace divisi::compiler;
using codegen::ProgramCall;

namespace {

/// From the end of a send's copy until the other side has it, in microseconds.
double messageTime(const ProgramCall &call, const planning::Cluster &cluster) {
  planning::Cluster::Level level{.bandwidth = 1e9, .latency = 1e-5}; // the outermost one: any two ranks
  if (!cluster.levels.empty())
    level = cluster.levels.back();
  return 1e6 * (level.latency + call.work.bytes / level.bandwidth + planning::uncachedSeconds(level.uncached, call.work.bytes));
}

/// The price list's time of a call, in microseconds.
class Formula {
public:
  Formula(const planning::Cluster &cluster, dist::Mesh mesh)
      : cluster(cluster), mesh(std::move(mesh)), prices(cluster.device) {}

  double operator()(const ProgramCall &call) const {
    if (call.kind == "await" || call.kind == "receive")
      return 0;
    if (call.collective)
      return 1e6 * collective(call);
    return 1e6 * prices.seconds(call.work, call.precision);
  }

private:
  double collective(const ProgramCall &call) const {
    using Kind = dist::ReshardStep::Kind;
    dist::Mesh alone{{{"group", call.group}}}; // where stages lack axes, the mesh has more devices than there are
    bool whole = mesh.devices() <= cluster.devices();
    planning::Link link = whole ? planning::linkOf(cluster, mesh, call.axes) : planning::linkOf(cluster, alone, {0});
    if (call.kind == "permute")
      return planning::permuteSeconds(link, call.work.bytes);
    Kind kind = call.kind == "all_reduce"       ? Kind::allReduce
                : call.kind == "reduce_scatter" ? Kind::reduceScatter
                : call.kind == "all_gather"     ? Kind::allGather
                                                : Kind::allToAll;
    const double bytes = call.work.bytes * (kind == Kind::allGather ? (double)call.group : 1); // of the result
    const double packing = call.packed ? planning::packingSeconds(cluster.device, prices, kind, bytes) : 0;
    return planning::stepSeconds(link, kind, bytes) + packing;
  }

  const planning::Cluster &cluster;
  const dist::Mesh mesh;
  const planning::Prices prices;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 1 : values[values.size() / 2];
}

/// The times of all calls, and what is known of them.
class Estimator {
public:
  Estimator(const Formula &formula, const RunSetting &setting, const ProfileDatabase &database,
            llvm::ArrayRef<ProgramCall> calls)
      : formula(formula), setting(setting), database(database) {
    std::map<std::string, std::vector<double>> all; // measured over formula, by kind
    for (const ProgramCall &call : calls)
      if (auto known = measured(call))
        all[call.kind].push_back(*known / std::max(1e-3, formula(call)));
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
    return formula(call) * (ratio == ratios.end() ? 1 : ratio->second);
  }

private:
  const Formula &formula;
  const RunSetting &setting;
  const ProfileDatabase &database;
  std::map<std::string, double> ratios;
};

/// What each device of the training step runs, by the numbers of its tasks: from the schedule, or the one task that
/// there is. Of an asynchronous schedule, what it runs in `steps` steps.
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
      const int64_t each = schedule.isDoubleBuffered() ? schedule.getMicrobatches() : 1;
      auto runs = [&](const dist::ScheduledTask &task, int64_t number) {
        dist::When when = dist::whenRuns(schedule, task);
        return number >= 0 && (when == dist::When::each || number % each == (when == dist::When::first ? 0 : each - 1));
      };
      for (int64_t step = 0; step < (schedule.isAsynchronous() ? steps * each : 1); ++step)
        for (const dist::ScheduledTask &task : dist::tasksOf(schedule, row))
          if (!schedule.isAsynchronous() || runs(task, step + task.microbatch))
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
/// The mesh that the tasks are partitioned over; one without axes if they are not.
dist::Mesh meshOf(mlir::ModuleOp module) {
  for (auto task : module.getOps<mlir::func::FuncOp>())
    if (auto attr = task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned))
      return dist::toMesh(attr);
  return {};
}
/// "2 ranks of 1 thread".
std::string settingText(const RunSetting &setting) {
  return numbered(setting.ranks, "rank") + " of " + numbered(setting.threads, "thread");
}
} // namespace

std::string compiler::whyUnmeasured(const ProfileDatabase &database, const RunSetting &setting, llvm::StringRef what,
                                    double share) {
  constexpr size_t mostSettings = 4; // that are listed
  std::string text = "the profile has " + percent(share) + " of the time of " + what.str() + " for " +
                     settingText(setting) + ", and " + percent(leastMeasured) + " are needed; it has times for ";
  const std::vector<RunSetting> settings = database.settings();
  for (auto [i, known] : llvm::enumerate(llvm::ArrayRef(settings).take_front(mostSettings)))
    text += (i ? ", " : "") + settingText(known);
  return text + (settings.size() > mostSettings ? ", ..." : settings.empty() ? "no setting" : "");
}

double compiler::secondsOf(const ProgramCall &collective, const planning::Cluster &cluster, const dist::Mesh &mesh) {
  return 1e-6 * Formula(cluster, mesh)(collective);
}

llvm::StringMap<int64_t> compiler::runsOfTasks(mlir::ModuleOp module) {
  auto tasks = llvm::to_vector(module.getOps<mlir::func::FuncOp>());
  llvm::StringMap<int64_t> runs;
  for (const auto &row : rowsOf(module, 1))
    for (int64_t task : row)
      ++runs[tasks[task].getName()];
  if (stagesInFlight(module) > 0) // of every kind of task some have not begun in a first step
    for (auto task : tasks)
      if (task.getName().split('.').first == "train")
        runs[task.getName()] = 1;
  return runs;
}

Expectation compiler::expectStep(mlir::ModuleOp module, const planning::Cluster &cluster, const RunSetting &setting,
                                 const ProfileDatabase &database) {
  Expectation result;
  std::map<int64_t, std::pair<size_t, size_t>> callsOf; // by task
  const llvm::StringMap<int64_t> runs = runsOfTasks(module);
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
      result.times.push_back(runs.lookup(task.getName()));
    }
    callsOf[mine] = {first, result.calls.size()};
    for (unsigned i = 0; i < task.getNumArguments(); ++i)
      if (auto name = task.getArgAttrOfType<mlir::StringAttr>(i, graph::names::input))
        inputs[name.str()] = graph::bytesOf(task.getArgumentTypes()[i]);
  }
  for (auto &[name, bytes] : inputs)
    fed += bytes;
  result.links = planning::hostLinksOf(cluster);
  Formula formula(cluster, meshOf(module));
  Estimator estimator(formula, setting, database, result.calls);
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
          const bool send = call.kind == "send";
          TimedCall &timed = devices.back().emplace_back(&call, result.microseconds[i]);
          if (send || (call.collective && cluster.copies))
            timed.occupied = std::exchange(timed.time, send ? messageTime(call, cluster) : 0);
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
