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

/// Collectives on a stream beside the compute stream: a collective begins when its operands are computed, and the
/// compute stream waits for it where it is awaited. Messages between stages have their own streams.
class Nccl : public Exchange {
public:
  Nccl(const Driver &driver, DriverContext context, std::unique_ptr<NcclFunctions> functions, Stream compute, Communicator &ranks,
       Exchange &byHost);
  ~Nccl() override;

  /// Called first, by all ranks together: creates a communicator for each set of mesh axes, and for each direction of
  /// messages between two ranks (Traffic::routes). `keepFromRecording` is called when a task sends or receives. Throws
  /// std::runtime_error, on all ranks unless NCCL cannot connect some of them.
  void connect(const Accelerator::Traffic &traffic, std::function<void()> keepFromRecording);

  Status start(const DivisiCollective *params, void *const *buffers) override;
  Status send(const DivisiTransfer &params, const void *data) override;
  Status receive(const DivisiTransfer &params, void *data) override;
  Status await(int64_t id) override;
  Status rehearse(const DivisiCollective *params, void *const *buffers) override;
  void expect(const DivisiTransfer &params, int64_t times, int function) override {
    messages->expect(params, times, function);
  }
  /// Allocates memory for expected messages.
  void reserve() { messages->reserve(); }

  /// Marks the times of collectives; null: does not.
  void setRecorder(Recorder *to, Marks *on) {
    recorder = to;
    marks = on;
    messages->setRecorder(to, on);
  }

  /// Returns when the query no longer returns notReady. Throws if the query returns an error, if NCCL fails, if another
  /// rank has ended, or if it hangs when this one must stop.
  void wait(const std::function<int()> &query);
  void wait(Stream stream) {
    wait([&] { return driver.query(stream); });
  }
  void wait();
  /// Aborts all collectives; waits until no graph holds any of them. No other calls may follow.
  void abort() noexcept;

private:
  struct Run;
  using Group = std::vector<int>; ///< of ranks
  std::string prepare(const Accelerator::Traffic &traffic);
  std::vector<NcclComm *> communicators();
  Status named(int64_t id, const std::function<Status()> &call);
  void launch(const Collective &plan, const DivisiCollective &params, NcclComm comm, void *const *buffers);
  void copyBlocks(const Run &run);
  char *scratch(size_t bytes);
  void fail(const std::string &why);
  void note(int64_t number);

  NcclComm join(const Group &group, const NcclId &id, double patience);

  const Driver &driver;
  DriverContext context;
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
  std::vector<std::unique_ptr<Memory>> memories; ///< the last one is in use; recorded graphs use the others
  size_t memoryBytes = 0;
  std::unique_ptr<PinnedWords> word; ///< 1 + the number of the collective in progress; 0: none
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_NCCL_H
