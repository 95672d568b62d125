#pragma once
#include "passes/Planning/PadClass.h"
#include "passes/Planning/Propagation.h"

#include "llvm/Support/Error.h"

namespace divisi::planning {

/// A sharding that a user asks for, by the name of an input or a state.
struct Pin {
  std::string name;
  std::vector<std::vector<std::string>> dims; // axis names by dimension
};

/// "fc1.weight=_,model" or "x=data+model,_".
std::optional<Pin> parsePin(llvm::StringRef text);
/// All of them, or which one is wrong.
llvm::Expected<std::vector<Pin>> parsePins(llvm::ArrayRef<std::string> texts);

struct StrategyOptions {
  std::vector<Pin> pins;
  int zero = 0; // ZeRO's stage: 1 and 2 split moments and update over "data", 3 the parameters, too
};

/// A plan; or, where a size does not divide, no plan but what to pad before one asks again.
struct StrategyPlan {
  std::optional<Plan> plan;
  std::optional<PadRequest> pad;
};

/// Plans without a cost model. What the axis "data" splits is the batch, what "model" splits are the weights' factors,
/// so that the fewest collectives remain (columns, then rows: arXiv 1909.08053); other axes are for pins alone. An error
/// says what is wrong with a pin.
llvm::Expected<StrategyPlan> planByStrategy(const Problem &problem, const dist::Mesh &mesh,
                                            const StrategyOptions &options);
/// Its plan, if the pins hold and all sizes divide.
std::optional<Plan> planIfAny(const Problem &problem, const dist::Mesh &mesh, const StrategyOptions &options);

} // namespace divisi::planning
