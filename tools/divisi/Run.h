#pragma once

namespace divisi::tools {

/// `divisi run`: starts a program on several ranks. `argv[0]` is the word `run`. Returns the program's exit code, or 2
/// for wrong usage, or 1 if it could not be started.
int runMain(int argc, const char *const *argv);

} // namespace divisi::tools
