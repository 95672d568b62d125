#pragma once
#include "compiler/Import/Import.h"
#include "compiler/Manifest.h"
#include "compiler/Pipeline.h"

#include <CLI/CLI.hpp>

namespace divisi::tools {

/// What every command asks that makes a training step of a model.
struct ModelFlags {
  std::string input, loss, batchNorm = "training";
  std::vector<std::string> dims;
  compiler::ImportOptions import;
  compiler::TrainOptions train;
  compiler::RunDefaults defaults;

  /// Adds the flags to a command.
  void addTo(CLI::App &command);
  /// Reads what the flags say together; what is wrong with them, or nothing.
  std::string finish();
};

} // namespace divisi::tools
