#pragma once
#include "passes/Planning/PlanText.h"
#include "passes/Planning/Search/Planner.h"

namespace divisi::planning {

/// A plan for a module, and what was changed in it before.
struct ModuleCandidate : Candidate {
  Preparation preparation;
  std::shared_ptr<const Planner> planner; // that made it, of the problem as it is padded
};

/// An error without text: of what a diagnostic has told.
inline llvm::Error told() { return llvm::createStringError(""); }

/// Plans a module (left as it is, but for separateScalars) on meshes of a cluster, best first; that one is complete.
/// Where sizes do not divide over a mesh, the module is also planned padded; where memory is short, also with parts of
/// the forward pass recomputed (rematSegments), if `options.remat` leaves that open. An error says
/// what is wrong with the pins; it has no text where a diagnostic has told already.
llvm::Expected<std::vector<ModuleCandidate>> planModule(mlir::ModuleOp module, const Cluster &cluster,
                                                        const PlannerOptions &options);

/// Prepares and plans a module as a candidate says, and puts the plan's text at its head. One device: nothing
/// is planned.
mlir::LogicalResult applyCandidate(mlir::ModuleOp module, const ModuleCandidate &candidate, const PlanSubject &subject);

/// One line for people: what was chosen, and what the nearest other choice takes.
std::string describeChoice(const std::vector<ModuleCandidate> &candidates);

/// Pads what strategies on a mesh need to divide, and says what that was. Errors as planModule's.
llvm::Expected<std::vector<NamedPad>> padForStrategy(mlir::ModuleOp module, const dist::Mesh &mesh,
                                                     const StrategyOptions &options);

/// Constants of one value and repeated scalars get one operation for each user: tensors that have only these in common
/// are not to be split alike for their sake.
void separateScalars(mlir::ModuleOp module);

} // namespace divisi::planning
