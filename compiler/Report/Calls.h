#pragma once
#include "compiler/Profile/Expectation.h"
#include "passes/Planning/Cost/StepCall.h"

#include "llvm/Support/JSON.h"

namespace divisi::compiler {

/// The calls of a program, without those that only wait.
std::vector<planning::StepCall> callsOf(const Expectation &program);

/// As `--calls` shows them (docs/plans.md): times in milliseconds, sizes in bytes.
llvm::json::Array describeCalls(const std::vector<planning::StepCall> &calls);
/// Prints the same for a terminal.
void printCalls(const llvm::json::Array &calls, llvm::raw_ostream &out);

} // namespace divisi::compiler
