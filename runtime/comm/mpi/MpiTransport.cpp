//===- MpiTransport.cpp - processes as ranks, by MPI ----------------------===//
#include "runtime/core/Cores.h"
#include "runtime/main/RunProgram.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <mpi.h>
#include <sched.h>
#include <vector>

using namespace divisi::runtime;

namespace {
std::string describe(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<size_t>(length)};
}

int rankIn(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
int sizeOf(MPI_Comm comm) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  return size;
}

/// The share of this rank in its host.
struct OnHost {
  int cores = 1; ///< that it may use, shared fairly with other ranks on the same cores
  int number = 0;
  int first = 0; ///< rank on the host
};

OnHost findHost(MPI_Comm comm) {
  MPI_Comm host;
  int first = rankIn(comm);
  if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) != MPI_SUCCESS)
    return {1, 0, first};
  int number = rankIn(host);
  MPI_Bcast(&first, 1, MPI_INT, 0, host);
  std::vector<int> mine(CPU_SETSIZE), claims(CPU_SETSIZE);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof(mask), &mask);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    mine[core] = CPU_ISSET(core, &mask) ? 1 : 0;
  MPI_Allreduce(mine.data(), claims.data(), CPU_SETSIZE, MPI_INT, MPI_SUM, host);
  int ranks = sizeOf(host);
  MPI_Comm_free(&host);
  double share = 1e-6;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    share += mine[core] ? 1.0 / claims[core] : 0;
  if (auto limit = coresOfGroups()) // for all ranks of the host, which are in the same group
    share = std::min(share, static_cast<double>(*limit) / ranks);
  return {std::max(1, static_cast<int>(share)), number, first};
}

/// The largest tag: at least 32767.
int64_t tagLimit(MPI_Comm comm) {
  void *value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &found);
  return found ? *static_cast<int *>(value) : 32767;
}

/// Long messages are sent in pieces whose sizes fit into an int; MPI keeps the order of messages between two ranks
/// under one tag. Only one thread at a time calls MPI.
class MpiTransport final : public Transport {
public:
  explicit MpiTransport(MPI_Comm comm)
      : Transport(rankIn(comm), sizeOf(comm)), comm(comm), host(findHost(comm)), hosts_(static_cast<size_t>(size())),
        tags(tagLimit(comm)) {
    check(MPI_Allgather(&host.first, 1, MPI_INT, hosts_.data(), 1, MPI_INT, comm));
  }
  ~MpiTransport() override {
    // After a failure the other ranks may be gone, and MPI_Finalize would not return.
    if (!failed())
      MPI_Finalize();
  }

  int cores() const override { return host.cores; }
  int local() const override { return host.number; }
  const std::vector<int> &hosts() const override { return hosts_; }
  void terminate(int exitCode) override { MPI_Abort(MPI_COMM_WORLD, exitCode); }

  using Transport::receive;
  using Transport::send;

  std::unique_ptr<Message> send(int to, int tag, const void *data, size_t bytes) override {
    auto message = std::make_unique<Tagged>(*this);
    startSend(to, tag, data, bytes, message->requests);
    return message;
  }
  std::unique_ptr<Message> receive(int from, int tag, void *data, size_t bytes) override {
    auto message = std::make_unique<Tagged>(*this);
    startReceive(from, tag, data, bytes, message->requests);
    return message;
  }
  int64_t largestTag() const override { return tags - 1; }
  int heartbeatTag() const override { return static_cast<int>(tags); }
  Turns *turns() override { return &turns_; }

protected:
  void startSend(int to, const void *data, size_t bytes) override { startSend(to, 0, data, bytes, requests); }
  void startReceive(int from, void *data, size_t bytes) override { startReceive(from, 0, data, bytes, requests); }
  bool poll() override {
    std::lock_guard lock(turns_);
    if (requests.empty())
      return true;
    int count = 0;
    done.resize(requests.size());
    if (check(
            MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count, done.data(), MPI_STATUSES_IGNORE)))
      std::erase(requests, MPI_REQUEST_NULL);
    return requests.empty();
  }
  void cancel() override {
    // Called only before all ranks end.
    std::lock_guard lock(turns_);
    requests.clear();
  }

