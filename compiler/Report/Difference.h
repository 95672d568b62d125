#pragma once
#include "passes/Planning/ModulePlanner.h"

namespace divisi::compiler {

/// Two plans of one model on one cluster.
struct Difference {
  std::string model; // for the heading
  const planning::Cluster &cluster;
  const planning::ModuleCandidate &first, &second;
};

/// Prints what the second plan changes, on one screen: times, bytes and memory of a device, the shardings of states and
/// inputs, the layers whose times differ most, and the collectives.
void printDifference(const Difference &difference, llvm::raw_ostream &out);

} // namespace divisi::compiler
