#include "codegen/Emit/CheckPlaces.h"

#include "dialects/Dist/Tasks.h"
#include "dialects/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace divisi;

static LogicalResult checkSlots(dist::ScheduleOp schedule, int64_t arena) {
  auto slots = schedule->getAttrOfType<ArrayAttr>(exec::names::slots);
  if (!slots || slots.size() != schedule.getRows().size())
    return schedule.emitOpError("needs '") << exec::names::slots << "' with a row for each of its own";
  for (auto [row, attr] : llvm::enumerate(slots)) {
    auto numbers = dyn_cast<DenseI64ArrayAttr>(attr);
    size_t each =
        schedule.isAsynchronous() ? 3 : 1; // the slot, or the first slot, the bytes of one, and how many there are
    if (!numbers || numbers.size() != (int64_t)(each * dist::tasksOf(schedule, row).size()))
      return schedule.emitOpError("expected ")
             << each << " numbers for each entry in '" << exec::names::slots << "', got " << attr;
    for (int64_t number : numbers.asArrayRef())
      if (number < 0 || number > arena)
        return schedule.emitOpError("has a slot outside of the arena of ") << arena << " bytes: " << number;
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
      auto offsets = op->getAttrOfType<DenseI64ArrayAttr>("offsets");
      if (!offsets || llvm::all_of(offsets.asArrayRef(), isPlace))
        return WalkResult::advance();
      op->emitOpError("has a result outside of the arena of ") << arena << " bytes";
      return WalkResult::interrupt();
    });
    if (checked.wasInterrupted())
      return failure();
  }
  for (auto schedule : module.getOps<dist::ScheduleOp>())
    if (failed(checkSlots(schedule, arena)))
      return failure();
  return success();
}
