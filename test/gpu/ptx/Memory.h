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
  explicit Memory(std::vector<Range> ranges);
  /// Whether [begin, end) lies in one range.
  bool holds(uint64_t begin, uint64_t end) const;
  /// Where an address that is wrong lies, for a message.
  std::string describe(uint64_t address) const;

private:
  std::vector<Range> ranges; ///< by address
};

} // namespace divisi::test::ptx
