#include "runtime/devices/cuda/Device.h"
#include "runtime/devices/cuda/Gpu.h"
#include "runtime/devices/cuda/Survey.h"

#include <chrono>
#include <climits>
#include <cstdlib>
#include <future>
#include <iostream>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
// Values of the driver's enumerations (cuda.h).
constexpr int errorLog = 5, errorLogBytes = 6;

constexpr std::chrono::seconds longestAbort{5};

/// What cuBLASLt and cuDNN load and allocate, and what a communicator of NCCL does: rough figures, of what NVIDIA's
/// libraries have been seen to take.
constexpr uint64_t memoryOfLibraries = uint64_t(384) << 20, memoryOfCommunicator = uint64_t(128) << 20;

std::string inMiB(uint64_t bytes) { return concat((bytes + (1 << 20) - 1) >> 20, " MiB"); }
} // namespace

Gpu::Gpu(const DivisiProgram &program, uint64_t arenaBytes, const GpuPlace &where, bool &found) {
  int count = 0, device = 0;
  driver.check(driver.init(0), "start the NVIDIA driver");
  driver.check(driver.deviceCount(&count), "count GPUs");
  if (count == 0)
    throw std::runtime_error("the NVIDIA driver knows no GPU");
  driver.check(driver.device(&device, where.local % count), "open a GPU");
  driver.check(driver.deviceUuid(&uuid, device), "name a GPU");
  char text[256] = "";
  driver.check(driver.deviceName(text, sizeof text - 1, device), "name a GPU");
  name_ = text;
  driver.check(driver.retainContext(&context, device), "use a GPU");
  driver.check(driver.setContext(context), "use a GPU");
  driver.check(driver.createStream(&stream, nonBlocking), "create a stream");
  ring.emplace(driver, stream, [this](Event event) { awaitEvent(event); });
  const DivisiDeviceCode &code = codeFor(program, device);
  found = true;
  load(code);
  checkMemory(arenaBytes + program.constant_bytes + where.inputBytes, where.communicators);
  arenaBytes_ = arenaBytes;
  memory.emplace(driver, arenaBytes, concat("allocate the arena of ", arenaBytes, " bytes").c_str());
  constant.emplace(driver, program.constant_bytes, "allocate the constants");
  driver.check(driver.clear(addressOf(memory->data()), 0, arenaBytes, stream), "clear the arena");
  if (program.constant_bytes)
    driver.check(driver.toDevice(addressOf(constant->data()), program.constants, program.constant_bytes, stream),
                 "write the constants");
}

Gpu::~Gpu() {
  driver.synchronize(stream);
  destroyGraphs();
  nccl.reset();
  blas.reset();
  dnn.reset();
  attending.reset();
  if (module)
    driver.unloadModule(module);
  ring.reset();
  inputs.reset();
  driver.destroyStream(stream);
}

void Gpu::placeInputs(const std::vector<Place> &places) {
  if (!places.empty())
    inputs.emplace(driver, stream, arena(), places);
}

const std::vector<char *> &Gpu::awaitInputs() {
  static const std::vector<char *> none;
  if (!inputs)
    return none;
  if (Event sent = inputs->sentBefore())
    awaitEvent(sent);
  return inputs->memory();
}

void Gpu::sendInputs() {
  if (inputs)
    inputs->send();
}

void Gpu::takeInputs() {
  if (inputs)
    inputs->take();
}

/// NCCL aborts a communicator when no graph holds its collectives. Should this not end, the process does.
void Gpu::abandon() noexcept {
  if (!nccl)
    return;
  try {
    std::promise<void> aborted;
    std::future<void> done = aborted.get_future();
    std::thread([this, aborted = std::move(aborted)]() mutable {
      driver.setContext(context);
      destroyGraphs();
      nccl->abort();
      aborted.set_value();
    }).detach();
    done.wait_for(longestAbort);
  } catch (const std::system_error &) { // no thread
  }
}

void Gpu::rehearse(const std::function<void()> &calls) {
  rehearsing = true;
  calls();
  rehearsing = false;
  if (nccl)
    nccl->reserve();
  wait();
  driver.check(driver.clear(addressOf(arena()), 0, arenaBytes_, stream), "clear the arena");
  wait();
}

