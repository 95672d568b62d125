#pragma once
#include "test/gpu/ptx/Text.h"

#include <array>

namespace divisi::test::ptx {

class Warp;
struct Code;
/// Executes an instruction for the active lanes of a warp.
using Run = void (*)(Warp &, const Code &);

/// A decoded instruction. Operands are places in a warp's register file: 32 numbers side by side, or the 32 bits of a
/// predicate.
struct Code {
  static constexpr uint32_t none = ~0u;
  Run run = nullptr;
  uint32_t d = 0, a = 0, b = 0, c = 0;
  uint32_t guard = none;
  bool negated = false;
  bool isConstant = false;         ///< a load of what is not written meanwhile
  uint8_t count = 1, bytes = 0;    ///< elements of a vector and bytes of each
  uint8_t from = 0, to = 0;        ///< bytes of a conversion's registers
  std::array<uint32_t, 4> parts{}; ///< the registers of a vector, or what else an instruction has
  int64_t offset = 0;              ///< of an address
  std::vector<uint32_t> targets{}; ///< of a branch
  uint32_t meet = 0;               ///< where its lanes come together
  int line = 0;
  const Statement *statement = nullptr;
};

/// A kernel that can be executed.
struct Program {
  std::string name;
  std::vector<Code> codes;
  unsigned mostThreads = 0, parameters = 0;
  uint32_t constantsBegin = 0, registersBegin = 0, registersEnd = 0; ///< places in the register file
  std::vector<char> constants;
  std::vector<Variable> shared;
  std::vector<uint64_t> sharedAt; ///< addresses
  uint64_t sharedEnd = 0;
  unsigned sharedGranule = 8, globalGranule = 8; ///< bytes of the smallest access
  uint64_t localBytes = 0;
};

/// Where special registers are in the register file.
enum Special : uint32_t {
  threadSlot = 0,
  blockSlot = 128,
  threadsSlot = 256,
  blocksSlot = 384,
  laneSlot = 512,
  specialEnd = 640
};
/// Addresses of shared and local memory begin there: none is zero.
inline constexpr uint64_t windowBegin = 256;

/// Throws an Error at an instruction that is not known. The kernel must outlive the program; `globals` have their
/// contents at their places.
Program decode(const Kernel &kernel, const Text &text);

} // namespace divisi::test::ptx
