#pragma once
#include "passes/Planning/PlanText.h"
#include "passes/Planning/Search/Planner.h"

#include "mlir/IR/OwningOpRef.h"

namespace divisi::planning {

/// A module whose batch was split into microbatches before it was planned.
struct SplitModule {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string hash; // when a plan file is read
  int64_t microbatches = 1;
};

/// A plan for a module, and the preparation of the module that it assumes.
struct ModuleCandidate : Candidate {
  Preparation preparation;
  std::shared_ptr<const Planner> planner;   // the planner that made it, of the padded problem
  std::shared_ptr<const SplitModule> split; // with gradient accumulation: the module that the plan is for

  /// The names of its parallelisms: "data", "tensor", "ZeRO-1", ...
  std::vector<std::string> forms() const;
};

/// An error without text: a diagnostic was emitted already.
inline llvm::Error told() { return llvm::createStringError(""); }

/// Plans a module on meshes of a cluster; the candidates are returned best first, and the best one is complete. The
/// module is not changed, except by separateScalars. If sizes do not divide over a mesh, the module is also planned
/// padded; if memory is short, also with rematerialization (rematSegments), unless `options.remat` fixes the number of
/// segments. An error says what is wrong with the pins; it has no text if a diagnostic was emitted.
llvm::Expected<std::vector<ModuleCandidate>> planModule(mlir::ModuleOp module, const Cluster &cluster,
                                                        const PlannerOptions &options);

/// The meshes of the first candidates, a few of them: where memory is short, the others are left out.
std::vector<dist::Mesh> bestMeshes(const std::vector<ModuleCandidate> &candidates);

/// Whether one of the plans does not fit, but would with less memory for activations, and is faster than the best.
bool isMemoryShort(const std::vector<ModuleCandidate> &candidates, const Cluster &cluster);

/// Plans with about the least number of rematerialized segments for which a plan fits and is better than `whole`, the
/// plans of this module without rematerialization, best first; on the best meshes of `whole` only.
llvm::Expected<std::vector<ModuleCandidate>> planRematerialized(mlir::ModuleOp module, const Cluster &cluster,
                                                                const PlannerOptions &options,
                                                                const std::vector<ModuleCandidate> &whole);

/// Of sorted candidates, at least one, puts the one to choose first (`preferred`). Returns whether it was not.
bool preferFewerDevices(std::vector<ModuleCandidate> &candidates);

/// Prepares and plans a module as the candidate says, and writes the plan at the head of the module. With one device
/// nothing is planned.
mlir::LogicalResult applyCandidate(mlir::ModuleOp module, const ModuleCandidate &candidate, const PlanSubject &subject);

/// One line for users: the chosen plan, and the time of the next best choice.
std::string describeChoice(const std::vector<ModuleCandidate> &candidates);

/// The mesh on which a strategy is followed, and the sizes that are padded for it.
struct StrategyMesh {
  dist::Mesh mesh;
  std::vector<NamedPad> pads;
};
/// Prepares a module for a strategy: where groups of columns (heads) do not divide over the axis "model", the mesh may
/// be one of meshesForGroups that is faster on devices of the kind ("cpu" or "cuda"), the same on every machine. Pins
/// and axes that only some stages have keep the mesh. The module is padded. Errors are as planModule's.
llvm::Expected<StrategyMesh> prepareStrategy(mlir::ModuleOp module, const dist::Mesh &mesh,
                                             const StrategyOptions &options, llvm::StringRef kind);

/// Pads the sizes that strategies on a mesh need to divide, and returns what was padded. Errors are as planModule's.
llvm::Expected<std::vector<NamedPad>> padForStrategy(mlir::ModuleOp module, const dist::Mesh &mesh,
                                                     const StrategyOptions &options);

/// Clones splat constants and broadcast scalars for each user, so that tensors which only share such a value may have
/// different shardings.
void separateScalars(mlir::ModuleOp module);

} // namespace divisi::planning
