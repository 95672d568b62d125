#pragma once
#include <cstdint>
#include <vector>

namespace divisi::compiler {

/// How a rank of a job has ended.
enum class RankEnd {
  finished,
  stopped,     // because it was told to
  failed,      // with an error that all ranks have, or because another rank was lost
  lost,        // by a signal that nobody sent to stop it
  failedAlone, // with an error that only this one has: no memory, a full disk
  gaveUp,      // because another rank was silent
  killed,      // by the launcher: the others had failed, and it had not ended
};

/// The number of ranks that were lost, or if others gave up, of those that had not ended. 0: the job has ended as a whole.
/// `countFailures`: those that have failed alone count, too, because the job goes on without them.
int64_t lostRanks(const std::vector<RankEnd> &ends, bool countFailures);

/// With how many ranks a job goes on that has a program for each of several numbers of them.
class ElasticJob {
public:
  /// `sizes`: the numbers of ranks of the programs, `least` and `most` bounds for what may be used of them.
  ElasticJob(std::vector<int64_t> sizes, int64_t least, int64_t most);

  /// The number of ranks to start: the largest for which there are enough; 0 if there is none.
  int64_t size() const;
  /// The ranks that can be started now, and when none is lost.
  int64_t alive() const { return left; }
  int64_t all() const { return whole; }
  /// Whether it would have more ranks if none was lost.
  bool mayGrow() const;

  void lose(int64_t ranks);
  /// All can be started again.
  void grow() { left = whole; }

private:
  int64_t sizeOf(int64_t ranks) const;

  std::vector<int64_t> sizes; // within the bounds
  int64_t whole, left;
};

} // namespace divisi::compiler
