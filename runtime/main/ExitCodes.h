//===- ExitCodes.h - how a rank has ended -----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_EXITCODES_H
#define DIVISI_RUNTIME_MAIN_EXITCODES_H

namespace divisi::runtime {

/// The variable that `divisi run` sets where it starts the ranks itself, and with `--restarts` over MPI, so that ranks that fail tell by their exit
/// code whether the job can go on without some of them. Otherwise they end with 1, as do those that fail because another rank has.
constexpr const char *tellsFailures = "DIVISI_TELL_FAILURES";
constexpr int failedAlone = 3; ///< this rank has failed by itself: no memory, a GPU
constexpr int gaveUp = 4;      ///< a rank was silent for as long as --timeout, or has not come
constexpr int leftBehind = 5;  ///< the first rank has ended, or goes on without this one, which was silent for that long

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_EXITCODES_H
