#pragma once
#include "compiler/RunDefaults.h"
#include "compiler/Session.h"

#include <CLI/CLI.hpp>

namespace divisi::tools {

/// "rmsprop (0.99), ...": the optimizers that use a constant, with its numbers unless the flag is given.
std::string usersOf(llvm::StringRef constant);

/// The flags of every command that makes a training step from a model.
struct ModelFlags : compiler::ModelRequest {
  std::string loss, batchNorm = "training";
  std::vector<std::string> dims, metrics;
  compiler::RunDefaults defaults;

  /// Adds the flags to a command.
  void addTo(CLI::App &command);
  /// Evaluates the flags together. Returns an error text, or "".
  std::string finish();

private:
  std::string finishConstants();
  std::string finishMetrics();

  void listFlags();

  CLI::App *ofModel = nullptr, *ofTraining = nullptr; // groups of flags
  std::map<std::string, CLI::Option *> constants; // of optimizers, by the flag's name without dashes
};

} // namespace divisi::tools
