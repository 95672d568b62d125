#include "codegen/Kernels/CheckTasks.h"

#include "llvm/ADT/StringMap.h"

#include <map>

using namespace mlir;
using namespace divisi;

namespace {

bool isHeld(Attribute attr) {
  auto held = dyn_cast<DictionaryAttr>(attr);
  auto kind = held ? held.getAs<StringAttr>("kind") : StringAttr();
  return kind && held.getAs<StringAttr>("name") &&
         (kind == dist::held::step || kind == dist::held::microbatch || kind == dist::held::sum);
}

/// What tasks of a device hold for each other has the same kind and type where it is left and where it is taken.
LogicalResult checkHeld(ArrayRef<func::FuncOp> tasks) {
  std::map<std::pair<std::string, const void *>, Type> left; // by function and dist.held
  auto nameOf = [](func::FuncOp task) { return task.getName().split('.').first.str(); };
  for (func::FuncOp task : tasks)
    for (unsigned i = 0; i < task.getNumResults(); ++i)
      if (Attribute held = task.getResultAttr(i, dist::names::held)) {
        if (!isHeld(held))
          return task.emitOpError("'dist.held' must be {kind = \"step\", \"microbatch\" or \"sum\", name}, got ") << held;
        left[{nameOf(task), held.getAsOpaquePointer()}] = task.getResultTypes()[i];
      }
  for (func::FuncOp task : tasks)
    for (unsigned i = 0; i < task.getNumArguments(); ++i)
      if (Attribute held = task.getArgAttr(i, dist::names::held)) {
        auto it = left.find({nameOf(task), held.getAsOpaquePointer()});
        if (it == left.end() || it->second != task.getArgumentTypes()[i])
          return task.emitOpError("takes ") << held << ", which no task of its stage leaves with this type";
      }
  return success();
}

/// The place of a kind of task among those for a microbatch.
int orderOf(StringRef symbol) {
  static constexpr StringLiteral kinds[] = {"start", "stash", "step", "forward", "backward", "weight", "finish"};
  const auto *found = llvm::find(kinds, symbol.rsplit('.').second);
  return found == std::end(kinds) ? -1 : (int)(found - kinds);
}

LogicalResult checkRow(dist::ScheduleOp schedule, int64_t device, ModuleOp module) {
  auto row = dist::tasksOf(schedule, device);
  std::map<std::string, std::map<int64_t, size_t>> runs; // by task: the positions of microbatches
  std::map<std::pair<std::string, int64_t>, int> latest; // by stage and microbatch: the kind of the last task
  for (auto [position, entry] : llvm::enumerate(row)) {
    auto task = module.lookupSymbol<func::FuncOp>(entry.symbol);
    if (!task)
      return schedule.emitOpError("runs @") << entry.symbol << ", but there is no such task";
    if (dist::stageOf(task) != device)
      return schedule.emitOpError("runs @") << entry.symbol << " on device " << device << ", but it is of device " << dist::stageOf(task);
    if (!runs[entry.symbol].try_emplace(entry.microbatch, position).second)
      return schedule.emitOpError("runs @") << entry.symbol << " twice for microbatch " << entry.microbatch;
    int kind = orderOf(entry.symbol);
    int &last = latest.try_emplace({entry.group, schedule.isAsynchronous() ? 0 : entry.microbatch}, kind).first->second;
    bool once = kind == orderOf(".start") || kind == orderOf(".finish");
    bool inOrder = once ? (kind == orderOf(".start") ? position == 0 : position + 1 == row.size()) : kind >= last;
    if (kind < 0 || !inOrder)
      return schedule.emitOpError("runs @") << entry.symbol << " for microbatch " << entry.microbatch << " out of order";
    last = std::max(last, once ? last : kind);
  }
  for (auto task : module.getOps<func::FuncOp>()) {
    if (task.getName().split('.').first != schedule.getFunction() || dist::stageOf(task) != device)
      continue;
    int kind = orderOf(task.getName());
    bool once = schedule.isAsynchronous() || kind == orderOf(".start") || kind == orderOf(".finish");
    if (size_t wanted = once ? 1 : schedule.getMicrobatches(); runs[task.getName().str()].size() != wanted)
      return schedule.emitOpError("runs @") << task.getName() << " for " << runs[task.getName().str()].size() << " of " << wanted
             << " microbatches";
    int64_t number = runs[task.getName().str()].begin()->first;
    bool fits = !schedule.isAsynchronous() || (kind == orderOf(".stash") ? number >= 0 : kind == orderOf(".forward") ? number == 0 : number <= 0);
    if (once && !schedule.isAsynchronous() ? number != 0 : !fits)
      return schedule.emitOpError("cannot run @") << task.getName() << " for microbatch " << number;
  }
  if (!schedule.isAsynchronous())
    return success();
  // The update follows its own backward pass.
  std::optional<int64_t> backward;
  for (const auto &entry : row) {
    int kind = orderOf(entry.symbol);
    if (kind == orderOf(".backward"))
      backward = entry.microbatch;
    if (kind == orderOf(".finish") && backward && *backward != entry.microbatch)
      return schedule.emitOpError("runs @") << entry.symbol << " for another minibatch than the backward task before it";
  }
  return success();
}
} // namespace

LogicalResult codegen::checkTasks(ModuleOp module) {
  std::map<int64_t, SmallVector<func::FuncOp>> tasksOf; // by device of a pipeline
  for (auto task : module.getOps<func::FuncOp>())
    tasksOf[dist::stageOf(task)].push_back(task);
  for (auto &[device, tasks] : tasksOf)
    if (failed(checkHeld(tasks)))
      return failure();
  int64_t devices = tasksOf.empty() ? 0 : tasksOf.rbegin()->first + 1;
  for (auto schedule : module.getOps<dist::ScheduleOp>()) {
    if ((int64_t)schedule.getRows().size() != devices)
      return schedule.emitOpError("expected a row for each of ") << devices << " devices, got " << schedule.getRows().size();
    for (int64_t device = 0; device < devices; ++device)
      if (failed(checkRow(schedule, device, module)))
        return failure();
  }
  return success();
}
