// divisi run: runs a program on several devices, one process for each.
#include "tools/divisi/Run.h"
#include "compiler/Elastic.h"
#include "divisi/suggest.h"
#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/core/Cores.h"
#include "runtime/core/Manifest.h"
#include "runtime/core/MappedFile.h"
#include "runtime/main/FlagErrors.h"
#include "tools/divisi/Elastic.h"
#include "tools/divisi/Processes.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {
using Words = std::vector<std::string>;

struct Request {
  int devices = 0; // 0: as many as the program is for
  std::optional<int64_t> restarts;
  std::string launcher = "mpirun";
  bool launcherGiven = false;
  divisi::tools::ElasticRequest elastic;
  Words program; // with its arguments
};

/// How a program has ended.
struct Ending {
  int code = 0;
  bool lost = false; // by a signal that asks nobody to stop
};

volatile std::sig_atomic_t asked = 0; // the signal to forward
volatile std::sig_atomic_t child = 0;
bool direct = true; // the child is the program itself, without a launcher

/// Forwards a signal. mpirun forwards SIGUSR1 and SIGUSR2 to the ranks, which treat them as SIGTERM and SIGINT. The
/// second signal ends mpirun and all ranks immediately.
void passOn(int signal) {
  bool again = asked != 0;
  asked = signal;
  if (child > 0)
    kill(child, direct || again ? signal : signal == SIGINT ? SIGUSR2 : SIGUSR1);
}

int usage(const std::string &message) {
  std::cerr << "error: " << message << std::endl;
  return 2;
}

/// Whether the arguments contain the flag, as "--flag" or "--flag=value".
bool has(const Words &words, const std::string &flag) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string &w) { return w == flag || w.rfind(flag + "=", 0) == 0; });
}

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
  auto file = divisi::runtime::MappedFile::open(path);
  if (!file.ok() || !file->text().starts_with("\x7f" "ELF"))
    return {};
  std::vector<int64_t> found;
  std::string_view text = file->text();
  for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
    std::string_view rest = text.substr(at);
    auto manifest = divisi::runtime::parseManifest(rest.substr(0, rest.find('\0')), std::numeric_limits<uint64_t>::max());
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
  auto digits = divisi::runtime::randomDigits(64);
  if (!digits.ok())
    return digits.status().message();
  setenv("DIVISI_SECRET", digits->c_str(), 1);
  return "";
}

/// The launcher's own arguments before the program, and one line of explanation.
Words launcherWords(const Request &request, std::string &note) {
  Words words = {request.launcher};
  if (request.launcher == "srun") {
    words.insert(words.end(), {"-n", std::to_string(request.devices), "--kill-on-bad-exit=1"});
  } else {
    words.insert(words.end(), {"-n", std::to_string(request.devices), "--quiet", "--bind-to", "none"});
    words.insert(words.end(), {"-x", std::getenv("DIVISI_SECRET_FILE") ? "DIVISI_SECRET_FILE" : "DIVISI_SECRET"});
    if (geteuid() == 0)
      words.push_back("--allow-run-as-root");
    // mpirun counts whole cores; each may be two processors for the system.
    if (request.devices > divisi::runtime::coresAllowed() / 2)
      words.push_back("--oversubscribe");
  }
  for (const std::string &word : words)
    note += word + " ";
  setenv("DIVISI_TERMINAL", isatty(STDOUT_FILENO) ? "1" : "0", 1); // mpirun hides it from the ranks
  if (!has(request.program, "--threads") && !std::getenv("OMP_NUM_THREADS") && request.launcher == "mpirun") {
    int threads = std::max(1, divisi::runtime::coresAllowed() / request.devices);
    setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
    note = "OMP_NUM_THREADS=" + std::to_string(threads) + " " + note;
  }
  return words;
}

