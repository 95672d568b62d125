//===- Describe.h - what a program is ---------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_DESCRIBE_H
#define DIVISI_RUNTIME_MAIN_DESCRIBE_H

#include "runtime/core/Manifest.h"

namespace divisi::runtime {

/// Inputs, parameters and memory, for people.
std::string describeText(const Manifest &manifest);
/// The same as one JSON object.
std::string describeJson(const Manifest &manifest);
/// As in "1.5 MiB".
std::string formatBytes(uint64_t bytes);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_DESCRIBE_H
