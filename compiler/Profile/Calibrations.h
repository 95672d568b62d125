#pragma once
#include "passes/Planning/Cost/Cluster.h"

#include <map>

namespace divisi::compiler {

/// Calibrations of machines, by their names. A JSON file:
/// {"divisi_calibration": 6, "machines": {"Xeon, 2 cores": {"message": 5e9, "large": 2e9, "core": RATES, "all": RATES}}}, RATES being
/// {"flops": 3e11, "bandwidth": 2e10, "bf16": 6e11, "matmuls": [[FLOPs, FLOP/s], ...], "convolutions": [...],
///  "filters": [...], "kernels": [[bytes, bytes/s], ...], "packings": [...]}: planning::Calibration.
class Calibrations {
public:
  /// None if there is no file; an error if it cannot be read as one.
  static llvm::Expected<Calibrations> read(const std::string &file);
  /// Writes the file atomically.
  llvm::Error write(const std::string &file) const;
  /// $DIVISI_CALIBRATION ("off": none, and nothing is measured), or calibration.json in the user's cache folder
  /// (XDG_CACHE_HOME/divisi).
  static std::string defaultFile();

  std::map<std::string, planning::Calibration> machines;
};

/// "Intel(R) Xeon(R) Processor, 2 cores": the processor and how many of its cores this process may use.
std::string nameOfThisMachine();

} // namespace divisi::compiler
