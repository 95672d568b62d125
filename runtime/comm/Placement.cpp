#include "runtime/comm/Placement.h"

#include <map>

using namespace divisi;
using namespace divisi::runtime;

namespace {
size_t next(size_t i, const std::vector<int> &group) { return (i + 1) % group.size(); }
} // namespace

int64_t HostMembers::fewest() const {
  auto fewest =
      std::min_element(ranks.begin(), ranks.end(), [](const auto &a, const auto &b) { return a.size() < b.size(); });
  return static_cast<int64_t>(fewest->size());
}

HostMembers Placement::membersOf(const std::vector<int> &group, int rank) const {
  HostMembers members;
  std::map<int, size_t> numbers;
  for (int member : group) {
    size_t host = numbers.try_emplace(hostOf(member), numbers.size()).first->second;
    members.ranks.resize(numbers.size());
    if (member == rank) {
      members.mine = static_cast<int64_t>(host);
      members.position = static_cast<int64_t>(members.ranks[host].size());
    }
    members.ranks[host].push_back(member);
  }
  return members;
}

AllReduceGroup Placement::groupOf(const Mesh &mesh, int rank, std::span<const int64_t> axes) const {
  struct Load {
    int64_t groups = 0, hops = 0; // groups that leave a host, and hops of their rings that do
  };
  std::map<int, Load> loads; // by host
  const int first = mesh.rankAt(std::vector<int64_t>(mesh.axes().size()));
  for (int one = first; one < first + mesh.size(); ++one) {
    const std::vector<int> group = mesh.group(one, axes);
    if (group.front() != one)
      continue;
    for (const std::vector<int> &host : membersOf(group, one).ranks)
      loads[hostOf(host.front())].groups += host.size() < group.size();
    for (size_t i = 0; i < group.size(); ++i)
      loads[hostOf(group[i])].hops += hostOf(group[i]) != hostOf(group[next(i, group)]);
  }
  int64_t groups = 1, hops = 1;
  for (const auto &[host, load] : loads) {
    groups = std::max(groups, load.groups);
    hops = std::max(hops, load.hops);
  }

  const std::vector<int> group = mesh.group(rank, axes);
  const HostMembers members = membersOf(group, rank);
  AllReduceGroup result;
  result.members = static_cast<int64_t>(group.size());
  result.hosts = static_cast<int64_t>(members.ranks.size());
  result.fewest = members.fewest();
  for (const std::vector<int> &host : members.ranks)
    result.most = std::max(result.most, static_cast<int64_t>(host.size()));
  result.links = links;
  result.links.across.bandwidth /= static_cast<double>(groups);
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < group.size(); ++i) {
    const bool leaves = hostOf(group[i]) != hostOf(group[next(i, group)]);
    const double latency = leaves ? links.across.latency : links.inside.latency;
    result.ringPass += latency;
    least = std::min(least, latency);
  }
  result.ringPass -= least;
  result.ringBandwidth = links.inside.bandwidth;
  if (result.hosts > 1)
    result.ringBandwidth = std::min(result.ringBandwidth, links.across.bandwidth / static_cast<double>(hops));
  return result;
}
