#pragma once
#include <cstdint>
#include <vector>

namespace divisi::pipelining {

/// Cuts a chain of layers into stages so that the slowest is fastest: a stage takes the sum of its layers, and no less
/// than the messages over the cut before it (PipeDream's objective without replicas, arXiv 1806.03377); of equal ones
/// the cuts with the fewest message seconds. `seconds` of the layers; `cutSeconds[i]` of the messages between layer i -
/// 1 and i. Returns the first layer of every stage but the first: stages - 1 ascending numbers. Needs 1 <= stages <=
/// layers. A stage of several `devices` takes that part of the sum.
std::vector<int> cutIntoStages(const std::vector<double> &seconds, const std::vector<double> &cutSeconds, int stages,
                               const std::vector<double> &devices = {});

} // namespace divisi::pipelining
