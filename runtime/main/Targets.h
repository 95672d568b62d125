//===- Targets.h - the files that a program will write ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_TARGETS_H
#define DIVISI_RUNTIME_MAIN_TARGETS_H

#include "runtime/main/Options.h"

namespace divisi::runtime {

/// Checks before any work that the files named by flags can be written, and are neither files that the program reads
/// (also itself and its weights, "" without) nor each other. An error names the flag.
Status checkTargets(const Options &options, const std::string &program, const std::string &weights);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_TARGETS_H
