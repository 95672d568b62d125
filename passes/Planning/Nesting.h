#pragma once
#include "llvm/ADT/StringRef.h"

namespace divisi {

/// Whether brackets outside of "texts" and // comments nest deeper than `most`: parsers read them by recursion, and
/// have no limit of their own.
bool nestsTooDeep(llvm::StringRef text, int most);

} // namespace divisi
