#pragma once
#include "passes/Planning/Pipeline/LayerProfile.h"

namespace divisi::planning {

/// Whether a text looks like the graph.txt of PipeDream's profiler: its first line that is not blank has the separator
/// " -- " and does not begin as JSON does.
bool isPipeDreamGraph(llvm::StringRef text);

/// A profile from PipeDream's graph.txt (github.com/msr-fiddle/pipedream). A line is a node,
///   ID -- DESCRIPTION -- forward_compute_time=MS, backward_compute_time=MS, activation_size=BYTES,
///   parameter_size=BYTES
/// (one line; several outputs as activation_size=[BYTES; BYTES]; " -- stage_id=N" behind it is ignored) or, with a tab
/// before it, an edge, FROM -- TO. Layers have the names of the IDs. Two kinds of nodes are left out, as PipeDream's
/// own optimizer leaves them out: those without inputs that are described as Input..., and those described as
/// __getitem__... that nothing uses. The text may contain anything; an error is one line, `FILE:LINE: what is
/// expected`.
llvm::Expected<LayerProfile> parsePipeDreamGraph(llvm::StringRef text, llvm::StringRef file);

} // namespace divisi::planning
