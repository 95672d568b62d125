//===- Gpu.h - the accelerator of NVIDIA GPUs -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_GPU_H
#define DIVISI_RUNTIME_DEVICES_CUDA_GPU_H

#include "runtime/core/Accelerator.h"
#include "runtime/core/Context.h"
#include "runtime/devices/cuda/Attention.h"
#include "runtime/devices/cuda/Blas.h"
#include "runtime/devices/cuda/Device.h"
#include "runtime/devices/cuda/Dnn.h"
#include "runtime/devices/cuda/Inputs.h"
#include "runtime/devices/cuda/Marks.h"
#include "runtime/devices/cuda/Nccl.h"
#include "runtime/devices/cuda/PinnedRing.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace divisi::runtime::cuda {

/// One GPU, whose work is on one stream besides those of inputs and of NCCL. Each library call of the ABI is a method in a file of its
/// own (Gemm.cpp, Conv.cpp, ...).
class Gpu : public Accelerator {
public:
  /// `found` is set when there is a GPU for which the program has code.
  Gpu(const DivisiProgram &program, uint64_t arenaBytes, const GpuPlace &where, bool &found);
  ~Gpu() override;

  std::string name() const override { return name_; }
  char *arena() const override { return memory->data(); }
  const char *constants() const override { return constant->data(); }

  void upload(uint64_t offset, const char *from, size_t bytes) override { ring->copy(addressOf(arena() + offset), from, bytes); }
  void download(uint64_t offset, char *to, size_t bytes) override { read(arena() + offset, to, bytes); }
  void wait() override {
    waitFor([this] { return driver.query(stream); }, [this] { return driver.synchronize(stream); });
  }
  void placeInputs(const std::vector<Place> &places) override;
  const std::vector<char *> &awaitInputs() override;
  void sendInputs() override;
  void takeInputs() override;
  void abandon() noexcept override;
  void rehearse(const std::function<void()> &calls) override;
  void setRecorder(Recorder *to) override;
  void finishRecording() override;
  Exchange *connect(Communicator &ranks, const Traffic &traffic, Exchange &byHost, std::string &obstacle) override;
  void run(const TaskKey &key, const std::function<bool()> &task) override;
  void keepFromRecording() override {
    if (running)
      running->possible = false;
  }

  void launch(const DivisiKernel &kernel, void *const *buffers) override;
#define DIVISI_METHOD(name, Block) void name(const Block &params, void *const *buffers) override;
  DIVISI_CALLS(DIVISI_METHOD)
#undef DIVISI_METHOD

private:
  /// The state of a task that has run.
  struct Recording {
    bool possible = true;
    GraphExec graph = nullptr; ///< null: not yet
  };

  const DivisiDeviceCode &codeFor(const DivisiProgram &program, int device);
  /// Throws std::runtime_error if the GPU has too little free memory for the program and for what libraries allocate
  /// later.
  void checkMemory(uint64_t bytes, size_t communicators) const;
  void load(const DivisiDeviceCode &code);
  void read(const char *from, char *to, size_t bytes);
  void awaitEvent(Event event) {
    waitFor([&] { return driver.queryEvent(event); }, [&] { return driver.waitForEvent(event); });
  }
  /// Waits; with several ranks it checks the others meanwhile.
  void waitFor(const std::function<int()> &query, const std::function<int()> &block);
  /// Whether several ranks use the same GPU; only rank 0 knows the result.
  bool knowsSharedGpu(Communicator &ranks) const;
  /// Records the work that a task launches; null if the task failed.
  GraphExec record(const std::function<bool()> &task);
  void destroyGraphs();

  /// Computes on this processor what the GPU's libraries lack: copies the first `inputs` buffers here, and those from
  /// `firstOutput` on back.
  void onThisProcessor(void *const *buffers, const std::vector<size_t> &sizes, size_t inputs, size_t firstOutput,
                       const std::function<void(DivisiContext *, void *const *)> &compute);
  Blas &products();
  /// A matmul by cuBLASLt and what follows it on this processor: for an epilogue without an algorithm.
  void epilogueByParts(const DivisiGemmEpilogue &p, void *const *buffers);
  void convolve(ConvKind kind, const DivisiConv &params, void *const *buffers);
  void attend(AttentionKind kind, const DivisiAttention &params, void *const *buffers);

  Driver driver;
  std::string name_;
  uint64_t arenaBytes_ = 0;
  DriverContext context = nullptr;
  Stream stream = nullptr;
  Module module = nullptr;
  std::optional<Memory> memory, constant;
  Uuid uuid = {};
  std::optional<PinnedRing> ring;
  std::optional<Inputs> inputs; ///< null: this rank has none
  Marks marks{driver};
  Recorder *recorder = nullptr; ///< not owned
  std::optional<Nccl> nccl;     ///< if there are several GPUs
  std::optional<Blas> blas;
  std::optional<Dnn> dnn;
  std::optional<Attention> attending;
  std::map<const DivisiKernel *, Function> functions;
  std::vector<void *> arguments;
  bool rehearsing = false;
  std::map<TaskKey, Recording> recordings;
  bool warned = false;          ///< of an epilogue without an algorithm
  Recording *running = nullptr; ///< of the current task, if it runs without being recorded
  DivisiContext cpu{configureThreads(0)};
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_GPU_H
