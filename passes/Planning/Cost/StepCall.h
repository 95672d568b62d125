#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace divisi::planning {

/// What runs in a step on a device, as it is priced: the same of a plan (compiler/PlannedCalls.h) and of a compiled program.
struct StepCall {
  std::string kind; // kernel, copy, send, receive; the name of a collective; else that of the operation of a call
  std::string name; // of the model's nodes
  double flops = 0, bytes = 0; // of a collective or message: the bytes of the operands
  double seconds = 0;
  bool communicates = false; // on the stream of communication
  int64_t times = 1;         // in a step: once for each microbatch, perhaps
  int operation = -1;        // of the problem, at which it stands; -1: a copy, or a call of a compiled program
};

} // namespace divisi::planning
