//===- RunProgram.h - the main function, callable ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_RUNPROGRAM_H
#define DIVISI_RUNTIME_MAIN_RUNPROGRAM_H

#include "divisi/abi.h"

namespace divisi::runtime {

/// All that a generated program does. Exit code: 0 success, 1 failure, 2 wrong usage, 130 or 143 stopped by a signal.
int runProgram(const DivisiProgram &program, int argc, const char *const *argv);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_RUNPROGRAM_H
