#include "test/gpu/ptx/Flow.h"

using namespace divisi::test::ptx;

namespace {
/// Instructions in an order in which each comes after those that can follow it, loops aside; the end, which is the
/// number of instructions, first.
std::vector<uint32_t> backwards(const std::vector<std::vector<uint32_t>> &predecessors, uint32_t end) {
  std::vector<uint32_t> postOrder, next(predecessors.size());
  std::vector<bool> seen(predecessors.size());
  std::vector<uint32_t> stack = {end};
  seen[end] = true;
  while (!stack.empty()) {
    uint32_t node = stack.back();
    if (next[node] == predecessors[node].size()) {
      postOrder.push_back(node);
      stack.pop_back();
      continue;
    }
    uint32_t before = predecessors[node][next[node]++];
    if (!seen[before]) {
      seen[before] = true;
      stack.push_back(before);
    }
  }
  return {postOrder.rbegin(), postOrder.rend()};
}
} // namespace

std::vector<uint32_t> divisi::test::ptx::immediatePostDominators(const std::vector<std::vector<uint32_t>> &successors) {
  const auto end = (uint32_t)successors.size();
  constexpr uint32_t unknown = ~0u;
  std::vector<std::vector<uint32_t>> predecessors(end + 1);
  for (uint32_t i = 0; i < end; ++i) {
    for (uint32_t next : successors[i])
      predecessors[next].push_back(i);
    if (successors[i].empty())
      predecessors[end].push_back(i);
  }
  std::vector<uint32_t> order = backwards(predecessors, end), rank(end + 1, unknown), found(end + 1, unknown);
  for (uint32_t i = 0; i < order.size(); ++i)
    rank[order[i]] = i;
  // Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm.
  found[end] = end;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t node : order) {
      if (node == end)
        continue;
      uint32_t meet = successors[node].empty() ? end : unknown;
      for (uint32_t next : successors[node]) {
        if (found[next] == unknown)
          continue;
        uint32_t other = next;
        if (meet == unknown)
          meet = other;
        while (meet != other) {
          while (rank[meet] > rank[other])
            meet = found[meet];
          while (rank[other] > rank[meet])
            other = found[other];
        }
      }
      changed |= found[node] != meet;
      found[node] = meet;
    }
  }
  found.pop_back();
  for (uint32_t &meet : found)
    if (meet == unknown) // of a loop without an end
      meet = end;
  return found;
}
