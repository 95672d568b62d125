//===- OneLine.h - messages for a terminal ----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_ONELINE_H
#define DIVISI_RUNTIME_MAIN_ONELINE_H

#include "runtime/core/Status.h"

#include <string>
#include <string_view>

namespace divisi::runtime {

/// A message, of which parts may be from files: what could command a terminal, begin another line or reverse the order of
/// its characters becomes \xNN, and so do bytes that are no UTF-8.
std::string oneLine(std::string_view message);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_ONELINE_H
