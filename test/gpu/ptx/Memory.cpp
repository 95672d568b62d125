#include "test/gpu/ptx/Memory.h"

#include <algorithm>
#include <utility>

using namespace divisi::test::ptx;

Memory::Memory(std::vector<Range> given, uint64_t padding) : ranges(std::move(given)), padding(padding) {
  std::ranges::sort(ranges, {}, &Range::begin);
}

void Memory::add(Range range) {
  ranges.insert(std::ranges::upper_bound(ranges, range.begin, {}, &Range::begin), range);
}

bool Memory::holds(uint64_t begin, uint64_t end, uint64_t multiple) const {
  auto it = std::ranges::upper_bound(ranges, begin, {}, &Range::begin);
  return it != ranges.begin() && end <= ((--it)->end + multiple - 1) / multiple * multiple && begin <= end;
}

std::string Memory::describe(uint64_t address) const {
  auto it = std::ranges::upper_bound(ranges, address, {}, &Range::begin);
  auto bytes = [](uint64_t count) { return std::to_string(count) + (count == 1 ? " byte " : " bytes "); };
  auto size = [&](const Range &range) {
    return "an allocation of " + std::to_string(range.end - range.begin) + " bytes";
  };
  if (it != ranges.begin()) {
    const Range &before = *std::prev(it);
    if (address < before.end)
      return bytes(address - before.begin) + "after the begin of " + size(before);
    if (it == ranges.end() || address - before.end <= it->begin - address)
      return bytes(address - before.end) + "after the end of " + size(before);
  }
  return it == ranges.end() ? "no memory is allocated" : bytes(it->begin - address) + "before " + size(*it);
}
