#pragma once
#include "passes/Planning/PadClass.h"
#include "passes/Planning/Propagation.h"

#include "llvm/Support/Error.h"

#include <functional>

namespace divisi::planning {

/// A sharding that a user requests, by the name of an input or of state.
struct Pin {
  std::string name;
  std::vector<std::vector<std::string>> dims; // axis names by dimension
};

/// "fc1.weight=_,model" or "x=data+model,_".
std::optional<Pin> parsePin(llvm::StringRef text);
/// Parses all pins. An error says which one is wrong.
llvm::Expected<std::vector<Pin>> parsePins(llvm::ArrayRef<std::string> texts);

struct StrategyOptions {
  std::vector<Pin> pins;
  int zero = 0; // ZeRO's stage: 1 and 2 shard optimizer state and update over "data", 3 also the parameters
  bool pinsAlone = false; // and what follows from them: no axis shards anything by its name
};

/// A plan; or, if a size does not divide, the padding that is needed before a plan is possible.
struct StrategyPlan {
  std::optional<Plan> plan;
  std::optional<PadRequest> pad;
};

/// Plans without a cost model. The axes "data", "data2", ... shard the batch. The axis "model" shards factors of
/// weights so that the fewest collectives remain (columns, then rows: arXiv 1909.08053). An axis "inner" right behind
/// it shards them further; both then keep whole groups (WholeGroups): a weight whose groups do not divide over both is
/// sharded over "model" alone. Other axes are for pins only. An error says what is wrong with a pin.
llvm::Expected<StrategyPlan> planByStrategy(const Problem &problem, const dist::Mesh &mesh,
                                            const StrategyOptions &options);
/// The same plans by ZeRO's stage, for all of which the rest is propagated once; null if there are none. The problem and the mesh
/// are kept by reference.
std::function<Plan(int)> plansByLevel(const Problem &problem, const dist::Mesh &mesh, const std::vector<Pin> &pins);
/// The meshes of as many devices with "model" split into "model" and "inner", such that groups of columns of weights
/// (heads) which do not divide over all of "model" divide over the first part. None if all divide, or the mesh has no
/// axis "model".
std::vector<dist::Mesh> meshesForGroups(const Problem &problem, const dist::Mesh &mesh);

/// Its plan, if the pins are possible and all sizes divide.
std::optional<Plan> planIfAny(const Problem &problem, const dist::Mesh &mesh, const StrategyOptions &options);

} // namespace divisi::planning
