#pragma once
#include <cstdint>
#include <vector>

namespace divisi::pipelining {

/// Cuts a chain of layers into stages so that the slowest stage is as fast as possible. A stage takes the sum of its
/// layers, but at least the messages over the cut before it (PipeDream's objective without replicas, arXiv 1806.03377).
/// Among equal solutions, the one with the fewest message seconds is chosen.
/// `seconds` are those of the layers, `cutSeconds[i]` those of the messages between layers i - 1 and i. A stage with n
/// of the `devices` takes 1 / n of its sum. Returns the first layer of every stage but the first: stages - 1 ascending
/// numbers. Requires 1 <= stages <= layers.
std::vector<int> cutIntoStages(const std::vector<double> &seconds, const std::vector<double> &cutSeconds, int stages,
                               const std::vector<double> &devices = {});

} // namespace divisi::pipelining
