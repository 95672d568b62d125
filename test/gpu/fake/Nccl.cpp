// An NCCL for fake GPUs: ranks are processes of one host, and messages are files. It checks that all members of a
// communicator request the same operations in the same order, and that sends and receives match; a send ends when its
// message is received. Sums are computed in the order of the ranks, in double precision.
#include "test/gpu/fake/Log.h"
#include "test/gpu/fake/Numbers.h"

#include <atomic>
#include <chrono>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {
constexpr int success = 0, unhandledError = 1, invalidArgument = 4, invalidUsage = 5, remoteError = 6;
constexpr size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2}; // by type
constexpr int int8 = 0, uint8 = 1, int32 = 2, int64 = 4, float32 = 7, float64 = 8, bfloat16 = 9;
enum Ask { AllReduce, AllGather, ReduceScatter, Send, Receive };
const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "send", "send"};

struct Id {
  char bytes[128];
};
struct Comm {
  std::string path; ///< begins the names of its files
  int size, rank;
  std::map<int, uint64_t> sent, received; ///< messages by peer
  bool greeted = false;                   ///< messages were sent
  std::shared_ptr<int> held = std::make_shared<int>(0); ///< also owned by the graphs with its operations
  std::string name() const { return path.substr(path.rfind('-') + 1); }
};
struct Op {
  Ask kind;
  const char *from;
  char *to;
  size_t count;
  int type, reduction, peer;
  Comm *comm;
  void *stream;
  size_t bytes() const { return count * widths[type]; }
};

std::atomic<bool> hung = false;   // something never ends
std::atomic<bool> failed = false; // an error that is reported by the next query
std::atomic<bool> poisoned = false; // sums are NaN
std::atomic<int> alive = 0; // communicators

std::string fileOf(const Comm &comm, int from, int to, uint64_t number) {
  return comm.path + "." + std::to_string(from) + "." + std::to_string(to) + "." + std::to_string(number);
}

