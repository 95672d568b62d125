// Figures of this machine for plans of cpu:N: from the file of calibrations, or measured once.
#include "divisi/Calibrate.h"
#include "compiler/Profile/Calibrations.h"
#include "divisi/MeasureMachine.h"

#include "llvm/Support/raw_ostream.h"

using namespace divisi;
using namespace divisi::tools;

llvm::Expected<planning::Machine> tools::calibratedMachine(Calibrating how) {
  planning::Machine machine = planning::thisMachine();
  std::string file = compiler::Calibrations::defaultFile(), name = compiler::nameOfThisMachine();
  if (how == Calibrating::off || file == "off")
    return machine;
  auto known = compiler::Calibrations::read(file);
  if (!known)
    return known.takeError();
  if (auto found = known->machines.find(name); found != known->machines.end()) {
    machine.calibration = found->second;
    return machine;
  }
  if (how == Calibrating::known)
    return machine;
  std::optional<planning::Calibration> measured;
  try {
    for (int tries = 2; tries > 0 && !measured; --tries)
      measured = measureMachine(machine.cores);
  } catch (const std::exception &failure) {
    llvm::errs() << "note: this machine cannot be measured: " << failure.what() << "; the plan uses rough figures of CPUs\n";
    return machine;
  }
  if (!measured) {
    llvm::errs() << "note: this machine is too busy to be measured: the plan uses rough figures of CPUs; ask again later, or "
                    "use divisi profile\n";
    return machine;
  }
  llvm::errs() << "note: measured this machine (" << name << ") for plans of cpu:N: " << file << "\n";
  known->machines[name] = *measured;
  if (llvm::Error error = known->write(file))
    return error;
  machine.calibration = std::move(measured);
  return machine;
}

llvm::Expected<planning::Machine> tools::machineFor(llvm::StringRef cluster, bool calibrate) {
  return calibratedMachine(calibrate && cluster.starts_with("cpu:") ? Calibrating::measure : Calibrating::off);
}
