#pragma once
#include "passes/Planning/Simulator/Replicas.h"
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

/// What the outputs show of a simulated run, to which it refers: the simulation must outlive it.
struct Report {
  /// A figure above the table and on the page.
  struct Figure {
    std::string name, value, note;
  };
  /// A kind of boxes in the picture, and its text.
  struct Legend {
    llvm::StringRef kind, text;
    bool pale = false;
  };
  struct Device {
    std::string name;
    double busy = 0; // seconds
    double peakBytes = 0;
    llvm::ArrayRef<Simulation::Sample> memory;
  };
  /// An event.
  struct Box {
    int device;
    bool computes;        // else it communicates: below, and on a thread of its own in a trace
    double start, end;    // seconds
    llvm::StringRef kind; // its first word is the class in the picture
    int number = -1;      // in the box; -1: none
    bool pale = false;
  };

  std::string title, subtitle, note; // the note is below the table of the page
  double seconds = 0;
  std::vector<Figure> figures;
  std::vector<std::vector<std::string>> table; // a heading for each column, then the cells of each device
  std::vector<Legend> legend;
  std::vector<Device> devices;
  std::vector<Box> boxes;
  std::function<std::string(size_t box)> describe;       // what it is
  std::function<llvm::json::Object(size_t box)> details; // the same for a trace
};

/// Columns with only zeros are left out of the table.
Report report(const Simulation &simulation, const Names &names);
Report report(const ReplicaSimulation &simulation, const std::string &title);
/// Machine-readable: times in milliseconds, sizes in bytes.
llvm::json::Object toJson(const Simulation &simulation, const Names &names);
llvm::json::Object toJson(const ReplicaSimulation &simulation);

/// For a terminal: key figures, and a line for each device.
void printTable(const Report &report, llvm::raw_ostream &out);
/// For chrome://tracing and Perfetto: an event for each task (thread 0 of the device's process), transfer and
/// collective (thread 1), in microseconds, and a counter of memory.
void printTrace(const Report &report, llvm::raw_ostream &out);
/// A picture: a lane of computation for each device, and below it communication and memory if there is any. It is
/// self-contained and follows the reader's light or dark scheme.
void printSwimlane(const Report &report, llvm::raw_ostream &out);
/// The same in a page with a legend, key figures and the table. No script.
void printPage(const Report &report, llvm::raw_ostream &out);

} // namespace divisi::planning::pipeline
