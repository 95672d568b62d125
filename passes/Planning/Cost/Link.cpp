#include "passes/Planning/Cost/Collectives.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/MathExtras.h"

#include <cassert>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using Group = std::vector<int64_t>; // devices in ascending order

namespace {

std::vector<Group> groupsOf(const Mesh &mesh, AxesRef axes) {
  std::vector<Group> groups;
  llvm::DenseMap<int64_t, size_t> byFirst; // the member at position 0 of all axes
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    int64_t first = device, stride = 1;
    for (size_t axis = mesh.axes.size(); axis-- > 0; stride *= mesh.axes[axis].size)
      if (llvm::is_contained(axes, (int)axis))
        first -= device / stride % mesh.axes[axis].size * stride;
    auto [entry, added] = byFirst.try_emplace(first, groups.size());
    if (added)
      groups.emplace_back();
    groups[entry->second].push_back(device);
  }
  return groups;
}

class LinkBuilder {
public:
  LinkBuilder(const Cluster &cluster, int64_t devices) : cluster(cluster), childSize(cluster.childSizes()) {
    link.levels.resize(cluster.levels.size());
    for (int64_t size : childSize)
      traffic.emplace_back((devices - 1) / size + 1);
  }

  void add(const Group &group) {
    double n = (double)group.size(), tree = 0;
    std::vector<double> messages(group.size()); // by member
    for (size_t level = 0; level < childSize.size(); ++level) {
      double latency = cluster.levels[level].latency;
      int64_t childrenOfUnit = 0, most = 0, lastUnit = -1;
      for (size_t begin = 0, end; begin < group.size(); begin = end) {
        end = endOfRun(group, begin, childSize[level]);
        int64_t unit = group[begin] / (childSize[level] * cluster.levels[level].size);
        childrenOfUnit = unit == lastUnit ? childrenOfUnit + 1 : 1;
        lastUnit = unit;
        most = std::max(most, childrenOfUnit);
        int64_t inside = (int64_t)(end - begin);
        for (size_t member = begin; member < end; ++member) {
          // The members outside of the child are reached over this level or an outer one, whose latency then replaces
          // this one's.
          double inner = level == 0 ? 0 : cluster.levels[level - 1].latency;
          messages[member] += (n - (double)inside) * (latency - inner);
        }
        if (inside == (int64_t)group.size())
          continue;
        Traffic &out = traffic[level][group[begin] / childSize[level]];
        ++out.groups;
        out.exchanged += (double)inside * (n - (double)inside) / n;
        link.levels[level].members = std::max(link.levels[level].members, inside);
      }
      tree += 2 * latency * (double)(level == 0 ? most - 1 : llvm::Log2_64_Ceil(most));
    }
    link.members = (int64_t)group.size();
    link.messages = std::max(link.messages, *llvm::max_element(messages));
    slowestTree = std::max(slowestTree, tree);
    addRing(group);
    if (cluster.device.kind == "cpu")
      addHosts(group);
  }

  Link take() {
    for (auto [level, share, units] : llvm::zip(cluster.levels, link.levels, traffic))
      for (const Traffic &out : units) {
        share.groups = std::max(share.groups, out.groups);
        link.exchange = std::max(link.exchange, out.exchanged / level.bandwidth);
        if (out.groups == 0)
          continue;
        link.bandwidth = std::min(link.bandwidth, level.bandwidth / (double)out.groups);
        link.uncached = std::max(link.uncached, level.uncached);
      }
    if (cluster.device.kind == "cuda")
      link.tree = slowestTree;
    else
      link.byHosts = priceByHosts();
    return std::move(link);
  }

private:
  /// Communication that leaves a unit.
  struct Traffic {
    int64_t groups = 0;
    double exchanged = 0; // bytes for each byte of a member's operand
  };

  static size_t endOfRun(const Group &group, size_t begin, int64_t size) {
    size_t end = begin + 1;
    while (end < group.size() && group[end] / size == group[begin] / size)
      ++end;
    return end;
  }

  /// The latency of a message between two devices.
  double latencyBetween(int64_t from, int64_t to) const {
    double latency = 0;
    for (auto [level, size] : llvm::zip(cluster.levels, childSize))
      if (from / size != to / size)
        latency = level.latency;
    return latency;
  }

  void addRing(const Group &group) {
    double all = 0, least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < group.size(); ++i) {
      double hop = latencyBetween(group[i], group[(i + 1) % group.size()]);
      all += hop;
      least = std::min(least, hop);
      link.latency = std::max(link.latency, hop);
    }
    link.pass = std::max(link.pass, all - least);
  }

  void addHosts(const Group &group) {
    const int64_t machine = cluster.levels.empty() ? 1 : cluster.levels[0].size;
    int64_t count = 0, most = 0, fewest = std::numeric_limits<int64_t>::max();
    for (size_t begin = 0, end; begin < group.size(); begin = end, ++count) {
      end = endOfRun(group, begin, machine);
      most = std::max<int64_t>(most, end - begin);
      fewest = std::min<int64_t>(fewest, end - begin);
      if (count > 0)
        across = std::max(across, latencyBetween(group[begin - 1], group[begin]));
    }
    hosts.hosts = std::max(hosts.hosts, count);
    hosts.most = std::max(hosts.most, most);
    hosts.fewest = std::min(hosts.members > 1 ? hosts.fewest : fewest, fewest);
    hosts.members = (int64_t)group.size();
  }

  AllReduceGroup priceByHosts() const {
    AllReduceGroup result = hosts;
    result.links = hostLinksOf(cluster);
    result.links.across = {across, std::numeric_limits<double>::infinity()};
    for (auto [level, share] : llvm::drop_begin(llvm::zip(cluster.levels, link.levels), cluster.levels.empty() ? 0 : 1))
      if (share.groups > 0)
        result.links.across.bandwidth = std::min(result.links.across.bandwidth, level.bandwidth / (double)share.groups);
    result.ringPass = link.pass;
    result.ringBandwidth = link.bandwidth;
    return result;
  }

  const Cluster &cluster;
  std::vector<int64_t> childSize;
  std::vector<std::vector<Traffic>> traffic; // by level and unit
  double slowestTree = 0, across = 0;
  AllReduceGroup hosts;
  Link link;
};

} // namespace

HostLinks planning::hostLinksOf(const Cluster &cluster) {
  HostLinks links;
  if (cluster.levels.empty())
    return links;
  links.inside = {cluster.levels[0].latency, cluster.levels[0].bandwidth};
  if (cluster.levels.size() == 1)
    return links;
  links.across = {cluster.levels.back().latency, cluster.levels.back().bandwidth};
  for (const Cluster::Level &level : llvm::drop_begin(cluster.levels))
    links.across.bandwidth = std::min(links.across.bandwidth, level.bandwidth);
  return links;
}

Link planning::linkOf(const Cluster &cluster, const Mesh &mesh, const Axes &axes) {
  assert(mesh.devices() <= cluster.devices() && "the mesh does not fit");
  LinkBuilder builder(cluster, mesh.devices());
  for (const Group &group : groupsOf(mesh, axes))
    builder.add(group);
  return builder.take();
}
