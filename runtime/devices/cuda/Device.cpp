#include "runtime/devices/cuda/Device.h"
#include "runtime/core/Context.h"
#include "runtime/core/DataType.h"
#include "runtime/devices/cpu/ConvDirect.h"
#include "runtime/devices/cuda/Blas.h"
#include "runtime/devices/cuda/Dnn.h"
#include "runtime/devices/cuda/Library.h"

#include <climits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
// Values of the driver's enumerations (cuda.h).
constexpr int capabilityMajor = 75, capabilityMinor = 76;
constexpr unsigned nonBlocking = 1;
constexpr int captureThreadLocal = 1;
constexpr int errorLog = 5, errorLogBytes = 6;

class Gpu : public Accelerator {
public:
  Gpu(const DivisiProgram &program, uint64_t arenaBytes, int local) {
    int count = 0, device = 0;
    driver.check(driver.init(0), "start the NVIDIA driver");
    driver.check(driver.deviceCount(&count), "count GPUs");
    if (count == 0)
      throw std::runtime_error("the NVIDIA driver knows no GPU");
    driver.check(driver.device(&device, local % count), "open a GPU");
    char text[256] = "";
    driver.check(driver.deviceName(text, sizeof text - 1, device), "name a GPU");
    name_ = text;
    DriverContext context;
    driver.check(driver.retainContext(&context, device), "use a GPU");
    driver.check(driver.setContext(context), "use a GPU");
    driver.check(driver.createStream(&stream, nonBlocking), "create a stream");
    load(program, device);
    memory.emplace(driver, arenaBytes, "allocate the arena");
    constant.emplace(driver, program.constant_bytes, "allocate the constants");
    driver.check(driver.clear(addressOf(memory->data()), 0, arenaBytes, stream), "clear the arena");
    if (program.constant_bytes)
      driver.check(driver.toDevice(addressOf(constant->data()), program.constants, program.constant_bytes, stream),
                   "write the constants");
  }

  ~Gpu() override {
    driver.synchronize(stream);
    for (auto &[key, graph] : graphs)
      if (graph)
        driver.destroyGraphExec(graph);
    blas.reset();
    dnn.reset();
    if (module)
      driver.unloadModule(module);
    driver.destroyStream(stream);
  }

  std::string name() const override { return name_; }
  char *arena() const override { return memory->data(); }
  const char *constants() const override { return constant->data(); }

  void upload(uint64_t offset, const char *from, size_t bytes) override {
    if (bytes)
      driver.check(driver.toDevice(addressOf(arena() + offset), from, bytes, stream), "write to the GPU");
  }
  void download(uint64_t offset, char *to, size_t bytes) override { read(arena() + offset, to, bytes); }
  void wait() override { driver.check(driver.synchronize(stream), "finish what the GPU computes"); }

  void run(const TaskKey &key, const std::function<void()> &task) override {
    auto [it, fresh] = graphs.try_emplace(key, nullptr);
    if (it->second)
      return driver.check(driver.launchGraph(it->second, stream), "launch a graph");
    // The first time, libraries choose their algorithms and allocate; then what they launch is recorded.
    if (fresh || uncapturable.count(key))
      return task();
    onHost = false;
    driver.check(driver.beginCapture(stream, captureThreadLocal), "record a graph");
    capturing = true;
    try {
      task();
    } catch (...) {
      abandonCapture();
      throw;
    }
    Graph graph = nullptr;
    capturing = false;
    int code = driver.endCapture(stream, &graph);
    if (onHost) { // part of it is computed elsewhere
      if (code == 0)
        driver.destroyGraph(graph);
      uncapturable.insert(key);
      return task();
    }
    driver.check(code, "record a graph");
    GraphExec made = nullptr;
    code = driver.instantiate(&made, graph, 0);
    driver.destroyGraph(graph);
    driver.check(code, "make a graph");
    it->second = made;
    driver.check(driver.launchGraph(made, stream), "launch a graph");
  }

  bool leavesRecording() override {
    onHost = true;
    return !capturing;
  }

  void launch(const DivisiKernel &kernel, void *const *buffers) override {
    auto [it, fresh] = functions.try_emplace(&kernel, nullptr);
    if (fresh)
      driver.check(driver.findFunction(&it->second, module, kernel.name), kernel.name);
    if (kernel.blocks > INT_MAX)
      throw std::runtime_error("has too many elements for one launch");
    arguments.clear();
    for (int64_t i = 0; i < kernel.buffer_count; ++i)
      arguments.push_back(const_cast<void **>(buffers + i));
    driver.check(driver.launch(it->second, static_cast<unsigned>(kernel.blocks), 1, 1,
                               static_cast<unsigned>(kernel.threads), 1, 1, 0, stream, arguments.data(), nullptr),
                 "launch");
  }

