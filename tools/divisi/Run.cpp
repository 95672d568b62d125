// divisi run: runs a program on several devices, one process for each.
#include "tools/divisi/Run.h"
#include "compiler/Elastic.h"
#include "divisi/suggest.h"
#include "runtime/comm/tcp/Secret.h"
#include "runtime/core/Cores.h"
#include "runtime/core/Manifest.h"
#include "runtime/core/MappedFile.h"
#include "runtime/main/ExitCodes.h"
#include "tools/divisi/Launch.h"
#include "tools/divisi/LocalJob.h"
#include "tools/divisi/Processes.h"
#include "tools/divisi/RunFlags.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>
#include <unistd.h>

using namespace divisi;
using namespace divisi::tools;

namespace {
using Words = std::vector<std::string>;

std::string find(const std::string &name) {
  const char *path = std::getenv("PATH");
  std::string folders = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (size_t at = 0; at <= folders.size();) {
    size_t end = std::min(folders.find(':', at), folders.size());
    std::string file = folders.substr(at, end - at) + "/" + name;
    if (access(file.c_str(), X_OK) == 0)
      return file;
    at = end + 1;
  }
  return "";
}

/// The numbers of devices, ascending, for which divisi compile has written a program, by the manifests in the file;
/// none if it is no such program. Does not run it. `spared`: of each that goes on without workers, the number of its workers.
std::vector<int64_t> devicesOf(const std::string &path, std::map<int64_t, int64_t> &spared) {
  constexpr std::string_view begin = "{\"abi\":";
  auto file = runtime::MappedFile::open(path);
  if (!file.ok() || !file->text().starts_with("\x7f" "ELF"))
    return {};
  std::vector<int64_t> found;
  std::string_view text = file->text();
  for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
    std::string_view rest = text.substr(at);
    auto manifest = runtime::parseManifest(rest.substr(0, rest.find('\0')), std::numeric_limits<uint64_t>::max());
    if (!manifest.ok())
      continue;
    if (manifest->canLoseWorkers())
      spared[manifest->ranks()] = manifest->mesh.size();
    found.push_back(manifest->ranks());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// A secret by which ranks that do not use MPI's rendezvous prove that they belong to this job, also after a restart.
std::string makeSecret() {
  if (std::getenv("DIVISI_SECRET") || std::getenv("DIVISI_SECRET_FILE"))
    return "";
  auto digits = runtime::randomDigits(64);
  if (!digits.ok())
    return digits.status().message();
  setenv("DIVISI_SECRET", digits->c_str(), 1);
  return "";
}

/// The launcher's own arguments before the program, and one line of explanation.
Words launcherWords(const RunRequest &request, std::string &note) {
  Words words = {request.launcher};
  if (request.launcher == "srun") {
    words.insert(words.end(), {"-n", std::to_string(request.devices), "--kill-on-bad-exit=1"});
  } else {
    words.insert(words.end(), {"-n", std::to_string(request.devices), "--quiet", "--bind-to", "none"});
    words.insert(words.end(), {"-x", std::getenv("DIVISI_SECRET_FILE") ? "DIVISI_SECRET_FILE" : "DIVISI_SECRET"});
    if (geteuid() == 0)
      words.push_back("--allow-run-as-root");
    // mpirun counts whole cores; each may be two processors for the system.
    if (request.devices > runtime::coresAllowed() / 2)
      words.push_back("--oversubscribe");
  }
  for (const std::string &word : words)
    note += word + " ";
  if (request.job.restarts.value_or(0) > 0 && request.launcher == "mpirun")
    words.insert(words.end(), {"-x", runtime::tellsFailures});
  setenv("DIVISI_TERMINAL", isatty(STDOUT_FILENO) ? "1" : "0", 1); // mpirun hides it from the ranks
  if (!has(request.program, "--threads") && !std::getenv("OMP_NUM_THREADS") && request.launcher == "mpirun") {
    int threads = std::max(1, runtime::coresAllowed() / request.devices);
    setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
    note = "OMP_NUM_THREADS=" + std::to_string(threads) + " " + note;
  }
  return words;
}

/// Starts the processes by mpirun or srun, again when one is lost, as often as --restarts says.
int runByLauncher(const RunRequest &request) {
  if (find(request.launcher).empty()) {
    std::cerr << "error: there is no '" << request.launcher << "': install the package "
              << (request.launcher == "srun" ? "slurm-client" : "openmpi-bin") << std::endl;
    return 1;
  }
  const int64_t restarts = request.job.restarts.value_or(0);
  std::string note;
  Words words = launcherWords(request, note);
  std::cerr << "divisi run: " << note << request.program[0] << " ..." << std::endl;
  words.insert(words.end(), request.program.begin(), request.program.end());
  Launch launch(request.launcher, timeoutOf(request.program));
  if (restarts > 0)
    setenv(runtime::tellsFailures, "1", 1);
  Ending ending = launch.execute(words);
  for (int restart = 1; ending.lost || ending.silent; ++restart) {
    if (ending.silent)
      std::cerr << "error: a rank was lost: it was silent";
    else
      std::cerr << "error: a rank was lost: signal " << ending.code - 128 << " (" << strsignal(ending.code - 128) << ") ended it";
    if (restart > restarts) {
      std::cerr << (restarts > 0 ? "; no restarts are left" : "; --restarts K goes on from the last checkpoint")
                << std::endl;
      break;
    }
    std::cerr << "; restart " << restart << " of " << restarts << " with --resume" << std::endl;
    if (!has(words, "--resume"))
      words.push_back("--resume");
    ending = launch.execute(words);
  }
  if (ending.code == 1 && request.launcher == "mpirun")
    std::cerr << "divisi run: exit code 1; if the program has not said why, mpirun does without --quiet" << std::endl;
  return ending.code;
}
} // namespace

void tools::addRun(CLI::App &app) {
  static RunRequest request; // runMain() parses the command line
  declareRun(*app.add_subcommand("run", "start a program on all of its devices: divisi run PROGRAM ..."), request);
}

int tools::runMain(int argc, const char *const *argv) {
  RunRequest request;
  if (auto code = parseRun(argc, argv, request))
    return *code;
  if (request.job.restarts.value_or(0) > 0 && !has(request.program, "--checkpoint"))
    return usage("--restarts needs the program's --checkpoint DIR to go on from");
  std::string &program = request.program[0];
  std::error_code error;
  if (program.find('/') == std::string::npos && std::filesystem::exists(program, error))
    program = "./" + program;
  std::string file = program.find('/') == std::string::npos ? find(program) : program;
  if (file.empty() || access(file.c_str(), X_OK) != 0) {
    std::string reason = std::strerror(errno);
    return usage("cannot run '" + program + "': " + reason + didYouMeanFile(program));
  }
  const std::vector<int64_t> compiled = devicesOf(file, request.job.spared);
  if (request.job.isElastic()) {
    if (std::string wrong = whyNotElastic(request, compiled); !wrong.empty())
      return usage(wrong);
    if (std::string problem = makeSecret(); !problem.empty())
      return usage(problem);
    return runLocalJob(request.job, request.program, compiled);
  }
  if (request.devices == 0 && compiled.empty())
    return usage("--devices is missing, and '" + program + "' is no program that divisi compile has written");
  if (request.devices == 0)
    request.devices = (int)compiled.back();
  if (compiled.size() > 1 && !std::binary_search(compiled.begin(), compiled.end(), request.devices))
    return usage("'" + program + "' is for " + listed(compiled) + " devices, not for " +
                 std::to_string(request.devices) + ": compile it with this number, too");
  if (request.devices > 1 && compiled == std::vector<int64_t>{1}) {
    std::cerr << "divisi run: " << program << " is for one device: one process is started, not " << request.devices
              << " (divisi compile --devices " << request.devices << " --strategy data makes one for all)" << std::endl;
    request.devices = 1;
  }
  if (request.devices == 1 && request.job.restarts.value_or(0) == 0) {
    replaceBy(request.program);
    std::cerr << "error: cannot start '" << program << "': " << std::strerror(errno) << std::endl;
    return 1;
  }
  if (std::string problem = makeSecret(); !problem.empty()) {
    std::cerr << "error: " << problem << std::endl;
    return 1;
  }
  if (request.launcher.empty())
    request.launcher = defaultLauncher();
  if (request.devices > 1 && request.launcher != "local")
    return runByLauncher(request);
  if (isOneOfSeveral())
    return usage("divisi run starts all processes itself: start it without mpirun or srun, or start '" + program + "' by them");
  return runLocalJob(request.job, request.program, {request.devices});
}
