#pragma once
#include "llvm/Support/Error.h"

namespace divisi::tools {

/// Prints "error: MESSAGE" and returns the exit code: 2 for a wrong command line, 1 for the rest.
int fail(const llvm::Twine &message, int code = 1);

/// The same for an error of the compiler's libraries, which has no text if a diagnostic was printed already.
int fail(llvm::Error error);

} // namespace divisi::tools
