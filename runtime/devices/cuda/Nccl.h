//===- Nccl.h - collectives between GPUs by NCCL ----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_NCCL_H
#define DIVISI_RUNTIME_DEVICES_CUDA_NCCL_H

#include "runtime/comm/Communicator.h"
#include "runtime/devices/cuda/Marks.h"
#include "runtime/devices/cuda/Memory.h"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace divisi::runtime::cuda {

using NcclComm = struct ncclComm *;

/// NCCL's functions: what each is called here, its symbol without "nccl", and its arguments' types. All return a code.
#define DIVISI_NCCL(X)                                                                                                 \
  X(uniqueId, "ncclGetUniqueId", NcclId *)                                                                             \
  X(init, "ncclCommInitRank", NcclComm *, int, NcclId, int)                                                            \
  X(destroy, "ncclCommDestroy", NcclComm)                                                                              \
  X(abort, "ncclCommAbort", NcclComm)                                                                                  \
  X(asyncError, "ncclCommGetAsyncError", NcclComm, int *)                                                              \
  X(allReduce, "ncclAllReduce", const void *, void *, size_t, int, int, NcclComm, Stream)                              \
  X(allGather, "ncclAllGather", const void *, void *, size_t, int, NcclComm, Stream)                                   \
  X(reduceScatter, "ncclReduceScatter", const void *, void *, size_t, int, int, NcclComm, Stream)                      \
  X(send, "ncclSend", const void *, size_t, int, int, NcclComm, Stream)                                                \
  X(receive, "ncclRecv", void *, size_t, int, int, NcclComm, Stream)                                                   \
  X(groupStart, "ncclGroupStart")                                                                                      \
  X(groupEnd, "ncclGroupEnd")

/// ncclUniqueId.
struct NcclId {
  char bytes[128];
};

struct NcclFunctions {
#define DIVISI_NCCL_MEMBER(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
  DIVISI_NCCL(DIVISI_NCCL_MEMBER)
#undef DIVISI_NCCL_MEMBER
  const char *(*errorText)(int) = nullptr;
  const char *(*lastError)(NcclComm) = nullptr;

  /// Throws std::runtime_error if NCCL is missing.
  NcclFunctions();
  void check(int code, const std::string &what) const;
};

/// Collectives on a stream beside the one that computes: a collective begins when its operands are computed, and the
/// other stream waits for it where it is awaited. Messages between stages go by the hosts.
class Nccl : public Exchange {
public:
  Nccl(const Driver &driver, std::unique_ptr<NcclFunctions> functions, Stream compute, Communicator &ranks,
       Exchange &byHost);
  ~Nccl() override;

  /// All ranks call it together, first: a communicator for each set of axes of the mesh. Throws std::runtime_error, on
  /// all ranks unless it is one of them that NCCL cannot connect.
  void connect(const std::set<std::vector<int64_t>> &axes);

  Status start(const DivisiCollective *params, void *const *buffers) override;
  Status send(const DivisiTransfer &params, const void *data) override { return byHost.send(params, data); }
  Status receive(const DivisiTransfer &params, void *data) override { return byHost.receive(params, data); }
  Status await(int64_t id) override;

  /// Marks the times of collectives; null for nobody.
  void setRecorder(Recorder *to, Marks *on) {
    recorder = to;
    marks = on;
  }

  /// Returns when the query does not say notReady any more. Throws if it says an error, NCCL fails, another rank has
  /// ended, or hangs when this one must stop.
  void wait(const std::function<int()> &query);
  void wait(Stream stream) {
    wait([&] { return driver.query(stream); });
  }
  void wait() { wait(side); }
  /// Ends all collectives, whoever takes part in them. Only the end follows.
  void abort() noexcept;

private:
  struct Run;
  std::string prepare(const std::set<std::vector<int64_t>> &axes);
  void launch(const Collective &plan, const DivisiCollective &params, NcclComm comm, void *const *buffers);
  void copyBlocks(const Run &run);
  char *scratch(size_t bytes);
  void fail(const std::string &why);
  void note(int64_t number);

  const Driver &driver;
  std::unique_ptr<NcclFunctions> nccl;
  Stream compute, side = nullptr;
  Communicator &ranks;
  Exchange &byHost;
  std::map<std::vector<int64_t>, NcclComm> comms; ///< by axes; null for a group of one rank
  Recorder *recorder = nullptr;                   ///< not owned
  Marks *marks = nullptr;
  Event ready = nullptr;
  std::map<int64_t, Event> done;                 ///< by collective
  std::set<int64_t> open;                        ///< started and not awaited
  std::vector<std::unique_ptr<Memory>> memories; ///< the last one is used; recorded graphs use the others
  size_t memoryBytes = 0;
  std::unique_ptr<PinnedWords> word; ///< 1 + the number of the collective that is under way; 0: none is
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_NCCL_H