/// A folder for mpirun's files while it runs, separate from other runs. An mpirun that ends removes the default folder,
/// which all runs share, perhaps just after another one has found it.
class LauncherFolder {
public:
  LauncherFolder() {
    std::error_code error;
    path = (std::filesystem::temp_directory_path(error) / "divisi-run-XXXXXX").string();
    if (error || !mkdtemp(path.data()))
      path.clear(); // mpirun reports the missing folder
    else
      setenv("TMPDIR", path.c_str(), 1); // for this machine only, unlike mpirun's own settings
  }
  ~LauncherFolder() {
    std::error_code error;
    if (!path.empty())
      std::filesystem::remove_all(path, error);
  }
  LauncherFolder(const LauncherFolder &) = delete;
  LauncherFolder &operator=(const LauncherFolder &) = delete;

private:
  std::string path;
};

/// Waits for a process to end. mpirun is killed when it has no child process left: it never ends if a rank was killed
/// during its initialization (PMIx 4.2.2 and later free its description twice). The processes of srun are not its
/// children.
int waitFor(pid_t launcher, bool isMpirun) {
  constexpr int before = 300, after = 50; // tenths of a second without a child: before the first, and after the last
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  bool seen = false;
  int status = 0;
  for (int alone = 0; waitpid(launcher, &status, WNOHANG) == 0;) {
    bool often = !seen || alone > 0;
    timespec pause = {often ? 0 : 1, often ? 100'000'000 : 0};
    if (sigtimedwait(&ended, nullptr, &pause) >= 0 || errno == EINTR)
      continue;
    bool living = !isMpirun || divisi::tools::hasLivingChildren(launcher);
    seen = seen || living;
    alone = living ? 0 : alone + 1;
    if (alone < (seen ? after : before))
      continue;
    std::cerr << "divisi run: the launcher hangs: none of its processes is left" << std::endl;
    kill(-launcher, SIGKILL);
    waitpid(launcher, &status, 0);
    break;
  }
  return status;
}

/// Starts a command, forwards signals to it and waits for it to end.
Ending execute(const Words &words) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0)
    return {1, false};
  std::signal(SIGCHLD, SIG_DFL); // the parent may have ignored it
  sigset_t ended, before;        // waitFor waits for `ended`
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, &before);
  const pid_t parent = getpid();
  pid_t pid = fork();
  if (pid == 0) {
    divisi::tools::becomeChild(parent, before, SIGTERM);
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    divisi::tools::replaceBy(words);
    int error = errno;
    (void)!write(report[1], &error, sizeof(error));
    _exit(127);
  }
  close(report[1]);
  int error = 0;
  bool started = pid > 0 && read(report[0], &error, sizeof(error)) != sizeof(error);
  close(report[0]);
  int status = 0;
  child = started ? pid : 0;
  if (started && asked) // received before the child existed
    kill(pid, SIGTERM);
  if (started)
    status = waitFor(pid, words[0] == "mpirun");
  else if (pid > 0)
    waitpid(pid, &status, 0);
  child = 0;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!started) {
    std::cerr << "error: cannot start '" << words[0] << "': " << std::strerror(pid < 0 ? errno : error) << std::endl;
    return {1, false};
  }
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  // Ranks that were told to stop, by whomever, have the code of the signal, too.
  return {code, !asked && code >= 128 && !divisi::tools::isStopSignal(code - 128)};
}

