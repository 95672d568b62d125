// A driver for a fake GPU: libcuda.so.1 over this processor's memory. It checks the calls (launches that match their
// PTX, copies within allocations, no work outside of a stream's capture), logs them, and runs kernels if the program
// has a PROGRAM.kernels.so beside it, or, with DIVISI_FAKE_PTX, by interpreting its PTX. Errors are the driver's own
// codes.
#include "test/gpu/fake/Interpreted.h"
#include "test/gpu/fake/Log.h"
#include "test/gpu/fake/Worker.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {
constexpr int success = 0, invalidValue = 1, outOfMemory = 2, invalidImage = 200, invalidContext = 201, notFound = 500,
              notReady = 600, launchFailed = 719, captureUnsupported = 900, captureInvalid = 901, captureUnjoined = 904,
              captureIsolation = 905;

struct Function {
  std::string name;
  size_t parameters;
  unsigned threads; // at most, by the PTX
  bool loaded = false;
  std::shared_ptr<Interpreted> code = {};
};
struct Module {
  std::map<std::string, Function> functions;
};
struct Stream;
struct Graph {
  std::vector<Work> work;
  std::map<Stream *, size_t> joined = {}; // by stream: how much of it the first one awaited
};
struct Stream {
  bool stuck = false; // the last work never ends
  std::shared_ptr<Worker> worker = {};
  Graph *capture = nullptr;
  size_t count = 0; // of work items
};
struct Event {
  std::chrono::steady_clock::time_point time = {};
  bool timed = true;
  Stream *stream = nullptr;
  Graph *capture = nullptr;
  size_t count = 0;
  std::shared_ptr<Worker> worker = {}; // of the stream, if it has one
  size_t ticket = 0;
  std::shared_ptr<std::chrono::steady_clock::time_point> later = {}; // when the worker reached it
};

std::map<uintptr_t, size_t> allocations;
std::set<uintptr_t> pinned; // those of the host's memory
bool stuckInGraph = false;
/// Queues of the GPU, and the streams that are in use, those of NCCL's communicators among them.
int queues = 0;
std::atomic<int> streams = 0;
std::set<Stream *> live;
/// Whether this thread has a context.
thread_local bool hasContext = false;

[[noreturn]] void waitForEver() {
  while (true)
    ::pause();
}

size_t totalMemory() {
  const char *text = std::getenv("DIVISI_FAKE_GPU_MEMORY");
  return text ? std::strtoull(text, nullptr, 10) : size_t(80) << 30;
}
size_t usedMemory(bool ofHost = false) {
  size_t used = 0;
  for (auto &[at, size] : allocations)
    used += pinned.contains(at) == ofHost ? size : 0;
  return used;
}

bool isWithin(uintptr_t address, size_t bytes) {
  auto it = allocations.upper_bound(address);
  if (it == allocations.begin())
    return false;
  --it;
  return address - it->first <= it->second && bytes <= it->second - (address - it->first);
}

/// Does the work now, or when the recorded graph runs.
int enqueue(Stream *stream, Work work) {
  ++stream->count;
  if (stream->stuck)
    return success;
  if (stream->capture)
    stream->capture->work.push_back(std::move(work));
  else if (stream->worker)
    stream->worker->give(std::move(work));
  else
    return work();
  return success;
}

/// Waits for the work of a stream, as copies of memory do that is not pinned.
int finish(Stream *stream) {
  if (!stream->worker)
    return success;
  stream->worker->waitForAll();
  return stream->worker->all();
}

/// DIVISI_FAKE_GPU_LATE names what begins late, "uploads" or "copies" on the GPU. All streams then run beside the host, so that
/// numbers are wrong where something does not wait for it.
const char *lateWork() {
  static const char *name = std::getenv("DIVISI_FAKE_GPU_LATE");
  return name;
}
void beLate(const char *kind) {
  if (lateWork() && std::strcmp(lateWork(), kind) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

/// What is used for the first time may wait for all work of the GPU, and with DIVISI_FAKE_GPU_WAITS it does. While a
/// stream is captured, it is refused.
int firstUse(const char *what) {
  record("first %s", what);
  for (Stream *stream : live)
    if (stream->capture)
      return captureUnsupported;
  if (!std::getenv("DIVISI_FAKE_GPU_WAITS"))
    return success;
  for (Stream *stream : live) {
    if (stream->stuck)
      waitForEver();
    if (stream->worker)
      stream->worker->waitForAll();
  }
  return success;
}

void *kernels() {
  static void *library = [] {
    char path[4096] = "";
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
      return (void *)nullptr;
    std::string file = std::string(path) + ".kernels.so";
    void *found = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!found && access(file.c_str(), F_OK) == 0) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::abort();
    }
    return found;
  }();
  return library;
}