template <typename Done> bool waitUntil(const Done &done) {
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int tries = 0; !done(); ++tries) {
    if (std::chrono::steady_clock::now() > until)
      return false;
    if (tries < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

/// What the library returns, with its reason on stderr.
int refuse(int code, const std::string &why) {
  record("nccl: %s", why.c_str());
  std::fprintf(stderr, "fake NCCL: %s\n", why.c_str());
  return code;
}

/// The properties on which both sides must agree.
std::string describe(const Op &op) {
  return std::string(names[op.kind]) + " type " + std::to_string(op.type) + " x " + std::to_string(op.count) +
         (op.kind == AllReduce || op.kind == ReduceScatter ? " reduction " + std::to_string(op.reduction) : "");
}

std::string publish(const Op &op, int peer) {
  Comm &comm = *op.comm;
  std::string file = fileOf(comm, comm.rank, peer, comm.sent[peer]++), text = describe(op);
  text.resize(80);
  size_t bytes = op.kind == ReduceScatter ? op.bytes() * (size_t)comm.size : op.bytes();
  {
    std::ofstream out(file + "~", std::ios::binary);
    out << text;
    out.write(op.from, (std::streamsize)bytes);
  }
  std::filesystem::rename(file + "~", file);
  return file;
}

int take(const Op &op, int peer, std::vector<char> &data) {
  Comm &comm = *op.comm;
  std::string file = fileOf(comm, peer, comm.rank, comm.received[peer]++);
  if (!waitUntil([&] { return access(file.c_str(), F_OK) == 0; }))
    return refuse(remoteError, "rank " + std::to_string(comm.rank) + " of " + comm.name() + " waits in vain for rank " +
                                   std::to_string(peer) + ": " + describe(op));
  std::ifstream in(file, std::ios::binary);
  std::string all((std::istreambuf_iterator<char>(in)), {}), wanted = describe(op);
  std::filesystem::remove(file);
  if (wanted != all.c_str())
    return refuse(invalidUsage, "rank " + std::to_string(comm.rank) + " of " + comm.name() + " asks for " + wanted +
                                    ", and rank " + std::to_string(peer) + " for " + all.c_str());
  if (all.size() != 80 + (op.kind == ReduceScatter ? op.bytes() * (size_t)comm.size : op.bytes()))
    return refuse(remoteError, "rank " + std::to_string(peer) + " of " + comm.name() + " wrote " +
                                   std::to_string(all.size()) + " bytes to " + file);
  data.assign(all.begin() + 80, all.end());
  return success;
}

Kind kindOf(int type) {
  return type == float64 ? Kind::Double : type == float32 ? Kind::Float : type == bfloat16 ? Kind::Brain : Kind::Half;
}
template <typename T> T combined(T a, T b, int reduction) {
  return reduction == 0 ? (T)(a + b) : reduction == 2 ? (a > b ? a : b) : (a < b ? a : b);
}
template <typename T> void reduceIntegers(const Op &op, const std::vector<std::vector<char>> &all, size_t skip) {
  for (size_t i = 0; i < op.count; ++i) {
    T value = ((const T *)(all[0].data() + skip))[i];
    for (size_t r = 1; r < all.size(); ++r)
      value = combined(value, ((const T *)(all[r].data() + skip))[i], op.reduction);
    ((T *)op.to)[i] = value;
  }
}
void reduce(const Op &op, const std::vector<std::vector<char>> &all, size_t skip) {
  switch (op.type) {
  case int64:
    return reduceIntegers<int64_t>(op, all, skip);
  case int32:
    return reduceIntegers<int32_t>(op, all, skip);
  case int8:
    return reduceIntegers<int8_t>(op, all, skip);
  case uint8:
    return reduceIntegers<uint8_t>(op, all, skip);
  default:
    for (size_t i = 0; i < op.count; ++i) {
      Kind kind = kindOf(op.type);
      double value = number(kind, all[0].data() + skip, (int64_t)i);
      for (size_t r = 1; r < all.size(); ++r)
        value = combined(value, number(kind, all[r].data() + skip, (int64_t)i), op.reduction);
      // Nothing has computed the operands: their bits may be a NaN, at which training would stop.
      setNumber(kind, op.to, (int64_t)i, poisoned ? NAN : std::isfinite(value) ? value : 0);
    }
  }
}

int finish(const Op &op) {
  Comm &comm = *op.comm;
  if (op.kind == Receive) {
    std::vector<char> data;
    int code = take(op, op.peer, data);
    if (code == success)
      std::memcpy(op.to, data.data(), data.size());
    return code;
  }
  std::vector<std::vector<char>> all((size_t)comm.size);
  for (int peer = 0; peer < comm.size; ++peer)
    if (int code = take(op, peer, all[(size_t)peer]); code != success)
      return code;
  if (op.kind == AllGather)
    for (size_t r = 0; r < all.size(); ++r)
      std::memcpy(op.to + r * op.bytes(), all[r].data(), op.bytes());
  else
    reduce(op, all, op.kind == ReduceScatter ? (size_t)comm.rank * op.bytes() : 0);
  return success;
}

/// DIVISI_FAKE_NCCL_BREAK=COUNT:hangs|error|fails|nan: COUNT groups succeed, and the next one does not end; with `error`
/// NCCL then reports an error; with `fails` it cannot be started at all; with `nan` sums are NaN from then on. `connect`, without a COUNT: no communicator is ever connected. Returns
/// the code of the call.
std::optional<int> breaks(const Op &op) {
  static const std::string text = std::getenv("DIVISI_FAKE_NCCL_BREAK") ? std::getenv("DIVISI_FAKE_NCCL_BREAK") : "";
  static std::atomic<int> left = std::atoi(text.c_str());
  if (text.empty() || left-- != 0)
    return std::nullopt;
  record("nccl breaks");
  if (text.ends_with(":nan")) {
    poisoned = true;
    return std::nullopt;
  }
  if (text.ends_with(":fails")) {
    std::this_thread::sleep_for(std::chrono::seconds(1)); // until then the others wait in their calls
    return unhandledError;
  }
  hung = true;
  failed = text.ends_with(":error");
  auto *stick = (void (*)(void *))dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fakeStick");
  stick(op.stream);
  return success;
}

/// Runs all operations at once, because a receiver may also be the sender.
int run(const std::vector<Op> &ops) {
  if (std::optional<int> code = ops[0].stream ? breaks(ops[0]) : std::nullopt)
    return *code;
  std::vector<std::string> files;
  for (const Op &op : ops) {
    record("nccl %s/%d %s%s %s", op.comm->name().c_str(), op.comm->size, op.kind == Receive ? "receive as " : "",
           describe(op).c_str(),
           op.kind == Send || op.kind == Receive ? (" peer " + std::to_string(op.peer)).c_str() : "");
    for (int peer = 0; peer < op.comm->size; ++peer)
      if (op.kind != Receive && (op.kind != Send || peer == op.peer))
        files.push_back(publish(op, peer));
  }
  for (const Op &op : ops)
    if (op.kind != Send)
      if (int code = finish(op); code != success)
        return code;
  for (const std::string &file : files)
    if (!waitUntil([&] { return access(file.c_str(), F_OK) != 0; }))
      return refuse(remoteError, "nobody takes " + file);
  return success;
}

/// Returns when all members have called it.
int meet(Comm &comm) {
  std::vector<char> all((size_t)comm.size);
  return run({{AllGather, "", all.data(), 1, int8, 0, 0, &comm, nullptr}});
}

/// Killed ranks leave messages: removes those whose first rank has ended.
void removeAbandoned() {
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    int process = 0;
    if (std::sscanf(entry.path().filename().c_str(), "divisi-fake-nccl-%*x-%d.", &process) == 1 &&
        ::kill(process, 0) != 0 && errno == ESRCH)
      std::filesystem::remove(entry.path(), ignored);
  }
}

thread_local int depth = 0;
thread_local std::vector<Op> group;
thread_local std::vector<Comm *> aborted;

/// NCCL's own: one for its kernels, one for what hosts do between them.
constexpr int streamsOfComm = 2;
int useStreams(int more) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto *function = driver ? (int (*)(int))dlsym(driver, "fakeUseStreams") : nullptr;
  return function ? function(more) : unhandledError;
}