  void copy(const DivisiCopy &params, void *const *buffers) override {
    driver.check(
        driver.onDevice(addressOf(buffers[1]), addressOf(buffers[0]), static_cast<size_t>(params.bytes), stream),
        "copy on the GPU");
  }

  void gemm(const DivisiGemm &params, void *const *buffers) override {
    if (params.k == 0 && !params.accumulate && params.batch0 * params.batch1 * params.m * params.n > 0)
      throw std::runtime_error("a product without a common dimension");
    if (!blas)
      blas.emplace(driver, stream);
    blas->gemm(params, buffers);
  }

  void conv(ConvKind kind, const DivisiConv &params, void *const *buffers) override {
    if (Dnn::supports(params)) {
      if (!dnn)
        dnn.emplace(driver, stream);
      return dnn->conv(kind, params, buffers);
    }
    auto elements = [&](int64_t outer, int64_t channels, const int64_t *spatial) {
      for (int64_t d = 0; d < params.spatial; ++d)
        outer *= spatial[d];
      return static_cast<size_t>(outer * channels * widthOfType(params.type));
    };
    size_t x = elements(params.batch, params.in_channels, params.in);
    size_t y = elements(params.batch, params.out_channels, params.out);
    size_t w = elements(params.out_channels, params.in_channels / params.groups, params.kernel);
    std::vector<size_t> sizes = kind == ConvKind::Forward     ? std::vector{x, w, y}
                                : kind == ConvKind::InputGrad ? std::vector{y, w, x}
                                                              : std::vector{x, y, w};
    onThisProcessor(buffers, sizes, 2, [&](DivisiContext *cpu, void *const *host) {
      if (widthOfType(params.type) == 2)
        throw std::runtime_error("half precision with padding that differs between the sides is not supported on GPUs");
      convDirect(kind, params, host, cpu->threads);
    });
  }

  void topK(const DivisiTopK &params, void *const *buffers) override {
    auto runs = static_cast<size_t>(params.outer * params.inner), width = static_cast<size_t>(params.width);
    auto k = static_cast<size_t>(params.k);
    onThisProcessor(buffers, {runs * static_cast<size_t>(params.extent) * width, runs * k * width, runs * k * 8}, 1,
                    [&](DivisiContext *cpu, void *const *host) { divisi_top_k(cpu, &params, host); });
  }

private:
  void load(const DivisiProgram &program, int device) {
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
    std::vector<char> log(8192, 0);
    int options[] = {errorLog, errorLogBytes};
    void *values[] = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
    if (int code = driver.loadModule(&module, best->text, 2, options, values); code != 0) {
      module = nullptr;
      driver.check(code, concat("load the kernels: ", log.data()).c_str());
    }
  }

  void read(const char *from, char *to, size_t bytes) {
    driver.check(driver.toHost(to, addressOf(from), bytes, stream), "read from the GPU");
    wait();
  }

  /// What the GPU's libraries do not have: the first operands come here, the others go back.
  void onThisProcessor(void *const *buffers, const std::vector<size_t> &sizes, size_t inputs,
                       const std::function<void(DivisiContext *, void *const *)> &compute) {
    if (!leavesRecording())
      return;
    std::vector<std::vector<char>> memory;
    std::vector<void *> host;
    for (size_t i = 0; i < sizes.size(); ++i) {
      memory.emplace_back(sizes[i]);
      host.push_back(memory.back().data());
      if (i < inputs)
        read(static_cast<const char *>(buffers[i]), memory.back().data(), sizes[i]);
    }
    compute(&cpu, host.data());
    if (cpu.failed())
      throw std::runtime_error(cpu.error.message());
    for (size_t i = inputs; i < sizes.size(); ++i)
      driver.check(driver.toDevice(addressOf(buffers[i]), host[i], sizes[i], stream), "write to the GPU");
    wait();
  }

  void abandonCapture() {
    Graph graph = nullptr;
    capturing = false;
    if (driver.endCapture(stream, &graph) == 0 && graph)
      driver.destroyGraph(graph);
  }

  Driver driver;
  std::string name_;
  Stream stream = nullptr;
  Module module = nullptr;
  std::optional<Memory> memory, constant;
  std::optional<Blas> blas;
  std::optional<Dnn> dnn;
  std::map<const DivisiKernel *, Function> functions;
  std::vector<void *> arguments;
  std::map<TaskKey, GraphExec> graphs;
  std::set<TaskKey> uncapturable;
  bool capturing = false, onHost = false;
  DivisiContext cpu{configureThreads(0)};
};
} // namespace

Accelerator *divisi_cuda_open(const DivisiProgram &program, uint64_t arenaBytes, int local, Status *error) {
  try {
    return new Gpu(program, arenaBytes, local);
  } catch (const std::runtime_error &problem) {
    *error = failure("no GPU: ", problem.what());
    return nullptr;
  }
}
