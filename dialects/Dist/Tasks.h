#pragma once
#include "dialects/Dist/Dist.h"

namespace divisi::dist {

/// `dist.stage`; 0 without one.
int64_t stageOf(mlir::Operation *op);
int64_t stageOf(mlir::BlockArgument argument);

/// An entry of a schedule's row: "0.forward 3".
struct ScheduledTask {
  std::string symbol;       // of the task: train.0.forward
  std::string group;        // what has its slots together: train.0
  int64_t microbatch = 0;   // of an asynchronous schedule: counted from the newest one
};
/// The row of a verified schedule.
std::vector<ScheduledTask> tasksOf(ScheduleOp schedule, int64_t row);

} // namespace divisi::dist
