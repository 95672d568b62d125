#pragma once
#include "test/gpu/ptx/Cell.h"

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace divisi::test::ptx {

/// Accesses of some of a launch's blocks to global memory: it notices those of different threads that no barrier
/// orders, those of different blocks, which nothing orders, and writes to what is read with .nc. It can be reused for
/// later launches.
class Global {
public:
  Clock clock;

  /// Begins a launch whose smallest access has `granule` bytes.
  void begin(unsigned granule);
  std::optional<std::string> access(bool writes, bool isConstant, uint64_t address, unsigned bytes, unsigned thread,
                                    Epoch now, int line);
  /// What is wrong between accesses of a launch that two of these have noted; empty if nothing.
  std::string compare(const Global &other) const;

private:
  static constexpr uint64_t pageBytes = 4096;

  struct Place : Cell {
    uint32_t readBefore = 0;   ///< the launch in which another block read it
    uint32_t readConstant = 0; ///< the launch in which it was read with .nc
  };
  struct Page {
    uint32_t launch = 0; ///< in which it was used last
    std::vector<Place> places;
  };
  using Pages = std::unordered_map<uint64_t, Page>;

  Page &find(uint64_t number);
  bool isWritten(const Place &place) const { return place.written.block >= clock.launch; }
  bool isRead(const Place &place) const {
    return place.lastRead.block >= clock.launch || place.readBefore == clock.launch ||
           place.readConstant == clock.launch;
  }

  std::array<Pages, 4> byGranule;
  Pages *pages = &byGranule[0];
  unsigned granule = 1;
  uint64_t lastNumber = ~0ull;
  Page *last = nullptr;
};

} // namespace divisi::test::ptx
