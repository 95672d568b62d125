#include "passes/Planning/Remat/Segments.h"

#include <algorithm>
#include <deque>
#include <limits>

using namespace divisi::planning;

namespace {

/// The number of budgets that are tried, up to what all nodes keep.
constexpr int budgets = 64;

/// Of the budgets whose memory is within this factor of the least, the smallest is taken: it makes more segments, among
/// which the best can be selected.
constexpr double enough = 1.1;

class Chain {
public:
  explicit Chain(const std::vector<RematNode> &nodes)
      : nodes(nodes), kept(nodes.size() + 1), seconds(nodes.size() + 1) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      kept[i + 1] = kept[i] + nodes[i].kept;
      seconds[i + 1] = seconds[i] + nodes[i].seconds;
    }
  }

  double keptBy(int begin, int end) const { return kept[end] - kept[begin]; }

  /// The first nodes of segments, cut with the fewest live bytes in all such that each segment but the last keeps at
  /// most `budget`.
  std::vector<int> cut(double budget) const {
    int count = nodes.size();
    std::vector<double> least(count, 0); // live bytes at cuts of the chain's first nodes, and behind them
    std::vector<int> from(count, 0);
    std::deque<int> window = {0}; // possible beginnings of the segment before a cut; ascending in `least`
    for (int end = 1; end < count; ++end) {
      while (window.size() > 1 && keptBy(window.front(), end) > budget)
        window.pop_front();
      from[end] = window.front();
      least[end] = least[window.front()] + nodes[end].crossing;
      while (!window.empty() && least[window.back()] >= least[end])
        window.pop_back();
      window.push_back(end);
    }
    auto inAll = [&](int last) { return least[last] + std::max(budget, keptBy(last, count)); };
    int last = 0;
    for (int begin = 1; begin < count; ++begin)
      if (inAll(begin) < inAll(last))
        last = begin;
    std::vector<int> begins;
    for (; last > 0; last = from[last])
      begins.push_back(last);
    if (count > 0)
      begins.push_back(0);
    std::reverse(begins.begin(), begins.end());
    return begins;
  }

  /// Bytes with these segments: those live at the cuts, and the most that one segment keeps while it is recomputed.
  double memory(const std::vector<int> &begins) const {
    double crossing = 0, most = 0;
    for (size_t i = 0; i < begins.size(); ++i) {
      crossing += nodes[begins[i]].crossing;
      most = std::max(most, keptBy(begins[i], endOf(begins, i)));
    }
    return crossing + most;
  }

  RematSegment segment(const std::vector<int> &begins, size_t i) const {
    int begin = begins[i], end = endOf(begins, i);
    return {begin, end, keptBy(begin, end) - nodes[begin].crossing, seconds[end] - seconds[begin]};
  }

private:
  int endOf(const std::vector<int> &begins, size_t i) const {
    return i + 1 < begins.size() ? begins[i + 1] : (int)nodes.size();
  }

  const std::vector<RematNode> &nodes;
  std::vector<double> kept, seconds; // prefix sums over the nodes
};
} // namespace

std::vector<int> divisi::planning::cutForRemat(const std::vector<RematNode> &nodes) {
  Chain chain(nodes);
  double all = chain.keptBy(0, nodes.size());
  std::vector<std::vector<int>> tried;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 1; i <= budgets; ++i) {
    tried.push_back(chain.cut(all * i / budgets));
    least = std::min(least, chain.memory(tried.back()));
  }
  for (const std::vector<int> &begins : tried)
    if (chain.memory(begins) <= least * enough)
      return begins;
  return {};
}

std::vector<RematSegment> divisi::planning::segmentsForRemat(const std::vector<RematNode> &nodes, bool thenBackward) {
  Chain chain(nodes);
  std::vector<int> begins = cutForRemat(nodes);
  std::vector<RematSegment> result;
  for (size_t i = 0; i + thenBackward < begins.size(); ++i)
    if (RematSegment segment = chain.segment(begins, i); segment.saved > 0)
      result.push_back(segment);
  std::stable_sort(result.begin(), result.end(), isWorthMore);
  return result;
}

bool divisi::planning::isWorthMore(const RematSegment &a, const RematSegment &b) {
  return a.saved * b.seconds > b.saved * a.seconds;
}
