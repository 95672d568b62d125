#include "dialects/Exec/ArenaLayout.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace divisi::exec;

ArenaLayout ArenaLayout::plan(const std::vector<BufferLife> &buffers, int64_t alignment) {
  ArenaLayout layout;
  layout.offsets.assign(buffers.size(), 0);
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<size_t> placed; // by offset
  for (size_t i : order) {
    const BufferLife &buffer = buffers[i];
    int64_t size = (int64_t)llvm::alignTo(buffer.bytes, alignment), offset = 0;
    int64_t own = std::max(buffer.alignment, alignment);
    for (size_t j : placed) {
      const BufferLife &other = buffers[j];
      if (other.last < buffer.first || buffer.last < other.first)
        continue;
      if (offset + size <= layout.offsets[j])
        break; // fits before this one
      int64_t end = layout.offsets[j] + (int64_t)llvm::alignTo(other.bytes, alignment);
      offset = std::max(offset, (int64_t)llvm::alignTo(end, own));
    }
    layout.offsets[i] = offset;
    layout.bytes = std::max(layout.bytes, offset + size);
    auto after = std::upper_bound(placed.begin(), placed.end(), i,
                                  [&](size_t a, size_t b) { return layout.offsets[a] < layout.offsets[b]; });
    placed.insert(after, i);
  }
  return layout;
}

int64_t divisi::exec::peakBytes(const std::vector<BufferLife> &buffers, int64_t alignment) {
  std::map<int64_t, int64_t> change;
  for (const BufferLife &buffer : buffers) {
    change[buffer.first] += (int64_t)llvm::alignTo(buffer.bytes, alignment);
    change[buffer.last + 1] -= (int64_t)llvm::alignTo(buffer.bytes, alignment);
  }
  int64_t now = 0, peak = 0;
  for (auto [step, bytes] : change)
    peak = std::max(peak, now += bytes);
  return peak;
}
