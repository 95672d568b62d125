#pragma once
#include <cstdint>
#include <vector>

namespace divisi::test::ptx {

/// For each instruction of a kernel, by the instructions that can follow it: the first one that all ways from it to the
/// end pass; the number of instructions if there is none.
std::vector<uint32_t> immediatePostDominators(const std::vector<std::vector<uint32_t>> &successors);

} // namespace divisi::test::ptx
