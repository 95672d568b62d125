#pragma once
#include "llvm/ADT/StringRef.h"

namespace divisi {

/// Whether brackets outside of string literals and // comments nest deeper than `most`. Parsers are recursive and have
/// no limit of their own.
bool nestsTooDeep(llvm::StringRef text, int most);

} // namespace divisi
