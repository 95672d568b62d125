#include "runtime/comm/LocalRank.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

using namespace divisi::runtime;

Result<std::optional<int>> divisi::runtime::localRankOfLauncher() {
  for (const char *name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"}) {
    const char *value = std::getenv(name);
    // A batch script has a SLURM_LOCALID, too, which all processes inherit that it starts without srun.
    if (!value || (std::string_view(name) == "SLURM_LOCALID" && !std::getenv("SLURM_STEP_ID")))
      continue;
    std::string_view text = value;
    int number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0)
      return Status::usage(concat(name, " is '", printable(text), "', not this rank's number on its host"));
    return std::optional(number);
  }
  return std::optional<int>();
}