void Gpu::setRecorder(Recorder *to) {
  recorder = to;
  if (recorder)
    recorder->mark = [this] { return marks.add(stream); };
  if (nccl)
    nccl->setRecorder(to, &marks);
}

void Gpu::finishRecording() {
  if (nccl)
    nccl->wait();
  if (recorder)
    recorder->resolve(marks.take());
}

Exchange *Gpu::connect(Communicator &ranks, const Traffic &traffic, Exchange &byHost, std::string &obstacle) {
  std::unique_ptr<NcclFunctions> functions;
  try {
    functions = std::make_unique<NcclFunctions>();
  } catch (const std::runtime_error &missing) {
    obstacle = missing.what();
  }
  // Ranks that are configured as if on different hosts may share a GPU.
  bool shared = knowsSharedGpu(ranks) && !std::getenv("NCCL_HOSTID");
  Result<int64_t> worst = ranks.maximum(!functions ? 2 : shared ? 1 : 0);
  if (!worst.ok())
    throw std::runtime_error(worst.status().message());
  if (*worst > 0 && obstacle.empty())
    obstacle = *worst == 1 ? "several ranks share a GPU: start one rank for each GPU, and let the launcher set LOCAL_RANK "
                             "where host names do not tell which ranks are on one host"
                           : "another rank has no NCCL";
  if (*worst > 0)
    return nullptr;
  nccl.emplace(driver, context, std::move(functions), stream, ranks, byHost);
  nccl->connect(traffic, [this] { keepFromRecording(); });
  nccl->setRecorder(recorder, &marks);
  return &*nccl;
}

void Gpu::run(const TaskKey &key, const std::function<bool()> &task) {
  auto [it, fresh] = recordings.try_emplace(key);
  Recording &recording = it->second;
  // In the first run libraries choose their algorithms and allocate memory, and it turns out whether the task can be
  // recorded.
  if (fresh || !recording.possible) {
    running = &recording;
    task();
    running = nullptr;
  } else {
    if (!recording.graph)
      recording.graph = record(task);
    if (recording.graph)
      driver.check(driver.launchGraph(recording.graph, stream), "launch a graph");
  }
}

void Gpu::launch(const DivisiKernel &kernel, void *const *buffers) {
  auto [it, fresh] = functions.try_emplace(&kernel, nullptr);
  if (fresh) {
    driver.check(driver.findFunction(&it->second, module, kernel.name), kernel.name);
    if (driver.loadFunction)
      driver.check(driver.loadFunction(it->second), kernel.name);
  }
  if (rehearsing)
    return;
  if (kernel.blocks > INT_MAX)
    throw std::runtime_error("has too many elements for one launch");
  arguments.clear();
  for (int64_t i = 0; i < kernel.buffer_count; ++i)
    arguments.push_back(const_cast<void **>(buffers + i));
  driver.check(driver.launch(it->second, static_cast<unsigned>(kernel.blocks), 1, 1,
                             static_cast<unsigned>(kernel.threads), 1, 1, 0, stream, arguments.data(), nullptr),
               "launch");
}

void Gpu::copy(const DivisiCopy &params, void *const *buffers) {
  if (rehearsing)
    return;
  driver.check(
      driver.onDevice(addressOf(buffers[1]), addressOf(buffers[0]), static_cast<size_t>(params.bytes), stream),
      "copy on the GPU");
}

void Gpu::destroyGraphs() {
  for (auto &[key, recording] : recordings)
    if (recording.graph)
      driver.destroyGraphExec(std::exchange(recording.graph, nullptr));
}

const DivisiDeviceCode &Gpu::codeFor(const DivisiProgram &program, int device) {
  int major = 0, minor = 0;
  driver.check(driver.deviceAttribute(&major, capabilityMajor, device), "ask a GPU");
  driver.check(driver.deviceAttribute(&minor, capabilityMinor, device), "ask a GPU");
  const DivisiDeviceCode *best = nullptr;
  int64_t least = INT_MAX;
  for (uint64_t i = 0; i < program.device_code_count; ++i) {
    const DivisiDeviceCode &code = program.device_code[i];
    least = std::min(least, code.architecture);
    if (code.architecture <= 10 * major + minor && (!best || code.architecture > best->architecture))
      best = &code;
  }
  if (!best)
    throw std::runtime_error(concat("the ", name_, " has compute capability ", major, ".", minor,
                                    ", but this program has code for ", least / 10, ".", least % 10, " and later"));
  return *best;
}

