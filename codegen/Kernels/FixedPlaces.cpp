#include "codegen/Kernels/FixedPlaces.h"

#include "divisi/abi.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

static std::string groupOf(const dist::ScheduledTask &task) { return dist::groupOf(task.symbol).str(); }
static bool isOnce(const dist::ScheduledTask &task) {
  auto kind = dist::kindOf(task.symbol);
  return kind && dist::isOnce(*kind);
}

static bool isInSlot(DictionaryAttr held) { return held.getAs<StringAttr>("kind") == dist::held::microbatch; }

std::string FixedPlaces::nameOfHeld(func::FuncOp task, DictionaryAttr held) {
  return ("held " + task.getName().split('.').first + " " + held.getAs<StringAttr>("name").getValue()).str();
}

std::string FixedPlaces::nameOfArgument(func::FuncOp task, unsigned argument) {
  if (auto state = task.getArgAttrOfType<DictionaryAttr>(argument, graph::names::state))
    return "state " + state.getAs<StringAttr>("name").str();
  if (auto held = task.getArgAttrOfType<DictionaryAttr>(argument, dist::names::held))
    return nameOfHeld(task, held);
  for (StringRef kind : {graph::names::input, graph::names::scalar})
    if (auto name = task.getArgAttrOfType<StringAttr>(argument, kind))
      return (kind + " " + name.getValue()).str();
  return (task.getName() + " " + llvm::Twine(argument)).str(); // a value without a name belongs to its task only
}

FixedPlaces::FixedPlaces(ArrayRef<func::FuncOp> tasks, ModuleOp module, int64_t row) {
  for (func::FuncOp task : tasks)
    for (BlockArgument argument : task.getArguments())
      if (!task.getArgAttr(argument.getArgNumber(), dist::names::held))
        add(nameOfArgument(task, argument.getArgNumber()), argument.getType());
  // What tasks of one function pass on lies where those of another do: their steps do not overlap. Minibatches of an
  // asynchronous step are in flight between steps.
  const bool share = llvm::none_of(module.getOps<dist::ScheduleOp>(), [](dist::ScheduleOp op) { return op.isAsynchronous(); });
  const int64_t common = bytes;
  int64_t most = bytes;
  std::map<StringRef, SmallVector<func::FuncOp>> byFunction;
  for (func::FuncOp task : tasks)
    byFunction[dist::functionOf(task.getName())].push_back(task);
  for (auto &[function, ofFunction] : byFunction) {
    bytes = share ? common : most;
    addHeld(ofFunction);
    for (auto schedule : module.getOps<dist::ScheduleOp>())
      if (schedule.getFunction() == function)
        schedule.isAsynchronous() ? placeRing(schedule, row) : placeSlots(schedule, row);
    most = std::max(most, bytes);
  }
  bytes = most;
}

void FixedPlaces::addHeld(ArrayRef<func::FuncOp> tasks) {
  for (func::FuncOp task : tasks) {
    for (BlockArgument argument : task.getArguments())
      if (auto held = task.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), dist::names::held);
          held && !isInSlot(held))
        add(nameOfHeld(task, held), argument.getType());
    for (auto [i, type] : llvm::enumerate(task.getResultTypes()))
      if (auto held = task.getResultAttrOfType<DictionaryAttr>(i, dist::names::held)) {
        if (isInSlot(held))
          addToSlot(task, nameOfHeld(task, held), type);
        else
          add(nameOfHeld(task, held), type);
      }
  }
}

std::optional<int64_t> FixedPlaces::ofResult(func::FuncOp task, unsigned result) const {
  if (auto name = task.getResultAttrOfType<StringAttr>(result, graph::names::renews))
    return places.lookup("state " + name.str());
  if (auto held = task.getResultAttrOfType<DictionaryAttr>(result, dist::names::held))
    return places.lookup(nameOfHeld(task, held));
  return std::nullopt;
}

void FixedPlaces::add(const std::string &name, Type type) {
  if (places.try_emplace(name, bytes).second)
    bytes += llvm::alignTo(graph::bytesOf(type), DIVISI_ALIGNMENT);
}

void FixedPlaces::addToSlot(func::FuncOp task, const std::string &name, Type type) {
  int64_t &end = slotBytes[dist::groupOf(task.getName())];
  places[name] = end | exec::slotBit;
  end += llvm::alignTo(graph::bytesOf(type), DIVISI_ALIGNMENT);
}

