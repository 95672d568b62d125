#include "tools/divisi/RunFlags.h"
#include "runtime/main/FlagErrors.h"
#include "runtime/main/Options.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>

using namespace divisi;
using namespace divisi::tools;

int tools::usage(const std::string &message) {
  std::cerr << "error: " << message << std::endl;
  return 2;
}

bool tools::has(const std::vector<std::string> &words, const std::string &flag) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string &w) { return w == flag || w.rfind(flag + "=", 0) == 0; });
}

double tools::timeoutOf(const std::vector<std::string> &words) {
  double seconds = runtime::Options().timeout;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string text = words[i].rfind("--timeout=", 0) == 0 ? words[i].substr(words[i].find('=') + 1) : words[i] == "--timeout" && i + 1 < words.size() ? words[i + 1] : "";
    double value = std::strtod(text.c_str(), nullptr); // the program says what is wrong with it
    seconds = value > 0 ? value : seconds;
  }
  return seconds;
}

namespace {
/// The number in a variable; 0 without one.
int64_t numberIn(const char *variable) {
  const char *text = std::getenv(variable);
  return text ? std::atoll(text) : 0;
}

/// Whether Slurm, PBS, SGE or LSF has given this process several hosts, which mpirun finds by itself.
bool hasSeveralHosts() {
  std::set<std::string> hosts;
  for (const char *variable : {"PBS_NODEFILE", "PE_HOSTFILE"}) { // each line begins with the name of a host
    const char *name = std::getenv(variable);
    std::ifstream file(name ? name : "");
    for (std::string line; std::getline(file, line);)
      hosts.insert(line.substr(0, line.find(' ')));
  }
  const char *names = std::getenv("LSB_HOSTS");
  std::istringstream list(names ? names : "");
  hosts.insert(std::istream_iterator<std::string>(list), {});
  return hosts.size() > 1 || numberIn("SLURM_JOB_NUM_NODES") > 1;
}
} // namespace

std::string tools::defaultLauncher() { return hasSeveralHosts() ? "mpirun" : "local"; }

bool tools::isOneOfSeveral() {
  constexpr const char *sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  return std::any_of(std::begin(sizes), std::end(sizes), [](const char *size) { return numberIn(size) > 1; });
}

void tools::declareRun(CLI::App &app, RunRequest &request) {
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
         "--restarts", request.job.restarts,
         "how often to go on from the last checkpoint when a rank is lost (needs the program's --checkpoint); with "
         "--min-devices without limit by default")
      ->check(CLI::Range(0, 1000000));
  app.add_option(
         "--min-devices", request.job.least,
         "start the processes on this host, over TCP, and when ranks are lost go on from the last checkpoint "
         "with the most of the program's numbers of devices (divisi compile --devices 2,3,4) that are left, down "
         "to this one; with --sync async-server, local and gossip the others go on without workers that are lost")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max-devices", request.job.most, "the same, with at most N processes")
      ->check(CLI::Range(1, 4096));
  app.add_option("--grow-after", request.job.growAfter,
                 "seconds with fewer processes after which the job stops with a checkpoint and goes on with all again, "
                 "or another "
                 "worker joins in place of a lost one (default: it does not)")
      ->check(CLI::Range(1, 100000000));
  app.add_option("--launcher", request.launcher,
                 "what starts the processes: local (divisi run itself, on this host), mpirun or srun (default: local, "
                 "or mpirun in a job of several hosts of Slurm, PBS, SGE or LSF)")
      ->check(CLI::IsMember({"local", "mpirun", "srun"}));
  app.add_option("program", request.program, "the program and its own arguments")->type_name("PROGRAM [ARGUMENTS...]");
  app.prefix_command();
}

std::optional<int> tools::parseRun(int argc, const char *const *argv, RunRequest &request) {
  CLI::App app("Starts a program for many devices: one process for each.", "divisi run");
  declareRun(app, request);
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
  } catch (const CLI::CallForHelp &) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError &e) {
    // a flag that is unknown is the reason why another one seems to be missing
    auto unknown = app.remaining();
    return usage(unknown.empty() ? runtime::describeFlagError(app, e)
                                 : runtime::describeExtra(unknown[0], app, "divisi run"));
  }
  if (auto unknown = app.remaining(); !unknown.empty())
    return usage(runtime::describeExtra(unknown[0], app, "divisi run"));
  request.program.assign(argv + first, argv + argc);
  if (request.program.empty())
    return usage("name the program to run: divisi run PROGRAM [ARGUMENTS...]");
  return std::nullopt;
}

std::string tools::whyNotElastic(const RunRequest &request, const std::vector<int64_t> &compiled) {
  const bool byAnother = !request.launcher.empty() && request.launcher != "local";
  if (byAnother || isOneOfSeveral())
    return "--min-devices, --max-devices and --grow-after are for processes that divisi run starts itself, on this "
           "host: " +
           std::string(byAnother ? "leave out --launcher" : "start it without mpirun or srun") +
           ", whose jobs end when they lose a rank";
  if (request.devices != 0)
    return "--devices is a fixed number: leave it out, or --min-devices, --max-devices and --grow-after";
  if (request.job.least && request.job.most && *request.job.least > *request.job.most)
    return "--min-devices " + std::to_string(*request.job.least) + " is more than --max-devices " +
           std::to_string(*request.job.most);
  if (!has(request.program, "--checkpoint"))
    return "--min-devices, --max-devices and --grow-after need the program's --checkpoint DIR to go on from";
  if (compiled.empty())
    return "'" + request.program[0] + "' is no program that divisi compile has written";
  return "";
}