/// NCCL uses the GPU of the calling thread.
bool hasContext() {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto *function = driver ? (int (*)())dlsym(driver, "fakeHasContext") : nullptr;
  return function && function();
}

/// As NCCL's: never returns while a graph holds operations of the communicator.
void release(Comm *comm) {
  while (comm->held.use_count() > 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  --alive;
  useStreams(-streamsOfComm);
  delete comm;
}

int end() {
  if (--depth > 0)
    return success;
  for (Comm *comm : std::exchange(aborted, {}))
    release(comm);
  if (group.empty())
    return success;
  std::vector<Op> ops = std::move(group);
  group.clear();
  for (const Op &op : ops)
    if (op.stream != ops[0].stream || op.type < 0 || op.type > bfloat16 || op.peer < 0 || op.peer >= op.comm->size ||
        op.count == 0)
      return invalidArgument;
  bool message = ops.size() == 1 && (ops[0].kind == Send || ops[0].kind == Receive);
  // As in NCCL, the first message of two ranks waits for both hosts.
  if (message && !std::exchange(ops[0].comm->greeted, true)) {
    noteFirstUse("messages of " + ops[0].comm->name());
    if (int code = meet(*ops[0].comm); code != success)
      return code;
  }
  std::vector<std::shared_ptr<int>> holds;
  for (const Op &op : ops)
    if (isCapturing(op.stream))
      holds.push_back(op.comm->held);
  return enqueueOn(
      ops[0].stream, [ops, holds] { return run(ops); }, invalidUsage, message ? "fakeDefer" : "fakeEnqueue");
}
int ask(Op op) {
  ++depth;
  group.push_back(op);
  return end();
}
} // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API ncclGetVersion(int *version) {
  *version = 22705;
  return success;
}
API ncclGetUniqueId(Id *id) {
  static int made = 0;
  if (made == 0)
    removeAbandoned();
  // Of killed ranks files are left, and another process may get their number: the time tells them apart.
  auto now = (long long)std::chrono::system_clock::now().time_since_epoch().count();
  std::snprintf(id->bytes, sizeof id->bytes, "/dev/shm/divisi-fake-nccl-%llx-%d.%d", now, (int)getpid(), made++);
  return success;
}
API ncclCommInitRank(Comm **comm, int size, Id id, int rank) {
  if (size < 1 || rank < 0 || rank >= size || id.bytes[0] == 0)
    return invalidArgument;
  if (const char *text = std::getenv("DIVISI_FAKE_NCCL_BREAK"); text && std::string(text) == "connect") {
    record("nccl breaks");
    while (true)
      ::pause();
  }
  if (!hasContext())
    return invalidUsage;
  if (useStreams(streamsOfComm) != success)
    return unhandledError;
  auto made = std::make_unique<Comm>(Comm{id.bytes, size, rank, {}, {}});
  if (int code = meet(*made); code != success)
    return code;
  *comm = made.release();
  ++alive;
  return success;
}
API ncclCommDestroy(Comm *comm) {
  while (hung)
    ::pause();
  int code = meet(*comm);
  release(comm);
  return code;
}
API ncclCommAbort(Comm *comm) {
  while (hung && depth == 0 && alive > 1) // its work waits for that of another one
    ::pause();
  if (depth > 0)
    aborted.push_back(comm);
  else
    release(comm);
  return success;
}
API ncclCommGetAsyncError(Comm *, int *error) {
  *error = failed ? remoteError : success;
  return success;
}
API ncclAllReduce(const void *from, void *to, size_t count, int type, int reduction, Comm *comm, void *stream) {
  return ask({AllReduce, (const char *)from, (char *)to, count, type, reduction, 0, comm, stream});
}
API ncclAllGather(const void *from, void *to, size_t count, int type, Comm *comm, void *stream) {
  return ask({AllGather, (const char *)from, (char *)to, count, type, 0, 0, comm, stream});
}
API ncclReduceScatter(const void *from, void *to, size_t count, int type, int reduction, Comm *comm, void *stream) {
  return ask({ReduceScatter, (const char *)from, (char *)to, count, type, reduction, 0, comm, stream});
}
API ncclSend(const void *from, size_t count, int type, int peer, Comm *comm, void *stream) {
  return ask({Send, (const char *)from, nullptr, count, type, 0, peer, comm, stream});
}
API ncclRecv(void *to, size_t count, int type, int peer, Comm *comm, void *stream) {
  return ask({Receive, nullptr, (char *)to, count, type, 0, peer, comm, stream});
}
API ncclGroupStart() {
  ++depth;
  return success;
}
API ncclGroupEnd() { return end(); }
extern "C" __attribute__((visibility("default"))) const char *ncclGetErrorString(int code) {
  return code == invalidUsage ? "invalid usage" : code == remoteError ? "remote error" : "error";
}
extern "C" __attribute__((visibility("default"))) const char *ncclGetLastError(Comm *) { return ""; }
