#include "runtime/main/JoinRanks.h"
#include "divisi/suggest.h"
#include "runtime/comm/tcp/TcpTransport.h"
#include "runtime/core/Manifest.h"
#include "runtime/main/Options.h"
#include "runtime/main/RunProgram.h"

#include <algorithm>
#include <string_view>

using namespace divisi::runtime;

namespace {
/// The numbers of devices of the executable's programs.
Result<std::vector<int64_t>> numbersOf(const DivisiProgram &first) {
  std::vector<int64_t> numbers;
  for (const DivisiProgram *program = &first; program; program = program->next) {
    Result<Manifest> manifest = parseManifest(*program);
    if (!manifest.ok())
      return manifest.status();
    numbers.push_back(manifest->ranks());
  }
  return numbers;
}

/// "1 device", "2, 3 or 4 devices".
std::string devicesText(const std::vector<int64_t> &numbers) {
  return divisi::listed(numbers) + (numbers.back() == 1 ? " device" : " devices");
}

/// Checks that a program for one device was started alone: launchers tell how many processes they started.
Status checkAlone(const std::optional<Rendezvous> &where) {
  int64_t started = where ? where->size : 1, number = where ? where->rank : 0;
  if (const char *launched = std::getenv("OMPI_COMM_WORLD_SIZE")) {
    const char *rank = std::getenv("OMPI_COMM_WORLD_RANK");
    started = std::atoll(launched);
    number = rank ? std::atoll(rank) : 0;
  }
  if (started <= 1)
    return {};
  if (number > 0) // only one process reports it
    return Status::usage("");
  return Status::usage(concat("this program is for one device, but was started as ", started,
                              " processes: compile it with --devices ", started,
                              " (and --strategy data, if the search found that one device is faster), or "
                              "start it alone"));
}

/// Whether the arguments ask for a description of the program and not for a run.
bool describes(int argc, const char *const *argv) {
  return std::any_of(argv, argv + argc, [](std::string_view word) { return word == "--info" || word.starts_with("--describe"); });
}

Result<std::unique_ptr<Transport>> joinByMpi(const std::vector<int64_t> &numbers) {
  if (!divisi_transport_create)
    return failure("this program is for ", devicesText(numbers),
                   ", but was linked without the library for communication (libdivisi_mpi.a)");
  Status error;
  std::unique_ptr<Transport> ranks(divisi_transport_create(&error));
  if (!ranks)
    return error;
  return ranks;
}
} // namespace

Status divisi::runtime::checkRanks(const DivisiProgram &joined, int64_t devices, int64_t started, const char *name) {
  if (devices == started)
    return {};
  Result<std::vector<int64_t>> numbers = numbersOf(joined); // it is the first of them
  if (!numbers.ok())
    return numbers.status();
  return Status::usage(concat("this program is for ", devicesText(*numbers), ", but was started as ", started,
                              started == 1 ? " process" : " processes", ": start it with 'divisi run --devices ",
                              numbers->back(), " ", name, " ...' or 'mpirun -n ", numbers->back(), " ", name, " ...'"));
}

Result<Joined> divisi::runtime::joinRanks(const DivisiProgram &first, int argc, const char *const *argv) {
  Result<std::vector<int64_t>> numbers = numbersOf(first);
  if (!numbers.ok())
    return numbers.status();
  Result<std::optional<Rendezvous>> where = Rendezvous::fromEnvironment();
  if (!where.ok())
    return where.status();
  Joined joined{&first};
  const bool several = numbers->size() > 1;
  const bool needsRanks = several || numbers->front() > 1;
  // MPI takes some tenths of a second to start, which a description of the program can do without.
  if (!*where && needsRanks && (Rendezvous::isOverMpi() || (!several && !describes(argc, argv)))) {
    Result<std::unique_ptr<Transport>> ranks = joinByMpi(*numbers);
    if (!ranks.ok())
      return ranks.status();
    joined.ranks = std::move(*ranks);
  }
  int64_t started = *where ? (*where)->size : joined.ranks ? joined.ranks->size() : 1, devices = numbers->front();
  if (several)
    for (const DivisiProgram *program = &first; int64_t number : *numbers) {
      if (number == started) {
        joined.program = program;
        devices = number;
      }
      program = program->next;
    }
  if (*where && (several || devices > 1) && devices != started)
    return Status::usage(concat("rank ", (*where)->rank, ": this program is for ", devicesText(*numbers),
                                ", but was started as ", started, " processes (WORLD_SIZE)"));
  if (devices == 1 && !(several && joined.ranks)) {
    if (Status status = checkAlone(*where); !status.ok())
      return status;
    return joined;
  }
  if (devices == 1 && started == 1)
    joined.ranks.reset();
  if (*where) {
    Result<Manifest> manifest = parseManifest(*joined.program);
    Result<std::optional<Options>> options = parseOptions(*manifest, argc, argv, false);
    if (options.ok() && *options) // a rank with wrong flags reports it when all have met
      (*where)->patience = (*options)->timeout;
    Result<std::unique_ptr<Transport>> ranks = joinByTcp(**where);
    if (!ranks.ok())
      return ranks.status();
    joined.ranks = std::move(*ranks);
  }
  return joined;
}
