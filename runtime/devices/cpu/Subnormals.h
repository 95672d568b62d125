//===- Subnormals.h - products without the smallest numbers -----*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_SUBNORMALS_H
#define DIVISI_RUNTIME_DEVICES_CPU_SUBNORMALS_H

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace divisi::runtime {

/// During its lifetime the calling thread takes subnormal numbers, those below 2^-126, for zeros, as units for bf16 do: Intel's processors
/// need a hundred cycles for each, and a gradient can consist of them (of an expert that the gate hardly ever chooses).
class WithoutSubnormals {
public:
#ifdef __x86_64__
  WithoutSubnormals() : before(_mm_getcsr()) { _mm_setcsr(before | flushesResults | flushesOperands); }
  ~WithoutSubnormals() { _mm_setcsr(before); }
#else
  WithoutSubnormals() {}
#endif
  WithoutSubnormals(const WithoutSubnormals &) = delete;
  WithoutSubnormals &operator=(const WithoutSubnormals &) = delete;

#ifdef __x86_64__
private:
  static constexpr unsigned flushesResults = 0x8000, flushesOperands = 0x0040; // of MXCSR: FTZ and DAZ
  unsigned before;
#endif
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_SUBNORMALS_H
