//===- ShareDealer.h - shares of batches for workers ------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_SHAREDEALER_H
#define DIVISI_RUNTIME_MAIN_SHAREDEALER_H

#include <cstdint>
#include <optional>
#include <set>

namespace divisi::runtime {

/// One worker's part of a batch.
struct Share {
  int64_t batch = 0, index = 0;
  auto operator<=>(const Share &) const = default;
};

/// Deals the shares of a run of batches to workers, in order: a free worker takes the next one, so that a slow worker takes
/// fewer. With a bound (stale synchronous parallelism, Ho et al., NIPS 2013) no share of a batch begins while one of a batch
/// that is more than `bound` batches older is not finished.
class ShareDealer {
public:
  /// Batches `begin` up to, not including, `end`, of `shares` shares each.
  ShareDealer(int64_t begin, int64_t end, int64_t shares, std::optional<int64_t> bound)
      : next{begin, 0}, end(end), shares(shares), bound(bound) {}

  /// The next share; null: none may begin now, or none is left.
  std::optional<Share> deal() {
    if (!again.empty())
      return again.extract(again.begin()).value();
    if (next.batch >= end || (bound && !open.empty() && next.batch - open.begin()->batch > *bound))
      return std::nullopt;
    Share share = next;
    open.insert(share);
    if (++next.index == shares)
      next = {next.batch + 1, 0};
    return share;
  }
  /// A share that was dealt is finished.
  void finish(const Share &share) { open.erase(share); }
  /// The worker of a share that was dealt was lost: it is dealt again, before others.
  void takeBack(const Share &share) { again.insert(share); }
  /// No further batch begins: one of which a share was dealt is dealt to its end.
  void stop() { end = next.index == 0 ? next.batch : next.batch + 1; }
  /// Whether all shares are finished.
  bool isDone() const { return next.batch >= end && open.empty(); }
  /// The batch after the last one.
  int64_t endBatch() const { return end; }

private:
  Share next;
  int64_t end;
  const int64_t shares;
  const std::optional<int64_t> bound;
  std::set<Share> open;  ///< dealt, and not finished
  std::set<Share> again; ///< of them, those that are dealt again
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_SHAREDEALER_H
