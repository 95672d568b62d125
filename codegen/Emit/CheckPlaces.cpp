#include "codegen/Emit/CheckPlaces.h"

#include "dialects/Dist/Tasks.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

using namespace mlir;
using namespace divisi;

/// Checks that a microbatch has one buffer slot from its first to its last task on a stage, and no other microbatch of the
/// same replica has the slot meanwhile.
static LogicalResult checkTurns(dist::ScheduleOp schedule, int64_t row, ArrayRef<int64_t> slots) {
  struct Use {
    int64_t slot;
    size_t last; // position in the row
  };
  auto tasks = dist::tasksOf(schedule, row);
  std::map<std::pair<StringRef, int64_t>, Use> uses; // by stage and microbatch
  std::map<StringRef, bool> hasSlots;                // by stage
  auto isOnce = [](const dist::ScheduledTask &task) {
    auto kind = dist::kindOf(task.symbol);
    return !kind || dist::isOnce(*kind);
  };
  for (auto [position, task] : llvm::enumerate(tasks)) {
    if (isOnce(task))
      continue;
    StringRef stage = dist::groupOf(task.symbol);
    auto [use, fresh] = uses.try_emplace({stage, task.microbatch}, Use{slots[position], position});
    use->second.last = position;
    hasSlots[stage] |= slots[position] != 0;
    if (use->second.slot != slots[position])
      return schedule.emitOpError("gives microbatch ") << task.microbatch << " two slots of @" << stage;
  }
  const int64_t replicas = dist::replicasOf(schedule->getParentOfType<ModuleOp>(), row);
  std::map<std::tuple<StringRef, int64_t, int64_t>, std::pair<int64_t, size_t>> holders; // by stage, slot and replica
  for (auto [position, task] : llvm::enumerate(tasks)) {
    StringRef stage = dist::groupOf(task.symbol);
    if (isOnce(task) || !hasSlots[stage])
      continue;
    auto [holder, fresh] = holders.try_emplace({stage, slots[position], task.microbatch % replicas});
    if (!fresh && holder->second.first != task.microbatch && holder->second.second > position)
      return schedule.emitOpError("gives the microbatches ")
             << holder->second.first << " and " << task.microbatch << " one slot of @" << stage << " at a time";
    holder->second = {task.microbatch, uses.at({stage, task.microbatch}).last};
  }
  return success();
}

static LogicalResult checkSlots(dist::ScheduleOp schedule, int64_t arena) {
  auto slots = schedule->getAttrOfType<ArrayAttr>(exec::names::slots);
  if (!slots || slots.size() != schedule.getRows().size())
    return schedule.emitOpError("needs '") << exec::names::slots << "' with a row for each of its own";
  for (auto [row, attr] : llvm::enumerate(slots)) {
    auto numbers = dyn_cast<DenseI64ArrayAttr>(attr);
    // A task's entries: its slot; in an asynchronous schedule the first slot, the bytes of a slot, the number of slots.
    size_t each = schedule.isAsynchronous() ? 3 : 1;
    if (!numbers || numbers.size() != (int64_t)(each * dist::tasksOf(schedule, row).size()))
      return schedule.emitOpError("expected ")
             << each << " numbers for each entry in '" << exec::names::slots << "', got " << attr;
    for (int64_t number : numbers.asArrayRef())
      if (number < 0 || number > arena)
        return schedule.emitOpError("has a slot outside of the arena of ") << arena << " bytes: " << number;
    if (!schedule.isAsynchronous() && failed(checkTurns(schedule, row, numbers)))
      return failure();
  }
  return success();
}

LogicalResult codegen::checkPlaces(ModuleOp module) {
  auto size = module->getAttrOfType<IntegerAttr>(exec::names::arena);
  if (!size || size.getInt() < 0)
    return module.emitError("expected the bytes of the arena in '") << exec::names::arena << "'";
  int64_t arena = size.getInt();
  auto isPlace = [&](int64_t offset) { return offset >= 0 && (offset & ~exec::slotBit) <= arena; };
  for (auto task : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < task.getNumArguments(); ++i) {
      auto offset = task.getArgAttrOfType<IntegerAttr>(i, exec::names::offset);
      if (!offset || !isPlace(offset.getInt()))
        return task.emitOpError("argument ") << i << " has no place in the arena ('" << exec::names::offset << "')";
    }
    auto checked = task.walk([&](Operation *op) {
      auto fail = [&](const Twine &what) {
        op->emitOpError(what);
        return WalkResult::interrupt();
      };
      auto item = dyn_cast<exec::ItemInterface>(op);
      if (!item || op->getNumResults() == 0)
        return WalkResult::advance();
      DenseI64ArrayAttr offsets = item.getOffsetsAttr();
      if (!offsets)
        return fail("needs 'offsets' with a place for each of its results");
      for (auto [offset, result] : llvm::zip(offsets.asArrayRef(), op->getResults()))
        if (!isPlace(offset) || (offset & ~exec::slotBit) + graph::bytesOf(result.getType()) > arena)
          return fail("has a result outside of the arena of " + Twine(arena) + " bytes");
      return WalkResult::advance();
    });
    if (checked.wasInterrupted())
      return failure();
  }
  for (auto schedule : module.getOps<dist::ScheduleOp>())
    if (failed(checkSlots(schedule, arena)))
      return failure();
  return success();
}