void Gpu::checkMemory(uint64_t bytes, size_t communicators) const {
  size_t free = 0, total = 0;
  driver.check(driver.memoryInfo(&free, &total), "ask for a GPU's memory");
  uint64_t reserve = memoryOfLibraries + communicators * memoryOfCommunicator, needed = bytes + reserve;
  if (needed < bytes || needed > free)
    throw std::runtime_error(concat("too little memory: the program needs ", inMiB(bytes), " and libraries about ",
                                    inMiB(reserve), ", but ", inMiB(free), " of ", inMiB(total), " are free: ",
                                    inMiB(needed - free), " are missing (a smaller batch, --accumulate or --remat need less)"));
}

void Gpu::load(const DivisiDeviceCode &code) {
  std::vector<char> log(8192, 0);
  int options[] = {errorLog, errorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
  if (int status = driver.loadModule(&module, code.text, 2, options, values); status != 0) {
    module = nullptr;
    driver.check(status, concat("load the kernels: ", log.data()).c_str());
  }
}

void Gpu::read(const char *from, char *to, size_t bytes) {
  if (nccl)
    wait(); // a copy to memory that is not pinned blocks without checking the other ranks
  driver.check(driver.toHost(to, addressOf(from), bytes, stream), "read from the GPU");
  wait();
}

void Gpu::onThisProcessor(void *const *buffers, const std::vector<size_t> &sizes, size_t inputs, size_t firstOutput,
                     const std::function<void(DivisiContext *, void *const *)> &compute) {
  if (rehearsing)
    return;
  keepFromRecording();
  std::vector<std::vector<char>> memory;
  std::vector<void *> host;
  for (size_t i = 0; i < sizes.size(); ++i) {
    memory.emplace_back(sizes[i]);
    host.push_back(memory.back().data());
    if (i < inputs && sizes[i] > 0)
      read(static_cast<const char *>(buffers[i]), memory.back().data(), sizes[i]);
  }
  compute(&cpu, host.data());
  if (cpu.failed())
    throw std::runtime_error(cpu.error.message());
  for (size_t i = firstOutput; i < sizes.size(); ++i)
    driver.check(driver.toDevice(addressOf(buffers[i]), host[i], sizes[i], stream), "write to the GPU");
  wait();
}

void Gpu::waitFor(const std::function<int()> &query, const std::function<int()> &block) {
  if (nccl)
    nccl->wait(query);
  else
    driver.check(block(), "finish what the GPU computes");
}

bool Gpu::knowsSharedGpu(Communicator &ranks) const {
  Result<std::vector<std::string>> all = ranks.gather({uuid.bytes, sizeof uuid.bytes});
  if (!all.ok())
    throw std::runtime_error(all.status().message());
  return std::set<std::string>(all->begin(), all->end()).size() != all->size();
}

GraphExec Gpu::record(const std::function<bool()> &task) {
  driver.check(driver.beginCapture(stream, captureThreadLocal), "record a graph");
  bool complete = task();
  Graph graph = nullptr;
  int code = driver.endCapture(stream, &graph);
  GraphExec made = nullptr;
  if (code == 0 && complete)
    code = driver.instantiate(&made, graph, 0);
  if (graph)
    driver.destroyGraph(graph);
  if (complete)
    driver.check(code, "record a graph");
  return made;
}

Accelerator *divisi_cuda_open(const DivisiProgram &program, uint64_t arenaBytes, const GpuPlace &where, bool *found,
                              Status *error) {
  *found = false;
  try {
    return new Gpu(program, arenaBytes, where, *found);
  } catch (const std::runtime_error &problem) {
    *error = failure(*found ? "the GPU cannot be used: " : "no GPU: ", problem.what());
    return nullptr;
  }
}

void divisi_cuda_describe(std::string *text) {
  Survey found = cuda::survey();
  *text += concat("\nlibraries for GPUs\n  ", found.driver.empty() ? "" : concat("NVIDIA driver of CUDA ", found.driver, "\n  "),
                  found.problem.empty() ? found.gpus.front().name : concat("no GPU: ", found.problem), "\n");
  for (const LibraryInfo &library : found.libraries)
    *text += concat("  ", library.text(), "\n");
}
