//===- Describe.h - description of a program --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_DESCRIBE_H
#define DIVISI_RUNTIME_MAIN_DESCRIBE_H

#include "runtime/core/Manifest.h"

namespace divisi::runtime {

/// Inputs, parameters and memory, as a text for users.
std::string describeText(const Manifest &manifest);
/// The same as one JSON object.
std::string describeJson(const Manifest &manifest);
/// A size as text, such as "1.5 MiB".
std::string formatBytes(uint64_t bytes);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_DESCRIBE_H
