#pragma once
#include "test/gpu/ptx/Program.h"

#include <string>
#include <unordered_map>

namespace divisi::test::ptx {

/// How an instruction is executed: `bytes` of its operands, the result first, where 0 is a predicate.
struct Entry {
  Run run;
  std::vector<unsigned> bytes;
};
using Table = std::unordered_map<std::string, Entry>;

// Instructions whose operands are registers and constants, by opcode.
void addFloats(Table &table);
void addIntegers(Table &table);
void addPredicates(Table &table);
void addConversions(Table &table);

/// Decodes cvt of one number but for its operands; false if the conversion is not known.
bool decodeConversion(const std::string &opcode, Code &code);

enum class Space { global, shared, local, parameter };
/// ld or st of numbers in registers that may be larger.
Run accessOf(Space space, bool writes, bool isSigned, unsigned bytes, unsigned registerBytes);
/// mov of a register from several or to them; null if there is none.
Run packOf(unsigned whole, unsigned part);
Run unpackOf(unsigned whole, unsigned part);

void branch(Warp &warp, const Code &code);
void branchByIndex(Warp &warp, const Code &code);
void endThread(Warp &warp, const Code &code);
void passEnd(Warp &warp, const Code &code);
void barrier(Warp &warp, const Code &code);
void warpBarrier(Warp &warp, const Code &code);
/// shfl.sync.MODE.b32; null if there is no such mode.
Run shuffleOf(const std::string &mode);

} // namespace divisi::test::ptx
