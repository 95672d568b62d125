#pragma once
#include "tools/divisi/LocalJob.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace divisi::tools {

/// What `divisi run` is asked for.
struct RunRequest {
  int devices = 0; // 0: as many as the program is for
  std::string launcher; // local, mpirun or srun; empty: defaultLauncher()
  LocalJobRequest job;
  std::vector<std::string> program; // with its arguments
};

/// Whether the arguments contain the flag, as "--flag" or "--flag=value".
bool has(const std::vector<std::string> &words, const std::string &flag);
/// The program's --timeout in its words, or what it is without one.
double timeoutOf(const std::vector<std::string> &words);

/// What starts the processes if no flag says so.
std::string defaultLauncher();

/// Whether mpirun or srun has started this process as one of several.
bool isOneOfSeveral();

/// Adds the flags of `divisi run`.
void declareRun(CLI::App &app, RunRequest &request);

/// Parses the arguments before the program; those after it belong to the program. Prints help or an error, and returns
/// the exit code then; nothing if the program is to be run.
std::optional<int> parseRun(int argc, const char *const *argv, RunRequest &request);

/// Why the request for a changing number of ranks cannot be met by a program for these numbers of devices; else "".
std::string whyNotElastic(const RunRequest &request, const std::vector<int64_t> &compiled);

/// Prints an error in the command line; returns its exit code.
int usage(const std::string &message);

} // namespace divisi::tools
