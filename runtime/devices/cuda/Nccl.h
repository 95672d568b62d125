//===- Nccl.h - collectives between GPUs by NCCL ----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_NCCL_H
#define DIVISI_RUNTIME_DEVICES_CUDA_NCCL_H

#include "runtime/comm/Communicator.h"
#include "runtime/core/Accelerator.h"
#include "runtime/devices/cuda/Messages.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace divisi::runtime::cuda {

/// Collectives on a stream beside the one that computes: a collective begins when its operands are computed, and the
/// other stream waits for it where it is awaited. Messages between stages have streams of their own.
class Nccl : public Exchange {
public:
  Nccl(const Driver &driver, std::unique_ptr<NcclFunctions> functions, Stream compute, Communicator &ranks,
       Exchange &byHost);
  ~Nccl() override;

  /// All ranks call it together, first: a communicator for each set of axes of the mesh, and for each two ranks in each
  /// direction of their messages. `keepFromRecording` is called where a task sends or receives. Throws
  /// std::runtime_error, on all ranks unless it is one of them that NCCL cannot connect.
  void connect(const Accelerator::Traffic &traffic, std::function<void()> keepFromRecording);

  Status start(const DivisiCollective *params, void *const *buffers) override;
  Status send(const DivisiTransfer &params, const void *data) override;
  Status receive(const DivisiTransfer &params, void *data) override;
  Status await(int64_t id) override;

  /// Marks the times of collectives; null for nobody.
  void setRecorder(Recorder *to, Marks *on) {
    recorder = to;
    marks = on;
    messages->setRecorder(to, on);
  }

  /// Returns when the query does not say notReady any more. Throws if it says an error, NCCL fails, another rank has
  /// ended, or hangs when this one must stop.
  void wait(const std::function<int()> &query);
  void wait(Stream stream) {
    wait([&] { return driver.query(stream); });
  }
  void wait();
  /// Ends all collectives, whoever takes part in them. Only the end follows.
  void abort() noexcept;

private:
  struct Run;
  using Group = std::vector<int>; ///< ranks
  std::vector<Group> groupsOf(const Accelerator::Traffic &traffic) const;
  std::string prepare(const std::vector<Group> &groups);
  std::vector<NcclComm *> communicators();
  Status named(int64_t id, const std::function<Status()> &call);
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
  std::optional<Messages> messages;
  std::function<void()> keepFromRecording;
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
