#pragma once
#include <cstdint>
#include <optional>

namespace divisi::test::ptx {

/// How often a thread's block and its warp have synchronised: accesses of two threads are ordered if these differ.
struct Epoch {
  uint32_t block = 0, warp = 0;
};

/// Numbers the epochs of blocks, from one launch to the next.
struct Clock {
  uint32_t launch = 0, block = 0, now = 0; ///< the first epoch of the launch and of the block, and the current one
  void beginLaunch() { launch = ++now; }
  void beginBlock() { block = ++now; }
  void synchronize() { ++now; }
};

/// What is known of the accesses of a block to some bytes. Reads of earlier epochs matter to no later access.
struct Cell {
  /// An access of another thread that no barrier orders.
  struct Conflict {
    bool writes;
    uint32_t thread; ///< of several that read, any
    int line;
  };

  std::optional<Conflict> read(uint32_t thread, Epoch now, int line) {
    if (isWrittenBeside(thread, now))
      return Conflict{true, writer, writeLine};
    uint32_t lane = 1u << thread % 32, warp = thread / 32;
    if (lastRead.block != now.block) {
      manyRead = false;
      readers = lane;
    } else if (readingWarp != warp) {
      manyRead = true;
    } else {
      readers = lastRead.warp == now.warp ? readers | lane : lane;
    }
    lastRead = now;
    readingWarp = warp;
    readLine = line;
    return std::nullopt;
  }

  std::optional<Conflict> write(uint32_t thread, Epoch now, int line) {
    if (isWrittenBeside(thread, now))
      return Conflict{true, writer, writeLine};
    if (isReadBeside(thread, now))
      return Conflict{false, readingWarp * 32, readLine};
    written = now;
    writer = thread;
    writeLine = line;
    return std::nullopt;
  }

  Epoch written, lastRead;
  uint32_t writer = 0, readers = 0; ///< the last thread that wrote; lanes of the warp that read
  uint32_t readingWarp = 0;
  int writeLine = 0, readLine = 0;
  bool manyRead = false; ///< by lanes of several warps

private:
  bool isWrittenBeside(uint32_t thread, Epoch now) const {
    return writer != thread && written.block == now.block && (writer / 32 != thread / 32 || written.warp == now.warp);
  }
  bool isReadBeside(uint32_t thread, Epoch now) const {
    if (lastRead.block != now.block)
      return false;
    if (manyRead || readingWarp != thread / 32)
      return true;
    return lastRead.warp == now.warp && (readers & ~(1u << thread % 32)) != 0;
  }
};

} // namespace divisi::test::ptx
