#pragma once
#include "llvm/ADT/StringRef.h"

namespace divisi {

/// Whether brackets outside of string literals and // comments nest deeper than `most`. Parsers are recursive and have
/// no limit of their own.
bool nestsTooDeep(llvm::StringRef text, int most);

/// Our JSON files (profiles, stages, calibrations) nest three deep: others are none of them.
constexpr int mostJsonNesting = 16;

/// Whether there is an array<index: ...>, which MLIR 22 takes for a type that has a width and then crashes. The alias of a type
/// counts, too: it may be one.
bool hasIndexArray(llvm::StringRef text);

} // namespace divisi
