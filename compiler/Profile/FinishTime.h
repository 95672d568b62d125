#pragma once
#include "codegen/Emit/Calls.h"

#include <vector>

namespace divisi::compiler {

/// A call and its time, in seconds or any other unit.
struct TimedCall {
  const codegen::ProgramCall *call;
  double time;         // of a send: until the message has arrived
  double occupied = 0; // of a send or collective: time before that in which the device cannot compute
};

/// The time at which all devices have finished, if each runs its calls in order: computation on one stream, collectives
/// and messages on another that starts them in order; an await waits for its collective or message. Each device stands
/// for all ranks of a stage. Negative if the devices deadlock, or if messages are left that no device has received.
/// With `runsEmpty` false (a pipeline that is not drained), a later step receives these.
double finishTime(const std::vector<std::vector<TimedCall>> &devices, bool runsEmpty = true);

} // namespace divisi::compiler
