#pragma once
#include "passes/Planning/ModulePlanner.h"

namespace divisi::compiler {

/// A plan of a model on a cluster.
struct DifferenceSide {
  std::string model; // for the heading
  const planning::Cluster &cluster;
  const planning::ModuleCandidate &plan;
};

/// Prints what the second plan changes, on one screen: times, bytes and memory of a device, the shardings of states and
/// inputs, the layers whose times differ most, and the collectives. What has the same name in two models is compared.
void printDifference(const DifferenceSide &first, const DifferenceSide &second, llvm::raw_ostream &out);

} // namespace divisi::compiler
