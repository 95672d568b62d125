#include "tools/divisi/Meeting.h"
#include "runtime/main/ExitCodes.h"
#include "tools/divisi/Processes.h"

#include <fcntl.h>

using namespace divisi;
using namespace divisi::tools;

void tools::becomeRank(const std::vector<std::string> &words, int64_t rank, const Meeting &where,
                       const runtime::Socket *listener) {
  auto set = [](const char *name, const std::string &value) { setenv(name, value.c_str(), 1); };
  for (const char *name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "LOCAL_WORLD_SIZE", "DIVISI_LISTENER",
                           runtime::outlivesLosses, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMIX_RANK"})
    unsetenv(name); // of a launcher that has started this process
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(where.ranks));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(where.port));
  set(runtime::tellsFailures, "1");
  if (where.outlives)
    set(runtime::outlivesLosses, "1");
  if (rank == 0) { // the port cannot be taken by others meanwhile
    set("DIVISI_LISTENER", std::to_string(listener->get()));
    fcntl(listener->get(), F_SETFD, 0);
  }
  replaceBy(words);
}