/// Entries of PTX: `.entry NAME(` and its parameters, `.maxntid N`.
bool parse(const std::string &text, Module &module) {
  if (text.find(".version") == std::string::npos || text.find(".target sm_") == std::string::npos)
    return false;
  for (size_t at = 0; (at = text.find(".entry ", at)) != std::string::npos;) {
    at += 7;
    size_t open = text.find('(', at), close = text.find(')', at), body = text.find('{', at);
    if (close == std::string::npos || body == std::string::npos)
      return false;
    Function function{text.substr(at, open - at), 0, 0};
    for (size_t p = open; (p = text.find(".param", p)) < close; ++p)
      ++function.parameters;
    if (size_t most = text.find(".maxntid ", close); most < body)
      function.threads = (unsigned)std::stoul(text.substr(most + 9));
    module.functions[function.name] = function;
    at = body;
  }
  return true;
}

int run(const Function &function, const std::vector<void *> &buffers, unsigned blocks, unsigned threads) {
  if (function.code)
    return function.code->launch(function.name, blocks, threads, buffers, allocations) ? success : launchFailed;
  if (!kernels())
    return success;
  auto call = (void (*)(void *const *))dlsym(kernels(), (function.name + "_call").c_str());
  auto together = (const char *)dlsym(kernels(), (function.name + "_together").c_str());
  auto launch =
      (bool (*)(void (*)(void *const *), void *const *, int64_t, int64_t, bool))dlsym(kernels(), "emulated_launch");
  if (!call || !together || !launch)
    return notFound;
  return launch(call, buffers.data(), blocks, threads, *together) ? success : launchFailed;
}
} // namespace

#define API extern "C" __attribute__((visibility("default"))) int

/// More streams than queues are refused: the real driver lets work in one wait for unrelated work in another.
API fakeUseStreams(int more) {
  if (more > 0 && streams + more > queues) {
    std::fprintf(stderr, "fake driver: %d streams share %d queues\n", streams + more, queues);
    return invalidValue;
  }
  streams += more;
  return success;
}

