#pragma once
#include <vector>

namespace divisi::planning {

/// A node of the forward pass, for rematerialization.
struct RematNode {
  double seconds = 0;  // of its forward operations
  double kept = 0;     // bytes of its values that the backward pass reads
  double crossing = 0; // bytes of earlier nodes' values that it or later ones read: the live bytes at a cut before it
};

/// Consecutive nodes whose values are recomputed in the backward pass from the values that are live at the cut before
/// them.
struct RematSegment {
  int begin, end;        // nodes
  double saved, seconds; // bytes that are not kept, and the time to recompute them
};

/// Cuts a chain of nodes with the fewest live bytes at the cuts plus the most that one segment keeps. The budgets are
/// those of arXiv 1604.06174 (section 4), each with the best cuts by dynamic programming; of those within 10 % of the
/// least, the one with the smallest segments is taken. Returns the first nodes of the segments.
std::vector<int> cutForRemat(const std::vector<RematNode> &nodes);

/// The segments that save memory, most bytes saved per second first. With `thenBackward` the backward pass follows the
/// last segment immediately, which is then not among them.
std::vector<RematSegment> segmentsForRemat(const std::vector<RematNode> &nodes, bool thenBackward = true);

/// Whether `a` saves more bytes per second than `b`.
bool isWorthMore(const RematSegment &a, const RematSegment &b);

} // namespace divisi::planning
