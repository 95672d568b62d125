#include "passes/Planning/Pipeline/StageMesh.h"
#include "dialects/Dist/Sync.h"

#include <algorithm>
#include <map>
#include <vector>

using namespace divisi;
using namespace divisi::planning;

/// The multiplicity of each prime in a number.
static std::map<int64_t, int> primesOf(int64_t number) {
  std::map<int64_t, int> primes;
  for (int64_t p = 2; number > 1; ++p)
    for (p = p * p > number ? number : p; number % p == 0; number /= p)
      ++primes[p];
  return primes;
}

StageMesh planning::meshOfStages(llvm::ArrayRef<int64_t> replicas) {
  std::vector<std::map<int64_t, int>> primes;
  std::map<int64_t, int> most;
  for (int64_t count : replicas)
    for (auto [p, times] : primes.emplace_back(primesOf(count)))
      most[p] = std::max(most[p], times);
  // By the stages that have them, those that more stages have first: the sizes of the axes.
  std::map<std::vector<bool>, int64_t> sizes;
  for (auto [p, times] : most)
    for (int number = 1; number <= times; ++number) {
      std::vector<bool> having;
      for (auto &of : primes)
        having.push_back(of.count(p) && of[p] >= number);
      sizes.try_emplace(having, 1).first->second *= p;
    }
  std::vector<std::pair<std::vector<bool>, int64_t>> axes(sizes.begin(), sizes.end());
  auto users = [](const auto &axis) { return std::count(axis.first.begin(), axis.first.end(), true); };
  std::sort(axes.begin(), axes.end(), [&](const auto &a, const auto &b) {
    return users(a) != users(b) ? users(a) > users(b) : a.first > b.first;
  });

  StageMesh result;
  if (replicas.size() > 1)
    result.mesh.axes.push_back({dist::stageAxis.str(), (int64_t)replicas.size()});
  std::vector<std::string> lists(replicas.size());
  bool lacking = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    std::string name = dist::replicaAxis.str() + (i ? std::to_string(i + 1) : "");
    result.mesh.axes.push_back({name, axes[i].second});
    for (size_t stage = 0; stage < replicas.size(); ++stage)
      if (axes[i].first[stage])
        lists[stage] += (lists[stage].empty() ? "" : "+") + name;
      else
        lacking = true;
  }
  for (size_t stage = 0; lacking && stage < lists.size(); ++stage)
    result.axes += (stage ? "," : "") + (lists[stage].empty() ? "none" : lists[stage]);
  return result;
}
