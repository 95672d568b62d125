#pragma once
#include "passes/Planning/Cost/Cluster.h"

namespace divisi::tools {

/// Whether this machine may be measured, and where its figures come from otherwise.
enum class Calibrating {
  measure, // from the file of calibrations; measured, with a line on standard error, if it does not have this machine
  known,   // from the file, if it has this machine
  off      // figures of the kind
};

/// This machine, with measured figures. A file that cannot be read or written is an error of one line.
llvm::Expected<planning::Machine> calibratedMachine(Calibrating how);

/// The machine for a cluster by its text: only cpu:N needs figures.
llvm::Expected<planning::Machine> machineFor(llvm::StringRef cluster, bool calibrate);

} // namespace divisi::tools
