//===- Accelerator.h - a device with memory of its own ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_ACCELERATOR_H
#define DIVISI_RUNTIME_CORE_ACCELERATOR_H

#include "divisi/abi.h"
#include "runtime/core/Routes.h"

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

/// A device that computes the services of a program, in order and asynchronously. It has the program's arena and
/// constants in its own memory; buffers are addresses there. Methods throw std::runtime_error.
class Accelerator {
public:
  virtual ~Accelerator() = default;
  Accelerator(const Accelerator &) = delete;
  Accelerator &operator=(const Accelerator &) = delete;

  /// The manufacturer's name: NVIDIA H200.
  virtual std::string name() const = 0;
  virtual char *arena() const = 0;
  virtual const char *constants() const = 0;

  /// Writes into the arena after all earlier work; `from` may be changed immediately.
  virtual void upload(uint64_t offset, const char *from, size_t bytes) = 0;
  /// Reads from the arena; returns when the data has arrived.
  virtual void download(uint64_t offset, char *to, size_t bytes) = 0;
  /// Returns when all work is complete; reports its failures.
  virtual void wait() = 0;

  /// A part of the arena.
  struct Place {
    uint64_t offset;
    size_t bytes;
  };
  /// Called once, before `rehearse`, with the places of all inputs.
  virtual void placeInputs(const std::vector<Place> &inputs) = 0;
  /// Memory of this processor for each input, where the next batch is written, when earlier batches are no longer needed there.
  virtual const std::vector<char *> &awaitInputs() = 0;
  /// Begins to copy it to the device, beside other work. It must not be changed any more.
  virtual void sendInputs() = 0;
  /// Writes what was sent last into the arena, after all earlier work.
  virtual void takeInputs() = 0;

  /// Identifies the calls of a task: its number, the offset of its buffer slot, and the bits of DivisiWhen for what is
  /// computed on demand.
  struct TaskKey {
    int64_t task, slot;
    uint32_t wants;
    auto operator<=>(const TaskKey &) const = default;
  };
  /// Runs a task whose calls depend only on its key: they may be recorded and replayed without calling it. The task
  /// returns whether it made all its calls.
  virtual void run(const TaskKey &, const std::function<bool()> &task) { task(); }
  /// The current task does something that a recording cannot replay, such as exchanging data with this processor.
  virtual void keepFromRecording() {}

  /// Sets marks for calls from now on; null: none.
  virtual void setRecorder(Recorder *) {}
  /// Passes the times of its marks to the recorder when all work is complete.
  virtual void finishRecording() {}

  /// Called once, before states are written. What waits for all other work of the device, or allocates memory, when
  /// something is used for the first time, is done now: later it could wait for another rank that waits for this one.
  /// `calls` makes the calls of all tasks, on an arena of zeros, which it is afterwards, too.
  virtual void rehearse(const std::function<void()> &calls) { (void)calls; }

  /// The run has failed: aborts work in which other ranks take part, so that nothing waits for them. No other calls may
  /// follow.
  virtual void abandon() noexcept {}

  /// The communication of a program: collectives over axes of the mesh, and the routes of all ranks. Ids from `freeId`
  /// on are unused.
  struct Traffic {
    std::set<std::vector<int64_t>> axes;
    std::vector<Route> routes;
    int64_t freeId = 0;
    double patience = 300; ///< seconds until a rank must have connected its device
  };
  /// Called by all ranks together, if all have accelerators. Returns what runs collectives and messages without the
  /// hosts' memory; it uses `byHost` for those that it does not support. Null, with the obstacle, if there is one.
  virtual Exchange *connect(Communicator &ranks, const Traffic &traffic, Exchange &byHost, std::string &obstacle) {
    (void)ranks, (void)traffic, (void)byHost, (void)obstacle;
    return nullptr;
  }

  virtual void launch(const DivisiKernel &kernel, void *const *buffers) = 0;
  /// A method for each library call: gemm for divisi_gemm.
#define DIVISI_METHOD(name, Block) virtual void name(const Block &params, void *const *buffers) = 0;
  DIVISI_CALLS(DIVISI_METHOD)
#undef DIVISI_METHOD

protected:
  Accelerator() = default;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_ACCELERATOR_H
