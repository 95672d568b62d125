//===- Accelerator.h - a device with memory of its own ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_ACCELERATOR_H
#define DIVISI_RUNTIME_CORE_ACCELERATOR_H

#include "divisi/abi.h"

#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace divisi::runtime {

class Communicator;
class Exchange;
class Recorder;

enum class ConvKind { Forward, InputGrad, FilterGrad };
enum class AttentionKind { Forward, Gradient };

/// A device that computes the services of a program, in order, while the caller goes on. It has the program's arena and
/// constants in its own memory; buffers are addresses there. Methods throw std::runtime_error.
class Accelerator {
public:
  virtual ~Accelerator() = default;
  Accelerator(const Accelerator &) = delete;
  Accelerator &operator=(const Accelerator &) = delete;

  /// As its maker calls it: NVIDIA H200.
  virtual std::string name() const = 0;
  virtual char *arena() const = 0;
  virtual const char *constants() const = 0;

  /// Writes into the arena after all that was asked for before; `from` may be changed at once.
  virtual void upload(uint64_t offset, const char *from, size_t bytes) = 0;
  /// Reads from the arena, and returns when it is there.
  virtual void download(uint64_t offset, char *to, size_t bytes) = 0;
  /// Returns when all that was asked for is done; reports what failed meanwhile.
  virtual void wait() = 0;

  /// Which code a task is: its number, the offset of its slot, and the bits of DivisiWhen that are wanted.
  struct TaskKey {
    int64_t task, slot;
    uint32_t wants;
    auto operator<=>(const TaskKey &) const = default;
  };
  /// Runs a task, whose calls depend on its key alone: they may be recorded and repeated without calling it. The task
  /// says whether all its calls were made.
  virtual void run(const TaskKey &, const std::function<bool()> &task) { task(); }
  /// The task that runs does what a recording cannot repeat, as exchanging data with this processor.
  virtual void keepFromRecording() {}

  /// Sets marks for calls from now on; null for none.
  virtual void setRecorder(Recorder *) {}
  /// Tells the recorder the times of its marks, when all that was asked for is done.
  virtual void finishRecording() {}

  /// The run has failed: gives up what other ranks take part in, so that nothing waits for them. Only its end follows.
  virtual void abandon() noexcept {}

  /// What ranks exchange: collectives over axes of the mesh, and messages from a stage to another, of so many bytes at
  /// most. Numbers from `freeId` on are of no collective or transfer.
  struct Traffic {
    std::set<std::vector<int64_t>> axes;
    std::map<std::pair<int64_t, int64_t>, int64_t> messages;
    int64_t freeId = 0;
  };
  /// Called by all ranks together, which all have accelerators: what runs collectives and messages without the hosts'
  /// memory, and gives `byHost` what it does not have. Null, and the obstacle, if there is one.
  virtual Exchange *connect(Communicator &ranks, const Traffic &traffic, Exchange &byHost, std::string &obstacle) {
    (void)ranks, (void)traffic, (void)byHost, (void)obstacle;
    return nullptr;
  }

  virtual void launch(const DivisiKernel &kernel, void *const *buffers) = 0;
  virtual void copy(const DivisiCopy &params, void *const *buffers) = 0;
  virtual void gemm(const DivisiGemm &params, void *const *buffers) = 0;
  virtual void gemmEpilogue(const DivisiGemmEpilogue &params, void *const *buffers) = 0;
  virtual void conv(ConvKind kind, const DivisiConv &params, void *const *buffers) = 0;
  virtual void attention(AttentionKind kind, const DivisiAttention &params, void *const *buffers) = 0;
  virtual void topK(const DivisiTopK &params, void *const *buffers) = 0;

protected:
  Accelerator() = default;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_ACCELERATOR_H
