#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace divisi::test::ptx {

/// The memory of a GPU that kernels may use: ranges of this process.
class Memory {
public:
  struct Range {
    uint64_t begin, end;
  };
  /// Reads may go on to the next multiple of `padding`, as loads do that were made wider: what they find there is not
  /// used.
  explicit Memory(std::vector<Range> ranges, uint64_t padding = 1);
  void add(Range range);
  /// Whether [begin, end) lies in one range.
  bool canRead(uint64_t begin, uint64_t end) const { return holds(begin, end, padding); }
  bool canWrite(uint64_t begin, uint64_t end) const { return holds(begin, end, 1); }
  /// Where an address that is wrong lies, for a message.
  std::string describe(uint64_t address) const;

private:
  bool holds(uint64_t begin, uint64_t end, uint64_t multiple) const;
  std::vector<Range> ranges; ///< by address
  uint64_t padding;
};

} // namespace divisi::test::ptx
