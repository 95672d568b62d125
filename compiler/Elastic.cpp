#include "compiler/Elastic.h"

#include <algorithm>

using namespace divisi::compiler;

int64_t divisi::compiler::lostRanks(const std::vector<RankEnd> &ends, bool countFailures) {
  auto count = [&](RankEnd end) { return std::count(ends.begin(), ends.end(), end); };
  int64_t lost = count(RankEnd::lost) + (countFailures ? count(RankEnd::failedAlone) : 0);
  return lost > 0 || count(RankEnd::gaveUp) == 0 ? lost : count(RankEnd::killed);
}

ElasticJob::ElasticJob(std::vector<int64_t> all, int64_t least, int64_t most) : sizes(std::move(all)) {
  std::erase_if(sizes, [&](int64_t size) { return size < least || size > most; });
  whole = left = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
}

int64_t ElasticJob::sizeOf(int64_t ranks) const {
  int64_t best = 0;
  for (int64_t size : sizes)
    if (size <= ranks)
      best = std::max(best, size);
  return best;
}

int64_t ElasticJob::size() const { return sizeOf(left); }

bool ElasticJob::mayGrow() const { return size() < whole; }

void ElasticJob::lose(int64_t ranks) { left = std::max<int64_t>(0, left - ranks); }