void declare(CLI::App &app, Request &request) {
  app.footer(
      "Examples:\n"
      "  divisi run ./model --data image=x.npy --data label=y.npy --epochs 20\n"
      "  divisi run --restarts 3 ./model --data image=x.npy --data label=y.npy --checkpoint ckpt\n"
      "  divisi run --min-devices 2 --max-devices 4 ./model --data image=x.npy --data label=y.npy --checkpoint ckpt\n"
      "  divisi run --devices 64 --launcher srun ./model --data image=x.npy --data label=y.npy\n");
  app.add_option("--devices", request.devices,
                 "number of processes (default: the most devices that the program was compiled for)")
      ->check(CLI::Range(1, 65536));
  app.add_option(
         "--restarts", request.restarts,
         "how often to go on from the last checkpoint when a rank is lost (needs the program's --checkpoint); with "
         "--min-devices without limit by default")
      ->check(CLI::Range(0, 1000000));
  app.add_option(
         "--min-devices", request.elastic.least,
         "start the processes on this host, over TCP, and when ranks are lost go on from the last checkpoint "
         "with the most of the program's numbers of devices (divisi compile --devices 2,3,4) that are left, down "
         "to this one; with --sync async-server, local and gossip the others go on without workers that are lost")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max-devices", request.elastic.most, "the same, with at most N processes")
      ->check(CLI::Range(1, 4096));
  app.add_option("--grow-after", request.elastic.growAfter,
                 "seconds with fewer processes after which the job stops with a checkpoint and goes on with all again, "
                 "or another "
                 "worker joins in place of a lost one (default: it does not)")
      ->check(CLI::Range(1, 100000000));
  app.add_option("--launcher", request.launcher, "what starts the processes")
      ->check(CLI::IsMember({"mpirun", "srun"}))
      ->capture_default_str();
  app.add_option("program", request.program, "the program and its own arguments")->type_name("PROGRAM [ARGUMENTS...]");
  app.prefix_command();
}

/// Parses the arguments before the program; those after it belong to the program.
int parse(int argc, const char *const *argv, Request &request, bool &stop) {
  CLI::App app("Starts a program for many devices: one process for each.", "divisi run");
  declare(app, request);
  // CLI11 would parse its flags anywhere. The program's arguments begin at the first argument that is not a flag of
  // `divisi run`.
  int first = 1;
  for (; first < argc && argv[first][0] == '-'; ++first) {
    std::string word = argv[first];
    if (word == "--") {
      ++first;
      break;
    }
    for (const char *flag : {"--devices", "--restarts", "--launcher", "--min-devices", "--max-devices", "--grow-after"})
      first += word == flag;
  }
  first = std::min(first, argc);
  try {
    bool separated = first > 1 && std::string(argv[first - 1]) == "--";
    app.parse(first - (separated ? 1 : 0), argv);
    request.launcherGiven = app.count("--launcher") > 0;
  } catch (const CLI::CallForHelp &) {
    std::cout << app.help();
    stop = true;
    return 0;
  } catch (const CLI::ParseError &e) {
    stop = true;
    // a flag that is unknown is the reason why another one seems to be missing
    auto unknown = app.remaining();
    return usage(unknown.empty() ? divisi::runtime::describeFlagError(app, e)
                                 : divisi::runtime::describeExtra(unknown[0], app, "divisi run"));
  }
  if (auto unknown = app.remaining(); !unknown.empty()) {
    stop = true;
    return usage(divisi::runtime::describeExtra(unknown[0], app, "divisi run"));
  }
  request.program.assign(argv + first, argv + argc);
  stop = request.program.empty();
  if (stop)
    return usage("name the program to run: divisi run PROGRAM [ARGUMENTS...]");
  return 0;
}

/// Why the request for a changing number of ranks cannot be met; else "".
std::string whyNotElastic(const Request &request, const std::vector<int64_t> &compiled) {
  if (request.launcherGiven || divisi::runtime::Rendezvous::isOverMpi())
    return "--min-devices, --max-devices and --grow-after are for processes that divisi run starts itself, on this "
           "host: " +
           std::string(request.launcherGiven ? "leave out --launcher" : "start it without mpirun or srun") +
           ", whose jobs end when they lose a rank";
  if (request.devices != 0)
    return "--devices is a fixed number: leave it out, or --min-devices, --max-devices and --grow-after";
  if (request.elastic.least && request.elastic.most && *request.elastic.least > *request.elastic.most)
    return "--min-devices " + std::to_string(*request.elastic.least) + " is more than --max-devices " +
           std::to_string(*request.elastic.most);
  if (!has(request.program, "--checkpoint"))
    return "--min-devices, --max-devices and --grow-after need the program's --checkpoint DIR to go on from";
  if (compiled.empty())
    return "'" + request.program[0] + "' is no program that divisi compile has written";
  return "";
}
} // namespace