/// Assigns buffer slots to microbatches: each has one slot of its stage from its first to its last task there. Tasks
/// that run once have none. Replicas that take microbatches in turn have the same slots in arenas of their own. Writes
/// the slots' offsets as an attribute with a list for each row.
void FixedPlaces::placeSlots(dist::ScheduleOp schedule, int64_t row) {
  struct InUse {
    llvm::SmallVector<bool> slots;
    std::map<int64_t, int64_t> slotOf; // by microbatch
  };
  auto tasks = dist::tasksOf(schedule, row);
  const int64_t replicas = dist::replicasOf(schedule->getParentOfType<ModuleOp>(), row);
  std::map<std::pair<std::string, int64_t>, size_t> last; // by group and microbatch
  for (auto [position, task] : llvm::enumerate(tasks))
    if (!isOnce(task))
      last[{groupOf(task), task.microbatch}] = position;
  std::map<std::string, std::map<int64_t, InUse>> groups; // by replica
  SmallVector<int64_t> taken;                             // the slot of each task
  for (auto [position, task] : llvm::enumerate(tasks)) {
    InUse &use = groups[groupOf(task)][task.microbatch % replicas];
    if (isOnce(task)) {
      taken.push_back(-1);
      continue;
    }
    auto [it, fresh] = use.slotOf.try_emplace(task.microbatch, 0);
    if (fresh) {
      it->second = llvm::find(use.slots, false) - use.slots.begin();
      if (it->second == (int64_t)use.slots.size())
        use.slots.push_back(true);
      use.slots[it->second] = true;
    }
    taken.push_back(it->second);
    if (last[{groupOf(task), task.microbatch}] == position) {
      use.slots[it->second] = false;
      use.slotOf.erase(it);
    }
  }
  std::map<std::string, int64_t> base;
  for (auto &[group, users] : groups) {
    size_t most = 0;
    for (auto &[replica, use] : users)
      most = std::max(most, use.slots.size());
    base[group] = bytes;
    bytes += slotBytes.lookup(group) * most;
  }
  SmallVector<int64_t> offsets;
  for (auto [task, slot] : llvm::zip(tasks, taken)) {
    int64_t size = slotBytes.lookup(groupOf(task));
    offsets.push_back(size && slot >= 0 ? base[groupOf(task)] + slot * size : 0);
  }
  writeSlots(schedule, row, offsets);
}

/// Assigns a ring of buffer slots to the minibatches of an asynchronous step: as many as are in flight, from the oldest
/// to the newest one of a step.
void FixedPlaces::placeRing(dist::ScheduleOp schedule, int64_t row) {
  std::map<std::string, std::pair<int64_t, int64_t>> ranges; // least and most, by group
  auto tasks = dist::tasksOf(schedule, row);
  for (const auto &task : tasks) {
    auto &[least, most] = ranges[groupOf(task)];
    if (schedule.isDoubleBuffered() && isOnce(task)) // which no microbatch of its batch outlasts
      continue;
    least = std::min(least, task.microbatch);
    most = std::max(most, task.microbatch);
  }
  std::map<std::string, int64_t> base;
  for (auto &[group, range] : ranges) {
    base[group] = bytes;
    bytes += slotBytes.lookup(group) * (range.second - range.first + 1);
  }
  SmallVector<int64_t> rings;
  for (const auto &task : tasks) {
    auto [least, most] = ranges[groupOf(task)];
    int64_t size = slotBytes.lookup(groupOf(task));
    rings.append({size ? base[groupOf(task)] : 0, size, most - least + 1});
  }
  writeSlots(schedule, row, rings);
}

void FixedPlaces::writeSlots(dist::ScheduleOp schedule, int64_t row, ArrayRef<int64_t> numbers) {
  Builder builder(schedule);
  SmallVector<Attribute> rows(schedule.getRows().size(), builder.getDenseI64ArrayAttr({}));
  if (auto known = schedule->getAttrOfType<ArrayAttr>(exec::names::slots))
    llvm::copy(known, rows.begin());
  rows[row] = builder.getDenseI64ArrayAttr(numbers);
  schedule->setAttr(exec::names::slots, builder.getArrayAttr(rows));
}
