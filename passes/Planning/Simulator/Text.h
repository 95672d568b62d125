#pragma once
#include "passes/Planning/Simulator/Render.h"

namespace divisi::planning::pipeline {

/// Three digits and a unit: "1.25 ms", "3.5 GB" (decimal). Zero is "0".
std::string secondsText(double seconds);
std::string bytesText(double bytes);
/// Three digits.
std::string numberText(double number);
/// "87.5 %".
std::string percentText(double share);
/// Escapes text for XML and HTML, in text and attributes. Characters that XML forbids become spaces.
std::string escaped(llvm::StringRef text);
/// JSON requires UTF-8; a name may be any bytes.
std::string validUtf8(llvm::StringRef text);

/// Leaves out the columns from `first` on in which every device has "0".
void leaveOutZeros(std::vector<std::vector<std::string>> &table, size_t first);

} // namespace divisi::planning::pipeline
