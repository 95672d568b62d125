// Measures what this machine reaches, each core alone and all of them together.
#include "divisi/MeasureMachine.h"
#include "divisi/MeasuredTeam.h"
#include "runtime/core/Cores.h"
#include "runtime/devices/cpu/Blas.h"

#include "llvm/ADT/STLExtras.h"

#include <thread>

using namespace divisi;
using namespace divisi::tools;

/// All of them take less than two seconds.
static constexpr int rounds = 5;

std::optional<planning::Calibration> tools::measureMachine(int cores) {
  DivisiContext enough(2 * cores + 2); // OpenBLAS would wait for memory for ever: is there enough for it and the threads' own?
  runtime::prepareBlas(&enough);
  std::barrier start(cores), alone(1);
  std::vector<std::unique_ptr<MeasuredTeam>> teams;
  for (int core = 0; core < cores; ++core)
    teams.push_back(std::make_unique<MeasuredTeam>(1, cores, start));
  MeasuredTeam all(cores, 1, alone);
  for (int round = 0; round < rounds; ++round) {
    for (auto &team : teams)
      team->prepare();
    {
      std::vector<std::jthread> threads;
      for (auto [core, team] : llvm::enumerate(teams))
        threads.emplace_back([core, &team] {
          runtime::keepThreadOn((int)core);
          team->runRound();
        });
    }
    all.prepare();
    all.runRound();
  }
  bool calm = true;
  for (auto &team : teams) {
    team->finish();
    calm &= team->calm;
  }
  all.finish();
  if (!calm || !all.calm)
    return std::nullopt;
  return planning::Calibration{teams[0]->message, teams[0]->rates, all.rates, teams[0]->large};
}
