#pragma once
#include <vector>

namespace divisi::planning {

/// A node of the forward part as rematerialisation sees it.
struct RematNode {
  double seconds = 0;  // of its forward operations
  double kept = 0;     // bytes of its values that the backward part reads
  double crossing = 0; // bytes that earlier nodes made, and it or later ones read: what a cut before it keeps
};

/// Neighbouring nodes whose values are computed again in the backward part from what crosses the cut before them.
struct RematSegment {
  int begin, end;        // nodes
  double saved, seconds; // bytes that need not be kept, and the time to compute them again
};

/// Cuts a chain of nodes so that what crosses the cuts, with the most that one segment keeps, is least: the budgets of
/// arXiv 1604.06174 (section 4), each with the best cuts by dynamic programming; of those within 10 % of the least the
/// one with the smallest segments. Returns the first nodes of segments.
std::vector<int> cutForRemat(const std::vector<RematNode> &nodes);

/// Of these segments those that save memory, most bytes for the time first. The last is none of them if the backward
/// part begins with it, then.
std::vector<RematSegment> segmentsForRemat(const std::vector<RematNode> &nodes, bool thenBackward = true);

/// Whether one saves more bytes for the time than another.
bool isWorthMore(const RematSegment &a, const RematSegment &b);

} // namespace divisi::planning
