#pragma once

namespace divisi::tools {

/// Runs `divisi run`, which starts a program on several ranks. `argv[0]` is "run". Returns the program's exit code, 2
/// for wrong usage, or 1 if the program could not be started.
int runMain(int argc, const char *const *argv);

} // namespace divisi::tools
