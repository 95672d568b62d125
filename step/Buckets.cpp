#include "step/Buckets.h"

#include <queue>

using namespace divisi;
using namespace divisi::step;

static bool fit(const Collective &a, const Collective &b) {
  return a.type == b.type && a.when == b.when && a.kind == b.kind && a.element == b.element && a.axes == b.axes &&
         a.layer == b.layer;
}

int64_t Buckets::limitOf(const Collective &collective) const {
  return collective.type == Collective::Type::allReduce
             ? limit
             : std::min(limit, bytesOfHop * std::max<int64_t>(0, collective.members - 1));
}

int Buckets::add(llvm::ArrayRef<int> operands, const Collective *collective) {
  llvm::SmallBitVector on;
  for (int operand : operands)
    if (operand >= 0)
      on |= behind[operand];
  int bucket = -1;
  if (collective && collective->bytes < limitOf(*collective)) { // else it runs in place, without being packed
    bucket = bucketFor(*collective, on);
    buckets[bucket].members.push_back(bucketNumbers.size());
    buckets[bucket].behind |= on;
    on.resize(std::max<size_t>(on.size(), buckets.size()));
    on.set(bucket);
  }
  bucketNumbers.push_back(bucket);
  behind.push_back(std::move(on));
  return bucketNumbers.size() - 1;
}

int Buckets::bucketFor(const Collective &collective, llvm::SmallBitVector &on) {
  // Buckets may have taken members since others came to depend on them.
  llvm::SmallBitVector seen;
  for (bool more = true; more;) {
    more = false;
    seen.resize(on.size());
    for (int number = 0; number < (int)on.size(); ++number)
      if (on.test(number) && !seen.test(number) && buckets[number].members.size() > 1) {
        seen.set(number);
        on |= buckets[number].behind;
        seen.resize(on.size());
        more = true;
      }
  }
  for (size_t i = 0; i < open.size(); ++i) {
    const int number = open[i];
    Collective &all = buckets[number].all;
    if (!fit(all, collective) || (number < (int)on.size() && on.test(number)))
      continue;
    all.bytes += collective.bytes;
    if (all.bytes >= limit)
      open.erase(open.begin() + i);
    return number;
  }
  buckets.push_back({collective, {}, {}});
  open.push_back(buckets.size() - 1);
  return buckets.size() - 1;
}

std::vector<int> step::sortByPosition(llvm::ArrayRef<int64_t> positions,
                                      llvm::ArrayRef<llvm::SmallVector<int, 4>> operands) {
  const int count = positions.size();
  auto later = [&](int a, int b) { return positions[a] > positions[b]; };
  std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
  std::vector<llvm::SmallVector<int, 4>> users(count);
  std::vector<int> missing(count), order;
  for (int item = 0; item < count; ++item) {
    for (int operand : operands[item])
      users[operand].push_back(item); // once for each use
    missing[item] = operands[item].size();
    if (missing[item] == 0)
      ready.push(item);
  }
  std::vector<int> byPosition; // only where there is a circle
  std::vector<bool> placed(count);
  size_t first = 0;
  while ((int)order.size() < count) {
    int item = -1;
    if (!ready.empty()) {
      item = ready.top();
      ready.pop();
    } else {
      if (byPosition.empty()) {
        for (int i = 0; i < count; ++i)
          byPosition.push_back(i);
        llvm::sort(byPosition, [&](int a, int b) { return later(b, a); });
      }
      while (placed[byPosition[first]])
        ++first;
      item = byPosition[first];
    }
    if (placed[item])
      continue;
    placed[item] = true;
    order.push_back(item);
    for (int user : users[item])
      if (--missing[user] == 0)
        ready.push(user);
  }
  return order;
}
