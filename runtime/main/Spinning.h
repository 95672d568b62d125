//===- Spinning.h - how long threads of a program spin ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_SPINNING_H
#define DIVISI_RUNTIME_MAIN_SPINNING_H

namespace divisi::runtime {

/// Limits the time for which threads spin to some microseconds, unless GOMP_SPINCOUNT or OMP_WAIT_POLICY is set:
/// executes this program once more with GOMP_SPINCOUNT. To be called before any library is initialized
/// (.preinit_array).
void limitSpinning(int, char **arguments, char **environment);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_SPINNING_H
