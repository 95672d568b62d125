// divisi doctor: what this machine has for training, what is missing for which feature, and whether its GPUs compute right.
#include "codegen/Cuda/Ptx.h"
#include "divisi/Commands.h"
#include "passes/Planning/Cost/Cluster.h"
#include "runtime/devices/cuda/SelfTest.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <future>
#include <thread>

using namespace divisi;
using namespace divisi::runtime::cuda;

namespace {
/// Seconds for one test, in which a library may load all of its code.
constexpr std::chrono::seconds mostSeconds{60};

std::string inGiB(double bytes) { return llvm::formatv("{0:F1} GiB", bytes / (1 << 30)).str(); }

std::string mpiText() {
  auto launcher = llvm::sys::findProgramByName("mpirun");
  std::string text = std::string("MPI ") + DIVISI_MPI_VERSION;
  return text + (launcher ? ", started by " + *launcher : ", but there is no mpirun") + "; by TCP without any of it";
}

constexpr const char *noLibdevice = "the Toolkit's libdevice.10.bc (CUDA_HOME), for functions of double precision and rare ones";

/// Five lines for a machine on which programs compute on the processor.
void describeWithoutGpu(const Survey &machine) {
  std::string libraries;
  for (const LibraryInfo &library : machine.libraries)
    libraries += (libraries.empty() ? "" : ", ") + (library.problem.empty() ? library.text() : "no " + library.name);
  llvm::outs() << "GPUs: none that can be used: " << machine.problem << "\n"
               << "libraries for GPUs: " << libraries << "; without a GPU nothing needs them\n"
               << "programs for GPUs: can be compiled here (--target cpu,cuda)"
               << (codegen::findLibdevice().empty() ? std::string(", without ") + noLibdevice : "") << "\n";
}

void describeGpus(const Survey &machine) {
  for (auto [i, gpu] : llvm::enumerate(machine.gpus)) {
    llvm::outs() << "GPU " << i << ": " << gpu.name << ", compute capability " << gpu.major << "." << gpu.minor;
    if (gpu.processors > 0)
      llvm::outs() << ", " << gpu.processors << " multiprocessors";
    if (gpu.clock > 0)
      llvm::outs() << ", " << gpu.clock << " MHz";
    if (gpu.memoryClock > 0)
      llvm::outs() << ", memory " << gpu.memoryClock << " MHz";
    llvm::outs() << ", " << inGiB((double)gpu.free) << " of " << inGiB((double)gpu.bytes) << " free\n";
  }
  for (auto [i, row] : llvm::enumerate(machine.links))
    for (size_t j = i + 1; j < row.size(); ++j)
      llvm::outs() << "link " << i << " - " << j << ": "
                   << (row[j] == Link::PeerWithAtomics ? "direct, with atomics (as NVLink)"
                       : row[j] == Link::Peer          ? "direct (as PCIe)"
                                                       : "through the host's memory")
                   << "\n";
  llvm::outs() << "driver: of CUDA " << machine.driver << "\n";
  for (const LibraryInfo &library : machine.libraries)
    llvm::outs() << "library: " << library.text() << "\n";
}

/// What does not work, and why.
void describeGaps(const Survey &machine) {
  auto say = [](const llvm::Twine &line) { llvm::outs() << "missing: " << line << "\n"; };
  for (const LibraryInfo &library : machine.libraries) {
    const char *needs = library.name == "cuBLASLt" ? "every model with products, on GPUs"
                        : library.name == "cuDNN"  ? "convolutions and attention, on GPUs"
                                                   : "several GPUs (--no-nccl: through the hosts' memory, slowly)";
    if (!library.problem.empty())
      say(library.name + " for " + needs);
  }
  for (auto [i, gpu] : llvm::enumerate(machine.gpus))
    if (gpu.major < 8)
      say("code for GPU " + llvm::Twine(i) + ": compute capability 8.0 is the least");
  for (const auto &row : machine.links)
    if (llvm::is_contained(row, Link::ThroughHost)) {
      say("direct access between GPUs: they exchange data through the host's memory");
      break;
    }
  if (codegen::findLibdevice().empty())
    say(noLibdevice);
}

/// Runs a test with a time limit; prints its line. Returns whether it is right.
bool examine(const SelfTest &test) {
  auto promise = std::make_shared<std::promise<std::string>>();
  std::future<std::string> said = promise->get_future();
  auto begin = std::chrono::steady_clock::now();
  std::thread([promise, run = test.run] {
    try {
      promise->set_value(run());
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  std::string wrong, line;
  try {
    if (said.wait_for(mostSeconds) == std::future_status::ready)
      line = said.get();
    else
      wrong = llvm::formatv("not done after {0} seconds", mostSeconds.count());
  } catch (const std::exception &error) {
    wrong = error.what();
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  llvm::outs() << (wrong.empty() ? "ok   " : "FAIL ") << test.name << ": "
               << (wrong.empty() ? line + llvm::formatv(", {0:F1} s", seconds).str() : wrong) << "\n";
  llvm::outs().flush();
  return wrong.empty();
}
} // namespace

void tools::addDoctor(CLI::App &app, int &exitCode) {
  CLI::App *command = app.add_subcommand(
      "doctor", "say what this machine has for training, what is missing, and whether its GPUs compute right");
  command->footer("Example:\n  divisi doctor");
  command->callback([&exitCode] {
    planning::Machine here = planning::thisMachine();
    llvm::outs() << "processor: " << here.cores << (here.cores == 1 ? " core, " : " cores, ") << inGiB((double)here.memory) << "\n"
                 << "several processes: " << mpiText() << "\n";
    Survey machine = survey();
    if (!machine.problem.empty())
      return describeWithoutGpu(machine);
    describeGpus(machine);
    describeGaps(machine);
    for (const SelfTest &test : selfTests(machine))
      if (!examine(test))
        exitCode = 1;
  });
}
