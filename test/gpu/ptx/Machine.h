#pragma once
#include "test/gpu/ptx/Global.h"
#include "test/gpu/ptx/Memory.h"
#include "test/gpu/ptx/Program.h"
#include "test/gpu/ptx/Shared.h"

#include <span>

namespace divisi::test::ptx {

inline constexpr unsigned warpSize = 32;
inline constexpr uint32_t allLanes = ~0u, nowhere = ~0u;

/// What a lane does wrong; the machine adds kernel, line and thread.
struct Fault : std::runtime_error {
  Fault(unsigned lane, const std::string &what) : std::runtime_error(what), lane(lane) {}
  unsigned lane;
};
/// The first lane of a mask that is not empty.
inline unsigned firstOf(uint32_t mask) { return (unsigned)__builtin_ctz(mask); }

/// What is common to a launch.
struct Launch {
  const Program &program;
  const Memory &memory;
  std::span<const uint64_t> arguments;
  unsigned blocks, threads;
};

/// Lanes that execute the same instruction from `pc` until they meet others.
struct Path {
  uint32_t pc = 0, meet = nowhere, mask = 0;
};

/// 32 threads in lockstep: of paths that diverge one after the other is executed, up to the instruction at which all
/// must come together.
class Warp {
public:
  Warp(const Launch &launch, Shared &shared, Global &global, unsigned number);

  /// Prepares the execution of a block.
  void begin(unsigned block);
  /// Executes until a barrier or the end.
  void run();
  bool hasEnded() const { return live == 0; }
  /// The first thread of the warp, in its block.
  unsigned firstThread() const { return number * warpSize; }
  /// The instruction that is executed.
  const Code &current() const { return launch.program.codes[path.pc - 1]; }

  // For instructions:
  template <typename T> T *at(uint32_t slot) { return reinterpret_cast<T *>(file.data() + slot); }
  uint32_t &predicate(uint32_t slot) { return *at<uint32_t>(slot); }
  /// The current path continues there.
  void jump(uint32_t target) { path.pc = target; }
  /// The active lanes continue there; if these are not all, two paths meet at `meet`.
  void branch(uint32_t target, uint32_t meet);
  /// The current path becomes several, which meet at `meet`.
  void diverge(std::span<const Path> paths, uint32_t meet);
  /// The active lanes end.
  void exit();
  /// Fails unless all live lanes of the mask are active, and no other.
  void requireTogether(uint32_t members, const char *what);
  char *localOf(unsigned lane) { return local.data() + lane * launch.program.localBytes; }

  const Launch &launch;
  Shared &shared;
  Global &global;
  uint32_t active = 0;  ///< lanes for which the current instruction is executed
  uint32_t carry = 0;   ///< the carry of each lane
  bool stopped = false; ///< at a barrier, or ended
  Epoch epoch;

private:
  static constexpr uint64_t mostSteps = 1 << 24; ///< of a warp in a block

  unsigned number;
  uint32_t live = 0;
  Path path;
  std::vector<Path> waiting;
  std::vector<char> file, local;
  uint64_t steps = 0;
};

/// Executes blocks of a launch one after another.
class Machine {
public:
  Machine(const Launch &launch, Global &global);
  /// What is wrong, or nothing.
  std::string run(unsigned block);

private:
  const Launch &launch;
  Global &global;
  Shared shared;
  std::vector<Warp> warps;
};

} // namespace divisi::test::ptx
