#include "step/UpdateOrder.h"

#include "step/Buckets.h"
#include "step/Liveness.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace divisi;
using namespace divisi::step;

/// The number of groups of updates on a GPU, if their gradients have enough bytes: each is a launch, and its gradients
/// live until then.
static constexpr int64_t mostGroups = 32;

namespace {
class UpdateOrder {
public:
  UpdateOrder(llvm::ArrayRef<OrderedItem> items, llvm::ArrayRef<int64_t> bytes)
      : items(items), bytes(bytes), count(items.size()), first(count), earlier(count), later(count), frees(count),
        place(count) {}

  std::vector<int> run(bool forGpu) {
    findDependences();
    findUpdates();
    std::vector<int> behind(count);
    std::iota(behind.begin(), behind.end(), 0);
    if (first == count)
      return behind;
    placeEarly();
    placeLate();
    gather(behind, forGpu);
    return behind;
  }

private:
  void depend(int item, int on) {
    earlier[item].push_back(on);
    later[on].push_back(item);
  }

  void findDependences() {
    std::vector<int> writer(bytes.size(), -1);
    std::vector<llvm::SmallVector<int, 4>> readers(bytes.size());
    for (int i = 0; i < count; ++i) {
      for (int buffer : items[i].reads)
        if (writer[buffer] >= 0)
          depend(i, writer[buffer]);
      for (int buffer : items[i].renews)
        for (int reader : readers[buffer])
          depend(i, reader);
      for (int buffer : items[i].reads)
        if (readers[buffer].empty() || readers[buffer].back() != i)
          readers[buffer].push_back(i);
      for (int buffer : items[i].writes)
        writer[buffer] = i;
    }
    for (size_t buffer = 0; buffer < bytes.size(); ++buffer) {
      if (bytes[buffer] == 0 || writer[buffer] < 0 || readers[buffer].empty())
        continue;
      const int last = readers[buffer].pop_back_val(); // stays the last one
      frees[last] += bytes[buffer];
      for (int reader : readers[buffer])
        depend(last, reader);
    }
  }

  /// From the first update on, and before it kernels that only updates and reports read: norms for the log.
  void findUpdates() {
    auto it = llvm::find_if(items, [](const OrderedItem &item) { return item.trains; });
    if (it == items.end())
      return;
    first = it - items.begin();
    auto joins = [&](int i) {
      return !items[i].call && llvm::all_of(later[i], [&](int user) { return user >= first; });
    };
    while (first > 0 && joins(first - 1))
      --first;
  }

  /// Places items as early as they may run.
  void placeEarly() {
    std::iota(place.begin(), place.begin() + first, 0);
    for (int i = first; i < count; ++i) {
      place[i] = -1;
      for (int before : earlier[i])
        place[i] = std::max(place[i], place[before]);
    }
  }

  /// What frees nothing runs when it is needed, or at the end.
  void placeLate() {
    for (int i = count; i-- > first;)
      if (frees[i] == 0) {
        int needed = count;
        for (int user : later[i])
          needed = std::min(needed, place[user]);
        place[i] = std::max(place[i], needed);
      }
  }

  void gather(std::vector<int> &behind, bool forGpu) const {
    std::vector<llvm::SmallVector<int>> arrivals(first + 1); // by place, from -1 on
    int64_t all = 0, size = 0;
    for (int i = first; i < count; ++i)
      if (place[i] < first) {
        arrivals[place[i] + 1].push_back(i);
        all += frees[i];
      }
    const int64_t limit = forGpu ? std::max(bucketBytes, all / mostGroups) : 0;
    llvm::SmallVector<int> group;
    for (int at = -1; at < first; ++at) {
      for (int i : arrivals[at + 1]) {
        group.push_back(i);
        size += frees[i];
      }
      if (size < limit)
        continue;
      for (int i : group)
        behind[i] = at;
      group.clear();
      size = 0;
    }
  }

  llvm::ArrayRef<OrderedItem> items;
  llvm::ArrayRef<int64_t> bytes;
  const int count;
  int first;                                             // of the updates
  std::vector<llvm::SmallVector<int, 4>> earlier, later; // by item: what it depends on, what depends on it
  std::vector<int64_t> frees;                            // by item: bytes that nothing reads after it
  std::vector<int> place;                                // by item: the one behind which it may run; `count`: the end
};
} // namespace

/// The most bytes that live at once in this order.
static double peakOf(llvm::ArrayRef<OrderedItem> items, llvm::ArrayRef<int64_t> bytes, llvm::ArrayRef<int> order) {
  std::vector<int> born(bytes.size(), -1), dies(bytes.size(), -1); // by buffer
  for (auto [at, item] : llvm::enumerate(order)) {
    for (int buffer : items[item].reads)
      dies[buffer] = at;
    for (int buffer : items[item].writes) {
      born[buffer] = born[buffer] < 0 ? at : born[buffer];
      dies[buffer] = at;
    }
  }
  Liveness live(order.size());
  for (size_t buffer = 0; buffer < bytes.size(); ++buffer)
    if (born[buffer] >= 0)
      live.add(born[buffer], dies[buffer], bytes[buffer]);
  return live.peak().bytes;
}

std::vector<int> step::orderUpdates(llvm::ArrayRef<OrderedItem> items, llvm::ArrayRef<int64_t> bytes, bool forGpu) {
  std::vector<int> stays(items.size());
  std::iota(stays.begin(), stays.end(), 0);
  std::vector<int> behind = UpdateOrder(items, bytes).run(forGpu);
  // What an update computes on its way may be more than the gradient that it frees.
  return peakOf(items, bytes, sortBehind(behind)) <= peakOf(items, bytes, stays) ? behind : stays;
}

std::vector<int> step::sortBehind(llvm::ArrayRef<int> behind) {
  std::vector<int> order(behind.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](int a, int b) { return behind[a] < behind[b]; });
  return order;
}
