#pragma once
#include "compiler/CompileRequest.h"
#include "divisi/SyncFlags.h"

#include <CLI/CLI.hpp>

namespace divisi::tools {

/// The flags of `divisi compile` for the number of devices, the strategy, the pipeline and the microbatches.
struct DeviceFlags : compiler::DeviceRequest {
  std::string strategy, cluster, stageAxes, stages, roundRobin, allowed;
  std::vector<int64_t> counts; // as --devices names them
  int64_t devices = 0, accumulate = 1;
  bool noCalibration = false;
  SyncFlags sync;

  void addTo(CLI::App &command);
  /// The numbers of --devices, each once and ascending; `devices` is to be one of them before `finish`.
  std::vector<int64_t> numbers() const;
  /// Chooses a mesh or a search from the given flags. Returns an error text, or "". Afterwards `plan.mesh` is the mesh
  /// of one stage.
  std::string finish(const CLI::App &command);
  /// Takes from a dump that is not planned yet how its replicas are kept in step, and if no flag says which devices there are, their mesh. To be
  /// called before `finish`.
  void follow(const dist::Sync &ofDump, const dist::Mesh &mesh);
  /// Whether any flag needs a plan.
  bool asksForPlan() const {
    return plan.many() || devices || !strategy.empty() || plan.zero || microbatches.any() || microbatches.stages > 1 ||
           plan.remat.value_or(0) > 0 || sync.given();
  }

private:
  std::string takeStages(const CLI::App &command);
  std::string takeReplicas();
  /// The mesh of one stage, once --mesh was checked.
  dist::Mesh meshOfStage() const;
  std::string chooseSearch();
  std::string chooseMesh();
  std::string choosePipeline(const CLI::App &command);
  std::string checkPins() const;
  std::string checkSync(const CLI::App &command);
};

/// Adds the flag --no-calibration.
void addNoCalibration(CLI::App &group, bool &flag);

/// Adds the flag --remat: see PlanOptions.
void addRemat(CLI::App &group, std::optional<int64_t> &remat);

/// An error text if the mesh does not have the requested number of devices (0: any number); else "".
std::string checkDevices(const std::string &mesh, int64_t ofMesh, int64_t devices);

} // namespace divisi::tools