private:
  /// Destroyed before it is complete only when all ranks end.
  struct Tagged final : Message {
    explicit Tagged(MpiTransport &owner) : owner(owner) {}
    ~Tagged() override {
      std::lock_guard lock(owner.turns_);
      for (MPI_Request &request : requests)
        if (request != MPI_REQUEST_NULL) {
          MPI_Cancel(&request);
          MPI_Request_free(&request);
        }
    }
    bool poll() override {
      std::lock_guard lock(owner.turns_);
      int complete = 0;
      return owner.check(
                 MPI_Testall(static_cast<int>(requests.size()), requests.data(), &complete, MPI_STATUSES_IGNORE)) &&
             complete;
    }

    MpiTransport &owner;
    std::vector<MPI_Request> requests;
  };

  void startSend(int to, int tag, const void *data, size_t bytes, std::vector<MPI_Request> &started) {
    std::lock_guard lock(turns_);
    inPieces(bytes, started, [&](size_t at, int count, MPI_Request *request) {
      return MPI_Isend(static_cast<const char *>(data) + at, count, MPI_BYTE, to, tag, comm, request);
    });
  }
  void startReceive(int from, int tag, void *data, size_t bytes, std::vector<MPI_Request> &started) {
    std::lock_guard lock(turns_);
    inPieces(bytes, started, [&](size_t at, int count, MPI_Request *request) {
      return MPI_Irecv(static_cast<char *>(data) + at, count, MPI_BYTE, from, tag, comm, request);
    });
  }
  template <typename Start> void inPieces(size_t bytes, std::vector<MPI_Request> &started, const Start &start) {
    constexpr size_t longest = size_t(1) << 30;
    for (size_t at = 0; at < bytes; at += longest) {
      MPI_Request request = MPI_REQUEST_NULL;
      if (!check(start(at, static_cast<int>(std::min(longest, bytes - at)), &request)))
        return;
      started.push_back(request);
    }
  }
  bool check(int code) {
    if (code != MPI_SUCCESS)
      note(failure("MPI: ", describe(code)));
    return code == MPI_SUCCESS;
  }

  MPI_Comm comm;
  OnHost host;
  std::vector<int> hosts_;
  int64_t tags;
  Turns turns_; ///< held during calls of MPI
  std::vector<MPI_Request> requests;
  std::vector<int> done;
};
} // namespace

/// Whether Slurm started the process without PMIx, the service by which ranks meet. Open MPI would end it with its own
/// message.
static bool isStartedWithoutPmix() {
#ifdef OPEN_MPI
  return std::getenv("SLURM_PROCID") && !std::getenv("PMIX_RANK") && !std::getenv("OMPI_COMM_WORLD_RANK");
#else
  return false;
#endif
}

Transport *divisi_transport_create(Status *error) {
  if (isStartedWithoutPmix()) {
    *error = Status::usage("Slurm has started this process without PMIx, by which the ranks of Open MPI meet: start it by "
                           "'srun --mpi=pmix', or by mpirun");
    return nullptr;
  }
  int provided = 0;
  if (int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided); code != MPI_SUCCESS) {
    *error = failure("MPI does not start: ", describe(code));
    return nullptr;
  }
  MPI_Comm comm = MPI_COMM_NULL;
  if (provided < MPI_THREAD_SERIALIZED)
    *error = failure("this MPI cannot be used by several threads");
  else if (int code = MPI_Comm_dup(MPI_COMM_WORLD, &comm); code != MPI_SUCCESS)
    *error = failure("MPI does not start: ", describe(code));
  if (!error->ok()) {
    MPI_Finalize();
    return nullptr;
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return new MpiTransport(comm);
}
