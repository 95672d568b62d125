#pragma once
#include "passes/Planning/PadClass.h"
#include "passes/Planning/Propagation.h"

namespace divisi::planning {

/// A sharding that a user asks for, by the name of an input or a state.
struct Pin {
  std::string name;
  std::vector<std::vector<std::string>> dims; // axis names by dimension
};

/// "fc1.weight=_,model" or "x=data+model,_".
std::optional<Pin> parsePin(llvm::StringRef text);
/// All of them; nothing, and in `error` which one is wrong.
std::optional<std::vector<Pin>> parsePins(llvm::ArrayRef<std::string> texts, std::string &error);

struct StrategyOptions {
  std::vector<Pin> pins;
  int zero = 0; // ZeRO's stage: 1 and 2 split moments and update over "data", 3 the parameters, too
};

/// Plans without a cost model. What the axis "data" splits is the batch, what "model" splits are the weights' factors,
/// so that the fewest collectives remain (columns, then rows: arXiv 1909.08053); other axes are for pins alone. Returns
/// what is wrong with a pin in `error`. Where a size does not divide, there is no plan but a request in `pad`: pad, and
/// ask again.
std::optional<Plan> planByStrategy(const Problem &problem, const dist::Mesh &mesh, const StrategyOptions &options,
                                   std::string &error, std::optional<PadRequest> &pad);

} // namespace divisi::planning
