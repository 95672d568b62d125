#pragma once
#include "test/gpu/ptx/Cell.h"
#include "test/gpu/ptx/Program.h"

#include <string>
#include <vector>

namespace divisi::test::ptx {

/// A block's shared memory, which notices accesses that no barrier orders.
class Shared {
public:
  Shared(const Program &program, const Clock &clock);

  /// Notes an access of a thread, of `bytes` at an address; what is wrong with it, or nothing.
  std::optional<std::string> access(bool writes, uint64_t address, unsigned bytes, unsigned thread, Epoch now,
                                    int line);
  char *at(uint64_t address) { return contents.data() + (address - windowBegin); }

private:
  struct Place : Cell {
    bool exists = false; ///< within a variable
  };
  Place *find(uint64_t address, unsigned bytes);
  std::string nameOf(uint64_t address) const;

  const Program &program;
  const Clock &clock;
  unsigned granule;
  std::vector<char> contents;
  std::vector<Place> places;
};

} // namespace divisi::test::ptx
