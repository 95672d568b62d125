#pragma once
#include "codegen/Emit/Calls.h"

#include <vector>

namespace divisi::compiler {

/// A call and what it takes. Seconds, or any other unit of time.
struct TimedCall {
  const codegen::ProgramCall *call;
  double time;         // of a send: until the message has arrived
  double occupied = 0; // of a send: of the sender's computation
};

/// When devices are done that run these calls one after the other: computation on one stream, collectives and messages
/// on another that starts them in order; an await waits for its collective or message. Each device stands for all ranks
/// of a stage. Negative if they would wait for ever, or if messages are left that nobody has taken: not where a later
/// step does, in a pipeline that does not run empty.
double finishTime(const std::vector<std::vector<TimedCall>> &devices, bool runsEmpty = true);

} // namespace divisi::compiler
