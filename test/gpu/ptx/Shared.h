#pragma once
#include "test/gpu/ptx/Program.h"

#include <optional>

namespace divisi::test::ptx {

/// How often a thread's block and its warp have synchronised: accesses of two threads are ordered if these differ.
struct Epoch {
  uint32_t block = 0, warp = 0;
};

/// A block's shared memory, which notices accesses that no barrier orders.
class Shared {
public:
  explicit Shared(const Program &program);

  /// Forgets what is stored; later epochs of blocks are new ones.
  void begin() { first = ++epoch; }
  void synchronize() { ++epoch; }
  uint32_t blockEpoch() const { return epoch; }

  /// Notes an access of a thread, of `bytes` at an address; what is wrong with it, or nothing.
  std::optional<std::string> read(uint64_t address, unsigned bytes, unsigned thread, Epoch now, int line);
  std::optional<std::string> write(uint64_t address, unsigned bytes, unsigned thread, Epoch now, int line);
  char *at(uint64_t address) { return contents.data() + (address - windowBegin); }

private:
  /// What is known of some bytes. Reads of earlier epochs matter to no later access.
  struct Cell {
    Epoch written, read;
    uint32_t writer = 0, readers = 0; ///< the last thread that wrote; lanes of the warp that read
    uint32_t readingWarp = 0;
    int writeLine = 0, readLine = 0;
    bool manyRead = false; ///< lanes of several warps
    bool exists = false;   ///< within a variable
  };
  Cell *find(uint64_t address, unsigned bytes);
  std::string place(uint64_t address) const;
  /// Whether the cell was written by another thread, with no barrier since.
  static bool isWrittenBeside(const Cell &cell, unsigned thread, Epoch now);
  static bool isReadBeside(const Cell &cell, unsigned thread, Epoch now);

  const Program &program;
  unsigned granule;
  std::vector<char> contents;
  std::vector<Cell> cells;
  uint32_t epoch = 0, first = 0;
};

} // namespace divisi::test::ptx
