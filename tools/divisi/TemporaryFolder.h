// A temporary folder, and commands that work in it.
#pragma once
#include "divisi/Fail.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"

#include <csignal>
#include <string>
#include <vector>

namespace divisi::tools {

/// It is removed with its contents, also if a signal ends the command that works in it.
struct TemporaryFolder {
  llvm::SmallString<128> path;
  std::error_code error = llvm::sys::fs::createUniqueDirectory("divisi-profile", path);
  ~TemporaryFolder() { llvm::sys::fs::remove_directories(path); }
  std::string file(llvm::StringRef name) const { return (path + "/" + name).str(); }

  /// Runs a command and waits for its end. Returns its exit code; 128 and the number of SIGINT if this process got a signal to end
  /// meanwhile.
  static int execute(const std::vector<std::string> &arguments) {
    static volatile std::sig_atomic_t interrupted = 0;
    std::vector<llvm::StringRef> list(arguments.begin(), arguments.end());
    std::string wrong;
    llvm::sys::SetInterruptFunction([] { interrupted = 1; });
    int code = llvm::sys::ExecuteAndWait(arguments[0], list, std::nullopt, {}, 0, 0, &wrong);
    llvm::sys::SetInterruptFunction(nullptr);
    if (!wrong.empty())
      fail(arguments[0] + ": " + wrong);
    return interrupted ? 128 + SIGINT : code;
  }
};

} // namespace divisi::tools
