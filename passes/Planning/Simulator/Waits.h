#pragma once
#include "passes/Planning/Simulator/Checker.h"

namespace divisi::planning::pipeline {

/// A cycle of actions that wait for one another, as a text; empty if there is none. The messages are those that
/// checkProgram has matched.
std::string findDeadlock(const Program &program, SendMode mode);

} // namespace divisi::planning::pipeline
