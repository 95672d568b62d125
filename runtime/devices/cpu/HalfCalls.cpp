//===- HalfCalls.cpp - what compiled kernels may call of 16-bit floats ----===//
// LLVM rounds to bfloat16 by a function of the compiler's library, which GCC's library has only since version 13.
#include "runtime/core/Half.h"

#ifdef __SSE2__
extern "C" __attribute__((weak, visibility("default"))) _Float16 __truncsfbf2(float value);
_Float16 __truncsfbf2(float value) { // both 16-bit types are returned in the same register
  return std::bit_cast<_Float16>(divisi::runtime::floatToBfloat(value));
}
#endif
