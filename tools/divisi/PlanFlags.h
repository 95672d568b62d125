#pragma once
#include "divisi/ModelFlags.h"

#include <optional>

namespace divisi::tools {

/// The flags of `divisi plan` and `divisi explain`.
struct PlanFlags {
  ModelFlags model;
  std::string cluster, mesh, html, plan;
  std::string profile, objective = "step", bandwidth, cost = "paper"; // of layers instead of a model
  std::vector<std::string> pins;
  std::string schedule, allowed, swimlane; // of pipelines
  int64_t devices = 0, microbatches = 0;
  std::optional<int64_t> remat;
  std::string priceText;
  double price = 0; // of a device and hour; 0: unknown
  std::string log;  // of a program that measured the noise of its gradients
  std::string sync; // all: also the ways to keep replicas in step
  size_t top = 10;
  bool calls = false; // lists what a device runs
  bool json = false, pipelines = false, noCalibration = false;

  /// Adds the flags of `divisi plan` or, if it `explains`, `divisi explain`.
  void addTo(CLI::App &command, bool explains);
  /// Checks what was given. Returns an error text, or "".
  std::string finish(const CLI::App &command, bool explains);
};

} // namespace divisi::tools
