//===- OneLine.h - messages for a terminal ----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_ONELINE_H
#define DIVISI_RUNTIME_MAIN_ONELINE_H

#include "runtime/core/Status.h"

namespace divisi::runtime {

/// A message, of which parts may be from files: control characters, which could command a terminal or begin another
/// line, become \xNN.
inline std::string oneLine(std::string_view message) {
  std::string text;
  for (char c : message)
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? printable({&c, 1}) : std::string(1, c);
  return text;
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_ONELINE_H