void divisi::tools::addRun(CLI::App &app) {
  static Request request; // runMain() parses the command line
  declare(*app.add_subcommand("run", "start a program on all of its devices: divisi run PROGRAM ..."), request);
}

int divisi::tools::runMain(int argc, const char *const *argv) {
  Request request;
  bool stop = false;
  if (int code = parse(argc, argv, request, stop); stop)
    return code;
  if (request.restarts.value_or(0) > 0 && !has(request.program, "--checkpoint"))
    return usage("--restarts needs the program's --checkpoint DIR to go on from");
  std::string &program = request.program[0];
  std::error_code error;
  if (program.find('/') == std::string::npos && std::filesystem::exists(program, error))
    program = "./" + program;
  std::string file = program.find('/') == std::string::npos ? find(program) : program;
  if (file.empty() || access(file.c_str(), X_OK) != 0) {
    std::string reason = std::strerror(errno);
    return usage("cannot run '" + program + "': " + reason + divisi::didYouMeanFile(program));
  }
  const std::vector<int64_t> compiled = devicesOf(file, request.elastic.spared);
  if (request.elastic.isGiven()) {
    if (std::string wrong = whyNotElastic(request, compiled); !wrong.empty())
      return usage(wrong);
    if (std::string problem = makeSecret(); !problem.empty())
      return usage(problem);
    request.elastic.restarts = request.restarts;
    return runElastic(request.elastic, request.program, compiled);
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
  Words words;
  direct = request.devices == 1;
  if (!direct) {
    if (find(request.launcher).empty()) {
      std::cerr << "error: there is no '" << request.launcher << "': install the package "
                << (request.launcher == "srun" ? "slurm-client" : "openmpi-bin") << std::endl;
      return 1;
    }
    if (std::string problem = makeSecret(); !problem.empty()) {
      std::cerr << "error: " << problem << std::endl;
      return 1;
    }
    std::string note;
    words = launcherWords(request, note);
    std::cerr << "divisi run: " << note << program << " ..." << std::endl;
  }
  words.insert(words.end(), request.program.begin(), request.program.end());
  const int64_t restarts = request.restarts.value_or(0);
  if (direct && restarts == 0) {
    std::vector<char *> arguments;
    for (const std::string &word : words)
      arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    std::cerr << "error: cannot start '" << words[0] << "': " << std::strerror(errno) << std::endl;
    return 1;
  }
  struct sigaction action = {}, oldInt = {}, oldTerm = {}, oldHup = {};
  action.sa_handler = passOn;
  action.sa_flags = SA_RESTART;
  asked = 0;
  sigaction(SIGINT, &action, &oldInt);
  sigaction(SIGTERM, &action, &oldTerm);
  sigaction(SIGHUP, nullptr, &oldHup);
  if (oldHup.sa_handler != SIG_IGN) // nohup ignores SIGHUP, which is kept
    sigaction(SIGHUP, &action, nullptr);
  std::optional<LauncherFolder> folder;
  if (!direct && request.launcher == "mpirun")
    folder.emplace();
  Ending ending = execute(words);
  for (int restart = 1; ending.lost; ++restart) {
    std::cerr << "error: a rank was lost: signal " << ending.code - 128 << " (" << strsignal(ending.code - 128)
              << ") ended it";
    if (restart > restarts) {
      std::cerr << (restarts > 0 ? "; no restarts are left" : "; --restarts K goes on from the last checkpoint")
                << std::endl;
      break;
    }
    std::cerr << "; restart " << restart << " of " << restarts << " with --resume" << std::endl;
    if (!has(words, "--resume"))
      words.push_back("--resume");
    ending = execute(words);
  }
  sigaction(SIGINT, &oldInt, nullptr);
  sigaction(SIGTERM, &oldTerm, nullptr);
  sigaction(SIGHUP, &oldHup, nullptr);
  if (ending.code == 1 && request.launcher == "mpirun" && !direct)
    std::cerr << "divisi run: exit code 1; if the program has not said why, mpirun does without --quiet" << std::endl;
  return ending.code;
}