API cuInit(unsigned) {
  const char *asked = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  queues = asked ? std::clamp(std::atoi(asked), 1, 32) : 8;
  return success;
}
API cuDriverGetVersion(int *version) {
  *version = driverVersion();
  return success;
}
API cuMemGetInfo_v2(size_t *free, size_t *total) {
  *total = totalMemory();
  *free = *total - std::min(*total, usedMemory());
  return success;
}
/// Attributes of two GPUs: 1 performance rank, 2 access, 3 native atomics (as over NVLink).
API cuDeviceGetP2PAttribute(int *value, int attribute, int from, int to) {
  *value = attribute == 1 ? 0 : 1;
  return from != to && attribute >= 1 && attribute <= 3 ? success : invalidValue;
}
API cuGetErrorName(int code, const char **text) {
  *text = code == outOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : code == notFound ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR";
  return success;
}
API cuGetErrorString(int code, const char **text) {
  *text = code == outOfMemory ? "out of memory" : "a fake driver refuses";
  return success;
}
API cuDeviceGetCount(int *count) {
  const char *text = std::getenv("DIVISI_FAKE_GPU_COUNT");
  *count = text ? std::atoi(text) : 1;
  return success;
}
API cuDeviceGet(int *device, int number) {
  record("open GPU %d", number);
  *device = number;
  return success;
}
API cuDeviceGetName(char *name, int size, int) {
  std::snprintf(name, (size_t)size, "%s", "emulated GPU");
  return success;
}
API cuDeviceGetUuid_v2(char *uuid, int device) {
  std::memset(uuid, 0, 16);
  std::snprintf(uuid, 16, "GPU %d", device);
  return success;
}
API cuDeviceGetAttribute(int *value, int attribute, int) {
  const char *text = std::getenv("DIVISI_FAKE_GPU_CAPABILITY");
  int capability = text ? std::atoi(text) : 90;
  // Of cuda.h: the rate of the clock and of that of the memory in kHz, and the number of multiprocessors.
  const std::map<int, int> known = {{13, 1980000}, {36, 2619000}, {16, 132}, {75, capability / 10}, {76, capability % 10}};
  auto it = known.find(attribute);
  *value = it == known.end() ? 0 : it->second;
  return it == known.end() ? invalidValue : success;
}
API cuDevicePrimaryCtxRetain(void **context, int) {
  *context = context;
  return success;
}
API cuCtxSetCurrent(void *context) {
  hasContext = context != nullptr;
  return success;
}
API cuMemAlloc_v2(unsigned long long *address, size_t bytes) {
  if (!hasContext)
    return invalidContext;
  if (usedMemory() + bytes > totalMemory())
    return outOfMemory;
  if (int code = firstUse("use of memory"); code != success)
    return code;
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xA5, bytes); // no code may rely on zeros
  allocations[(uintptr_t)memory] = bytes;
  *address = (unsigned long long)(uintptr_t)memory;
  record("allocate %zu", bytes);
  return success;
}
API cuMemFree_v2(unsigned long long address) {
  if (std::ranges::any_of(live, [](Stream *stream) { return stream->capture != nullptr; }))
    return captureUnsupported;
  if (!allocations.erase((uintptr_t)address))
    return invalidValue;
  std::free((void *)(uintptr_t)address);
  record("free");
  return success;
}
API cuMemsetD8Async(unsigned long long address, unsigned char value, size_t bytes, Stream *stream) {
  if (!isWithin(address, bytes))
    return invalidValue;
  record("clear %zu", bytes);
  return enqueue(stream, [=] {
    std::memset((void *)(uintptr_t)address, value, bytes);
    return success;
  });
}
API cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, Stream *stream) {
  if (!isWithin(to, bytes))
    return invalidValue;
  if (stream->capture)
    return captureInvalid; // a real driver may record it; the test needs the current values
  record("upload %zu", bytes);
  bool later = isWithin((uintptr_t)from, bytes); // it is pinned
  if (int code = later ? success : finish(stream); code != success)
    return code;
  auto copy = [=] {
    beLate("uploads");
    std::memcpy((void *)(uintptr_t)to, from, bytes);
    return success;
  };
  return later ? enqueue(stream, copy) : copy();
}
API cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, Stream *stream) {
  if (!isWithin(from, bytes))
    return invalidValue;
  if (stream->capture)
    return captureInvalid;
  record("download %zu", bytes);
  if (int code = finish(stream); code != success)
    return code;
  std::memcpy(to, (const void *)(uintptr_t)from, bytes);
  return success;
}
API cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, Stream *stream) {
  if (!isWithin(to, bytes) || !isWithin(from, bytes))
    return invalidValue;
  record("copy %zu", bytes);
  return enqueue(stream, [=] {
    beLate("copies");
    std::memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return success;
  });
}
struct Side {
  size_t x, y;
  int memory;
  const void *host;
  unsigned long long address;
  void *array;
  size_t pitch;
};
struct Rows {
  Side from, to;
  size_t bytes, rows;
};
API cuMemcpy2DAsync_v2(const Rows *rows, Stream *stream) {
  for (const Side *side : {&rows->from, &rows->to})
    if (side->memory != 2 || side->x || side->y || rows->bytes > side->pitch || rows->rows == 0 ||
        !isWithin(side->address, (rows->rows - 1) * side->pitch + rows->bytes))
      return invalidValue;
  record("copy %zu rows of %zu", rows->rows, rows->bytes);
  return enqueue(stream, [copy = *rows] {
    for (size_t r = 0; r < copy.rows; ++r)
      std::memcpy((void *)(uintptr_t)(copy.to.address + r * copy.to.pitch),
                  (const void *)(uintptr_t)(copy.from.address + r * copy.from.pitch), copy.bytes);
    return success;
  });
}
API cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  if (int code = firstUse("use of pinned memory"); code != success)
    return code;
  const char *most = std::getenv("DIVISI_FAKE_GPU_PINNED");
  if (most && usedMemory(true) + bytes > std::strtoull(most, nullptr, 10))
    return outOfMemory;
  *memory = std::malloc(bytes);
  allocations[(uintptr_t)*memory] = bytes;
  pinned.insert((uintptr_t)*memory);
  return success;
}
API cuMemHostGetDevicePointer_v2(unsigned long long *address, void *memory, unsigned) {
  *address = (unsigned long long)(uintptr_t)memory;
  return success;
}
API cuMemFreeHost(void *memory) {
  if (!pinned.erase((uintptr_t)memory))
    return invalidValue;
  allocations.erase((uintptr_t)memory);
  std::free(memory);
  return success;
}
API cuMemsetD32Async(unsigned long long address, unsigned value, size_t count, Stream *stream) {
  if (!isWithin(address, 4 * count))
    return invalidValue;
  return enqueue(stream, [=] {
    for (size_t i = 0; i < count; ++i)
      ((unsigned *)(uintptr_t)address)[i] = value;
    return success;
  });
}
API cuEventCreate(Event **event, unsigned flags) {
  *event = new Event;
  (*event)->timed = (flags & 2) == 0;
  return success;
}
API cuEventDestroy_v2(Event *event) {
  delete event;
  return success;
}
API cuEventRecord(Event *event, Stream *stream) {
  *event = {std::chrono::steady_clock::now(), event->timed, stream, stream->capture, stream->count, stream->worker};
  if (stream->worker) {
    event->later = std::make_shared<std::chrono::steady_clock::time_point>();
    event->ticket = stream->worker->give([later = event->later] {
      *later = std::chrono::steady_clock::now();
      return success;
    });
  }
  return success;
}
API cuEventElapsedTime(float *milliseconds, Event *begin, Event *end) {
  if (!begin->timed || !end->timed || !begin->stream || !end->stream || begin->capture || end->capture)
    return invalidValue;
  auto timeOf = [](Event *event) { return event->later ? *event->later : event->time; };
  for (Event *event : {begin, end})
    if (event->worker && event->worker->codeOf(event->ticket) != success)
      return notReady;
  *milliseconds = std::chrono::duration<float, std::milli>(timeOf(end) - timeOf(begin)).count();
  return success;
}
API cuEventSynchronize(Event *event) {
  if (event->worker)
    return event->worker->wait(event->ticket);
  if (event->stream && event->stream->stuck)
    waitForEver();
  return event->capture ? captureInvalid : success;
}
API cuEventQuery(Event *event) {
  if (event->worker)
    return event->worker->codeOf(event->ticket);
  return event->capture ? captureInvalid : event->stream && event->stream->stuck ? notReady : success;
}
API cuStreamWaitEvent(Stream *stream, Event *event, unsigned) {
  if (!event->stream)
    return invalidValue;
  if (event->worker && !stream->worker) // while the other stream waits, its host requests nothing that matters
    return stream->capture ? captureIsolation : event->worker->wait(event->ticket);
  if (stream->worker) {
    if (event->worker && event->worker != stream->worker)
      stream->worker->give([worker = event->worker, ticket = event->ticket] { return worker->wait(ticket); });
    return event->capture || stream->capture ? captureIsolation : success;
  }
  stream->stuck = stream->stuck || event->stream->stuck;
  if (event->capture && !stream->capture) { // it takes part from now on
    stream->capture = event->capture;
    stream->capture->joined[stream] = stream->count;
  }
  if (stream->capture != event->capture)
    return captureIsolation;
  if (stream->capture)
    if (auto it = stream->capture->joined.find(event->stream); it != stream->capture->joined.end())
      it->second = std::max(it->second, event->count);
  return success;
}
API cuStreamQuery(Stream *stream) {
  if (stream->worker)
    return stream->stuck ? notReady : stream->worker->all();
  return stream->capture ? captureInvalid : stream->stuck ? notReady : success;
}
API cuStreamCreate(Stream **stream, unsigned) {
  if (!hasContext)
    return invalidContext;
  if (fakeUseStreams(1) != success)
    return invalidValue;
  *stream = new Stream;
  if (lateWork())
    (*stream)->worker = std::make_shared<Worker>();
  live.insert(*stream);
  return success;
}
API cuStreamDestroy_v2(Stream *stream) {
  fakeUseStreams(-1);
  live.erase(stream);
  delete stream;
  return success;
}
API cuStreamSynchronize(Stream *stream) {
  record("synchronize");
  if (stream->stuck)
    waitForEver();
  return stream->capture ? captureInvalid : finish(stream);
}
API cuModuleLoadDataEx(Module **module, const void *image, unsigned, const int *, void **) {
  if (!hasContext)
    return invalidContext;
  *module = new Module;
  if (!parse((const char *)image, **module))
    return invalidImage;
  if (Interpreted::isWanted()) {
    auto code = Interpreted::load((const char *)image);
    if (!code)
      return invalidImage;
    for (auto &[name, function] : (*module)->functions)
      function.code = code;
  }
  record("load %zu kernels", (*module)->functions.size());
  return success;
}
API cuModuleUnload(Module *module) {
  delete module;
  return success;
}
API cuModuleGetFunction(Function **function, Module *module, const char *name) {
  auto it = module->functions.find(name);
  if (it == module->functions.end())
    return notFound;
  *function = &it->second;
  return success;
}
API cuFuncLoad(Function *function) {
  return std::exchange(function->loaded, true) ? success : firstUse("use of a kernel");
}
API cuLaunchKernel(Function *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, Stream *stream, void **arguments, void **) {
  if (x == 0 || x > 0x7fffffffu || y != 1 || z != 1 || ty != 1 || tz != 1 || shared != 0 || threads == 0 ||
      threads > 1024 || threads > function->threads)
    return invalidValue;
  std::vector<void *> buffers;
  for (size_t i = 0; i < function->parameters; ++i) {
    buffers.push_back(*(void **)arguments[i]);
    if (!isWithin((uintptr_t)buffers.back(), 1) || (uintptr_t)buffers.back() % 64 != 0)
      return invalidValue;
  }
  if (int code = cuFuncLoad(function); code != success) // it is loaded when it is first launched
    return code;
  record("launch %s %u x %u", function->name.c_str(), x, threads);
  return enqueue(stream, [=] { return run(*function, buffers, x, threads); });
}
API cuStreamBeginCapture_v2(Stream *stream, int) {
  if (stream->capture)
    return captureInvalid;
  stream->capture = new Graph;
  record("capture");
  return success;
}
API cuStreamEndCapture(Stream *stream, Graph **graph) {
  *graph = stream->capture;
  if (!*graph)
    return captureInvalid;
  bool joined = true;
  for (auto [other, count] : (*graph)->joined) {
    joined &= count == other->count;
    other->capture = nullptr;
  }
  (*graph)->joined.clear();
  stream->capture = nullptr;
  return joined ? success : captureUnjoined;
}
API cuGraphInstantiateWithFlags(Graph **made, Graph *graph, unsigned long long) {
  *made = new Graph(*graph);
  record("graph of %zu", graph->work.size());
  return success;
}
API cuGraphLaunch(Graph *graph, Stream *stream) {
  record("replay %zu", graph->work.size());
  if (stream->capture)
    return captureInvalid;
  if (stream->stuck)
    return success;
  auto replay = [=] {
    for (const Work &work : graph->work) {
      if (int code = work(); code != success)
        return code;
      if (stuckInGraph) {
        stream->stuck = true;
        break;
      }
    }
    return success;
  };
  return enqueue(stream, replay);
}
API cuGraphDestroy(Graph *graph) {
  delete graph;
  return success;
}
API cuGraphExecDestroy(Graph *graph) {
  delete graph;
  return success;
}
extern "C" __attribute__((visibility("default"))) void fakeFirstUse(const char *what) { firstUse(what); }
// Whether this thread has a context.
extern "C" __attribute__((visibility("default"))) int fakeHasContext() { return hasContext; }
// A library's work on the stream never ends, unless it is aborted.
extern "C" __attribute__((visibility("default"))) void fakeStick(void *stream) {
  ((Stream *)stream)->stuck = true;
  stuckInGraph = true;
}
// A message between two ranks: from now on the stream runs beside the host.
extern "C" __attribute__((visibility("default"))) int fakeDefer(void *stream, std::function<int()> *work) {
  auto *on = (Stream *)stream;
  if (!on->capture && !on->worker)
    on->worker = std::make_shared<Worker>();
  return enqueue(on, *work);
}
// Requests of the other fake libraries: done now, or when the graph runs.
extern "C" __attribute__((visibility("default"))) int fakeEnqueue(void *stream, std::function<int()> *work) {
  return enqueue((Stream *)stream, *work);
}
// Whether requests on a stream become part of a graph.
extern "C" __attribute__((visibility("default"))) int fakeIsCapturing(void *stream) {
  return ((Stream *)stream)->capture != nullptr;
}
// Whether an address that a library gets is within an allocation.
extern "C" __attribute__((visibility("default"))) int fakeIsWithin(const void *address, size_t bytes) {
  return isWithin((uintptr_t)address, bytes);
}
