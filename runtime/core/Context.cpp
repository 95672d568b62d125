#include "runtime/core/Context.h"
#include "runtime/core/Cores.h"
#include "runtime/core/Team.h"

#include <cstdlib>

int divisi::runtime::configureThreads(int threads) {
  if (threads < 1)
    threads = std::getenv("OMP_NUM_THREADS") ? divisi_team_size() : coresAllowed();
  divisi_team_set_size(threads); // teams are no smaller on a busy machine then
  const int granted = divisi_team_granted(threads);
  if (granted < threads) // OpenBLAS never returns if its team is smaller than it was told
    divisi_team_set_size(granted);
  return granted;
}

int32_t divisi_wants(DivisiContext *context, int32_t when) {
  bool wanted = (context->wants & static_cast<uint32_t>(when)) != 0;
  if (wanted && context->ranges)
    context->ranges->expectUnlisted();
  return wanted ? 1 : 0;
}
