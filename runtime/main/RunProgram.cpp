#include "runtime/main/RunProgram.h"
#include "runtime/comm/Heartbeat.h"
#include "runtime/comm/LocalTransport.h"
#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/core/MappedFile.h"
#include "runtime/core/StandardStreams.h"
#include "runtime/devices/cuda/Device.h"
#include "runtime/main/Describe.h"
#include "runtime/main/ExitCodes.h"
#include "runtime/main/JoinRanks.h"
#include "runtime/main/OneLine.h"
#include "runtime/main/Trainer.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <thread>

using namespace divisi::runtime;

namespace {
/// How a run has ended.
struct Ending {
  Status status;
  int code = 0;
  bool common = true;                        ///< whether all ranks end like this
  std::unique_ptr<Heartbeat> heartbeat = {}; ///< of ranks that end in failure, until this is reported
};

/// What a failed run still needs until its error is printed.
struct Training {
  std::optional<LocalHub> alone;
  std::unique_ptr<Trainer> trainer; ///< null: not begun, or complete

  /// The work of a GPU may never end, so that this is called after the error is printed.
  void abandon() {
    if (trainer)
      trainer->abandon();
    trainer.reset();
  }
};

/// The versions of the libraries for GPUs; empty without code for them.
std::string librariesText(const DivisiProgram &program) {
  std::string text;
  if (program.device_code_count > 0 && divisi_cuda_describe)
    divisi_cuda_describe(&text);
  return text;
}

Ending train(const DivisiProgram &program, Manifest manifest, Options options, Transport *ranks, Training &training) {
  training.trainer = std::make_unique<Trainer>(program, std::move(manifest), std::move(options), ranks);
  Result<int> code = training.trainer->run();
  if (!code.ok())
    return {code.status(), 0, training.trainer->endsEverywhere()};
  training.trainer.reset();
  return {{}, *code};
}

Ending run(const DivisiProgram &program, int argc, const char *const *argv, Transport *ranks, Training &training) {
  bool first = !ranks || ranks->rank() == 0;
  Result<Manifest> manifest = parseManifest(program);
  if (!manifest.ok())
    return {manifest.status()};
  Result<std::optional<Options>> options = parseOptions(*manifest, argc, argv, first);
  if (!options.ok())
    return {options.status()};
  if (!*options)
    return {};
  if ((*options)->info || (*options)->describe) {
    if (first && !(*options)->describe && program.next)
      std::cout << concat("one of several programs: for ", manifest->ranks(),
                          manifest->ranks() == 1 ? " device\n" : " devices\n");
    if (first && (*options)->describe)
      std::cout << describeJson(*manifest) << std::endl;
    else if (first)
      std::cout << describeText(*manifest) << librariesText(program) << std::flush;
    return {};
  }
  if (Status status =
          checkRanks(program, manifest->ranks(), ranks ? ranks->size() : 1, argc > 0 ? argv[0] : "program");
      !status.ok())
    return {status};
  if (!ranks && !manifest->mesh.axes().empty())
    ranks = &training.alone.emplace(1).rank(0);
  manifest->localize(ranks ? ranks->rank() : 0);
  std::unique_ptr<Heartbeat> heartbeat;
  if (ranks && ranks->heartbeatTag() > 0) {
    Heartbeat::Limits limits;
    limits.timeout = (*options)->timeout;
    heartbeat = std::make_unique<Heartbeat>(*ranks, limits, [] { return StopSignals::received() != 0; });
  }
  Ending ending = train(program, std::move(*manifest), std::move(**options), ranks, training);
  if (heartbeat && ending.common)
    if (Status status = heartbeat->end(); !status.ok() && ending.status.ok())
      ending = {status, 0, false};
  ending.heartbeat = std::move(heartbeat);
  return ending;
}

Ending runSafely(const DivisiProgram &program, int argc, const char *const *argv, Transport *ranks,
                 Training &training) {
  try {
    return run(program, argc, argv, ranks, training);
  } catch (const std::bad_alloc &) {
    return {Status::failure("out of memory"), 0, false};
  } catch (const std::exception &e) {
    return {Status::failure(e.what()), 0, false};
  }
}
} // namespace

int divisi::runtime::runProgram(const DivisiProgram &program, int argc, const char *const *argv, Transport *ranks) {
  Training training;
  Ending ending = runSafely(program, argc, argv, ranks, training);
  bool lost = !std::cout.flush() || std::ferror(stdout) != 0; // output was lost
  if (ending.status.ok() && (!lost || ending.code != 0))
    return ending.code;
  if (ending.status.ok()) // the communication that other ranks wait for is complete
    ending = {failure("cannot write to the standard output"), 0, true};
  bool many = ranks && ranks->size() > 1;
  std::string message = ending.status.message();
  if (many && !ending.common && !message.starts_with("rank "))
    message = concat("rank ", ranks->rank(), ": ", message);
  if (!message.empty() && (!many || !ending.common || ranks->rank() == 0)) {
    std::cout.flush();
    std::cerr << concat("error: ", oneLine(message), "\n") << std::flush;
  }
  if (many && !ending.common) {
    const bool alone = !ranks->failed();
    ranks->fail(Status::failure(message));
    training.abandon();
    // A rank that a launcher ends because another one was lost is not at fault, and has not stopped in order.
    ending.code = StopSignals::isUrgent() ? 128 + SIGKILL : ending.status.exitCode();
    bool lost = ending.heartbeat && ending.heartbeat->hasLost();
    ending.heartbeat.reset();
    if ((lost || alone) && !StopSignals::isUrgent() && std::getenv(tellsFailures))
      ending.code = lost ? gaveUp : failedAlone;
    else if (!StopSignals::isUrgent() && std::getenv(outlivesLosses) && ranks->rank() != 0 && ranks->hasEnded(0))
      ending.code = leftBehind;
    if (lost)
      std::this_thread::sleep_for(std::chrono::seconds(1));
    ranks->terminate(ending.code);
    return ending.code;
  }
  training.abandon();
  return ending.status.exitCode();
}

int divisi::runtime::runProgram(const DivisiProgram &program, int argc, const char *const *argv) {
  occupyStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // a limit on the size of files is an error of the write
  explainBusErrors();
  // Help does not need the other ranks.
  if (std::any_of(argv, argv + argc, [](std::string_view word) { return word == "--help" || word == "-h"; }))
    return runProgram(program, argc, argv, nullptr);
  StopSignals signals(true);
  Result<Joined> joined = joinRanks(program, argc, argv);
  if (joined.ok()) {
    int code = runProgram(*joined->program, argc, argv, joined->ranks.get());
    // What is left of a GPU's libraries after a failure may wait for work that never ends.
    if (code != 0 && program.device_code_count > 0) {
      joined->ranks.reset();
      std::_Exit(code);
    }
    return code;
  }
  if (!joined.status().message().empty())
    std::cerr << concat("error: ", oneLine(joined.status().message()), "\n") << std::flush;
  return joined.status().isSilence() && std::getenv(tellsFailures) ? gaveUp : joined.status().exitCode();
}
