#include "dialects/Dist/Tasks.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace divisi;

static int64_t numberIn(IntegerAttr stage) { return stage ? stage.getInt() : 0; }

int64_t dist::stageOf(Operation *op) { return numberIn(op->getAttrOfType<IntegerAttr>(names::stage)); }

int64_t dist::stageOf(BlockArgument argument) {
  auto function = cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return numberIn(function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), names::stage));
}

std::vector<dist::ScheduledTask> dist::tasksOf(ScheduleOp schedule, int64_t row) {
  std::vector<ScheduledTask> tasks;
  for (auto entry : cast<ArrayAttr>(schedule.getRows()[row]).getAsRange<StringAttr>()) {
    auto [task, number] = entry.getValue().split(' ');
    ScheduledTask &scheduled = tasks.emplace_back();
    scheduled.symbol = (schedule.getFunction() + "." + task).str();
    scheduled.group = (schedule.getFunction() + "." + task.split('.').first).str();
    (void)number.getAsInteger(10, scheduled.microbatch); // verified
  }
  return tasks;
}
