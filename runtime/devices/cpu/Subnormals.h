//===- Subnormals.h - GEMMs without the smallest numbers --------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_SUBNORMALS_H
#define DIVISI_RUNTIME_DEVICES_CPU_SUBNORMALS_H

#include "runtime/core/Team.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace divisi::runtime {

#ifdef __x86_64__
constexpr unsigned flushesSubnormals = 0x8000 | 0x0040; // of MXCSR: FTZ and DAZ
#endif

/// During its lifetime the calling thread takes subnormal operands and results, those below 2^-126, for zeros, as units for bf16 do:
/// Intel's processors need some hundred cycles for each, and a gradient can consist of them (of an expert that the gate hardly ever chooses).
class WithoutSubnormals {
public:
#ifdef __x86_64__
  explicit WithoutSubnormals(bool wanted) : before(_mm_getcsr()) {
    if (wanted)
      _mm_setcsr(before | flushesSubnormals);
  }
  ~WithoutSubnormals() { _mm_setcsr(before); }
#else
  explicit WithoutSubnormals(bool) {}
#endif
  WithoutSubnormals(const WithoutSubnormals &) = delete;
  WithoutSubnormals &operator=(const WithoutSubnormals &) = delete;

#ifdef __x86_64__
private:
  unsigned before;
#endif
};

/// The same for all members of the team, which a library's regions have, too.
class TeamWithoutSubnormals {
public:
  TeamWithoutSubnormals(int threads, bool wanted) : threads(wanted ? threads : 0) { set(true); }
  ~TeamWithoutSubnormals() { set(false); }
  TeamWithoutSubnormals(const TeamWithoutSubnormals &) = delete;
  TeamWithoutSubnormals &operator=(const TeamWithoutSubnormals &) = delete;

private:
  void set([[maybe_unused]] bool flushes) {
#ifdef __x86_64__
    if (threads > 1)
      divisi_team_run(
          threads,
          [](void *flushed, int, int) {
            const unsigned others = _mm_getcsr() & ~flushesSubnormals;
            _mm_setcsr(*static_cast<bool *>(flushed) ? others | flushesSubnormals : others);
          },
          &flushes);
#endif
  }

  int threads;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_SUBNORMALS_H
