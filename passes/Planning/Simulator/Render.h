#pragma once
#include "passes/Planning/Simulator/Simulator.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace divisi::planning::pipeline {

/// Texts of the report; any text is valid, because it is escaped wherever it is shown.
struct Names {
  std::string title;
  std::vector<std::string> devices; // "device 0" and so on for those without a name

  std::string device(size_t number) const;
};

/// For a terminal: key figures, and a line for each device.
void printTable(const Simulation &simulation, const Names &names, llvm::raw_ostream &out);
/// Machine-readable: times in milliseconds, sizes in bytes.
llvm::json::Object toJson(const Simulation &simulation, const Names &names);
/// For chrome://tracing and Perfetto: an event for each task (thread 0 of the device's process), transfer and
/// all_reduce (thread 1), in microseconds, and a counter of memory.
void printTrace(const Simulation &simulation, const Names &names, llvm::raw_ostream &out);
/// A picture: a lane of computation for each device, and below it communication and memory if there is any. It is
/// self-contained and follows the reader's light or dark scheme.
void printSwimlane(const Simulation &simulation, const Names &names, llvm::raw_ostream &out);
/// The same in a page with a legend, key figures and the table. No script.
void printPage(const Simulation &simulation, const Names &names, llvm::raw_ostream &out);

} // namespace divisi::planning::pipeline
