#pragma once

namespace CLI {
class App;
}

namespace divisi::tools {

/// Adds `run` with its flags, for help and man pages; runMain() parses them.
void addRun(CLI::App &app);

/// Runs `divisi run`, which starts a program on several ranks. `argv[0]` is "run". Returns the program's exit code, 2
/// for wrong usage, or 1 if the program could not be started.
int runMain(int argc, const char *const *argv);

} // namespace divisi::tools
