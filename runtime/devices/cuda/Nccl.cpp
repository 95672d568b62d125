#include "runtime/devices/cuda/Nccl.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
// Values of NCCL's enumerations (nccl.h).
constexpr int int8 = ncclBytes, uint8 = 1, int32 = 2, int64 = 4, float16 = 6, float32 = 7, float64 = 8, bfloat16 = 9;
constexpr int sum = 0, maximum = 2, minimum = 3;

/// By DivisiType; null if NCCL cannot combine the type.
std::optional<int> ncclTypeOf(int64_t type) {
  switch (type) {
  case DIVISI_F32:
    return float32;
  case DIVISI_F64:
    return float64;
  case DIVISI_BF16:
    return bfloat16;
  case DIVISI_F16:
    return float16;
  case DIVISI_I64:
    return int64;
  case DIVISI_I32:
    return int32;
  case DIVISI_I8:
    return int8;
  case DIVISI_U8:
    return uint8;
  default:
    return std::nullopt;
  }
}

int reductionOf(int64_t kind) { return kind == DIVISI_MAX ? maximum : kind == DIVISI_MIN ? minimum : sum; }

bool combines(const DivisiCollective &params) {
  return params.kind == DIVISI_ALL_REDUCE || params.kind == DIVISI_REDUCE_SCATTER;
}
} // namespace

Nccl::Nccl(const Driver &driver, DriverContext context, std::unique_ptr<NcclFunctions> functions, Stream compute, Communicator &ranks,
           Exchange &byHost)
    : driver(driver), context(context), nccl(std::move(functions)), compute(compute), ranks(ranks), byHost(byHost) {}

Nccl::~Nccl() {
  for (auto &[axes, comm] : comms)
    if (comm)
      nccl->destroy(comm);
  for (auto &[id, event] : done)
    driver.destroyEvent(event);
  if (ready)
    driver.destroyEvent(ready);
  if (side)
    driver.destroyStream(side);
}

/// Creates what this rank needs by itself; returns an id for each set of axes (zeros unless it is the first rank of its
/// group), and then one for each route that begins here.
std::string Nccl::prepare(const Accelerator::Traffic &traffic) {
  driver.check(driver.createStream(&side, nonBlocking), "create a stream");
  driver.check(driver.createEvent(&ready, untimed), "create an event");
  word = std::make_unique<PinnedWords>(driver, 1);
  std::string ids;
  auto add = [&](bool begins) {
    NcclId id = {};
    if (begins)
      nccl->check(nccl->uniqueId(&id), "make an id");
    ids.append(id.bytes, sizeof id.bytes);
  };
  for (const auto &over : traffic.axes) {
    Group group = ranks.mesh().group(ranks.rank(), over);
    add(group.size() > 1 && group[0] == ranks.rank());
  }
  for (const Route &route : traffic.routes)
    if (route.from == ranks.rank())
      add(true);
  return ids;
}

void Nccl::connect(const Accelerator::Traffic &traffic, std::function<void()> inTask) {
  keepFromRecording = std::move(inTask);
  messages.emplace(driver, *nccl, compute, ranks, byHost, traffic.freeId);
  std::string mine;
  Status prepared;
  try {
    mine = prepare(traffic);
  } catch (const std::runtime_error &error) {
    prepared = failure(error.what());
  }
  // From here on all ranks must take part, because they wait for each other.
  if (Status status = ranks.agree(prepared).status(); !status.ok())
    throw std::runtime_error(status.message());
  Result<std::vector<std::string>> gathered = ranks.gather(mine);
  std::string all;
  for (const std::string &ids : gathered.ok() ? *gathered : std::vector<std::string>())
    all += ids;
  Status status = gathered.ok() ? ranks.broadcast(all) : gathered.status();
  std::vector<size_t> ids(static_cast<size_t>(ranks.size()), traffic.axes.size()); // by rank
  for (const Route &route : traffic.routes)
    ++ids[static_cast<size_t>(route.from)];
  std::vector<size_t> next(ids.size()); // by rank: the place of its next id
  std::exclusive_scan(ids.begin(), ids.end(), next.begin(), size_t(0));
  if (!status.ok() || all.size() != (next.back() + ids.back()) * sizeof(NcclId))
    throw std::runtime_error(status.ok() ? "the ranks do not agree on their groups" : status.message());
  // All ranks connect the groups in the same order, so that they cannot deadlock.
  auto connected = [&](const Group &group, size_t number) {
    NcclId id;
    std::memcpy(id.bytes, all.data() + number * sizeof id.bytes, sizeof id.bytes);
    return join(group, id, traffic.patience);
  };
  size_t number = 0; // of the axes
  for (const auto &over : traffic.axes) {
    Group group = ranks.mesh().group(ranks.rank(), over);
    comms[over] = group.size() > 1 ? connected(group, next[static_cast<size_t>(group[0])] + number) : NcclComm();
    ++number;
  }
  for (const Route &route : traffic.routes) {
    size_t id = number + next[static_cast<size_t>(route.from)]++;
    if (route.from == ranks.rank() || route.to == ranks.rank())
      messages->connect(route, connected({route.from, route.to}, id));
  }
  // NCCL connects two ranks at their first message, for which both hosts must be there.
  for (Stream stream : messages->streams())
    wait(stream);
}

/// Makes this rank's end of a communicator. NCCL waits without limit for ranks that do not come, so that another thread
/// calls it, and this one looks after the other ranks meanwhile.
NcclComm Nccl::join(const Group &group, const NcclId &id, double patience) {
  struct Call {
    std::atomic<bool> done = false;
    int code = 0;
    NcclComm comm = nullptr;
  };
  auto call = std::make_shared<Call>(); // outlives this function if NCCL does not return
  auto place = static_cast<int>(std::find(group.begin(), group.end(), ranks.rank()) - group.begin());
  std::thread([this, call, id, place, size = static_cast<int>(group.size())] {
    driver.setContext(context);
    call->code = nccl->init(&call->comm, size, id, place);
    call->done = true;
  }).detach();
  std::string what = concat("connect the GPUs of ranks ", group.front(), " to ", group.back());
  auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  Communicator::Patience stop;
  while (!call->done) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (Status status = ranks.watch(stop); !status.ok())
      throw std::runtime_error(concat("NCCL cannot ", what, ": ", status.message()));
    if (std::chrono::steady_clock::now() > until)
      throw std::runtime_error(concat("NCCL cannot ", what, ": not done after ", patience,
                                      " seconds (NCCL_DEBUG=INFO says more; --timeout gives it more time)"));
  }
  nccl->check(call->code, what);
  return call->comm;
}

std::vector<NcclComm *> Nccl::communicators() {
  std::vector<NcclComm *> result = messages ? messages->communicators() : std::vector<NcclComm *>();
  for (auto &[axes, comm] : comms)
    result.push_back(&comm);
  return result;
}

char *Nccl::scratch(size_t bytes) {
  if (bytes > memoryBytes || memories.empty()) {
    memories.push_back(std::make_unique<Memory>(driver, bytes, "allocate memory for a collective"));
    memoryBytes = bytes;
  }
  return memories.back()->data();
}

void Nccl::note(int64_t number) {
  driver.check(driver.fillWords(word->address(0), static_cast<unsigned>(number), 1, side), "note progress");
}

Status Nccl::start(const DivisiCollective *params, void *const *buffers) {
  Result<const Collective *> plan = ranks.planOf(params);
  if (!plan.ok())
    return plan.status();
  std::vector<int64_t> over(params->axes, params->axes + params->axis_count);
  auto comm = comms.find(over);
  if (comm == comms.end() || (combines(*params) && !ncclTypeOf(params->type)))
    return byHost.start(params, buffers);
  try {
    driver.check(driver.recordEvent(ready, compute), "record an event");
    driver.check(driver.waitEvent(side, ready, 0), "wait for an event");
    note(params->id + 1);
    size_t begin = recorder ? marks->add(side) : 0;
    launch(**plan, *params, comm->second, buffers);
    if (recorder)
      recorder->addMarked(begin, marks->add(side), params->id);
    note(0);
    auto [event, fresh] = done.try_emplace(params->id, nullptr);
    if (fresh)
      driver.check(driver.createEvent(&event->second, untimed), "create an event");
    driver.check(driver.recordEvent(event->second, side), "record an event");
  } catch (const std::runtime_error &error) {
    return ranks.located(failure(ranks.nameOf(params->id), ": ", error.what()));
  }
  open.insert(params->id);
  return {};
}

Status Nccl::rehearse(const DivisiCollective *params, void *const *buffers) {
  Status status = start(params, buffers);
  return status.ok() ? await(params->id) : status;
}

/// Calls a function; its error or exception gets the name of the message.
Status Nccl::named(int64_t id, const std::function<Status()> &call) {
  keepFromRecording();
  Status status;
  try {
    status = call();
  } catch (const std::runtime_error &error) {
    status = failure(ranks.nameOf(id), ": ", error.what());
  }
  return status.ok() ? status : ranks.located(status);
}

Status Nccl::send(const DivisiTransfer &params, const void *data) {
  if (!ranks.peerOf(params.stage))
    return byHost.send(params, data);
  return named(params.id, [&] { return messages->send(params, data); });
}

Status Nccl::receive(const DivisiTransfer &params, void *data) {
  if (!ranks.peerOf(params.stage))
    return byHost.receive(params, data);
  return named(params.id, [&] { return messages->receive(params, data); });
}

Status Nccl::await(int64_t id) {
  if (messages->carries(id))
    return named(id, [&] { return messages->await(id); });
  if (!open.erase(id))
    return byHost.await(id);
  try {
    driver.check(driver.waitEvent(compute, done.at(id), 0), "wait for an event");
  } catch (const std::runtime_error &error) {
    return ranks.located(failure(ranks.nameOf(id), ": ", error.what()));
  }
  return {};
}

/// Copies a tensor [rows, n, bytes] to blocks [n][rows, bytes], or back, on the stream.
struct Nccl::Run {
  const Collective::Blocks &blocks;
  int64_t members;
  char *tensor, *packed;
  bool packs;
};

void Nccl::copyBlocks(const Run &run) {
  auto [rows, bytes] = run.blocks;
  for (int64_t j = 0; j < run.members; ++j) {
    char *inTensor = run.tensor + j * bytes, *inBlock = run.packed + j * rows * bytes;
    auto wide = static_cast<size_t>(run.members * bytes), narrow = static_cast<size_t>(bytes);
    CopyRows copy = run.packs ? CopyRows::make(inTensor, wide, inBlock, narrow, narrow, static_cast<size_t>(rows))
                              : CopyRows::make(inBlock, narrow, inTensor, wide, narrow, static_cast<size_t>(rows));
    driver.check(driver.copyRows(&copy, side), "copy on the GPU");
  }
}

void Nccl::launch(const Collective &plan, const DivisiCollective &params, NcclComm comm, void *const *buffers) {
  const std::vector<Collective::Part> &parts = plan.layout();
  int64_t n = plan.members(), me = plan.position();
  std::vector<size_t> sizes = plan.sizes();
  auto copy = [&](void *to, const void *from, int64_t bytes) { copyOnDevice(driver, to, from, bytes, side); };
  // Blocks that are not contiguous in a tensor are packed before or unpacked afterwards.
  bool scatters = params.kind == DIVISI_REDUCE_SCATTER || params.kind == DIVISI_ALL_TO_ALL;
  bool gathers = params.kind == DIVISI_ALL_GATHER || params.kind == DIVISI_ALL_TO_ALL;
  size_t needed = 0;
  std::vector<size_t> packed(parts.size()), unpacked(parts.size());
  for (size_t i = 0; i < parts.size() && n > 1; ++i) {
    packed[i] = needed;
    needed += scatters && parts[i].scattered.rows > 1 ? Scratch::roundUp(sizes[i]) : 0;
    unpacked[i] = needed;
    needed += gathers && parts[i].gathered.rows > 1 ? Scratch::roundUp(sizes[parts.size() + i]) : 0;
  }
  char *memory = needed > 0 ? scratch(needed) : nullptr;
  for (size_t i = 0; i < parts.size(); ++i) {
    auto *operand = static_cast<char *>(buffers[i]), *result = static_cast<char *>(buffers[parts.size() + i]);
    if (n == 1 && params.kind != DIVISI_PERMUTE)
      copy(result, operand, parts[i].bytes);
    else if (scatters && parts[i].scattered.rows > 1)
      copyBlocks({parts[i].scattered, n, operand, memory + packed[i], true});
  }
  if (n == 1 && params.kind != DIVISI_PERMUTE)
    return;
  int type = ncclTypeOf(params.type).value_or(int8), reduction = reductionOf(params.reduction);
  nccl->check(nccl->groupStart(), "begin a group");
  for (size_t i = 0; i < parts.size(); ++i) {
    const Collective::Part &part = parts[i];
    auto *operand = static_cast<char *>(buffers[i]), *result = static_cast<char *>(buffers[parts.size() + i]);
    char *from = scatters && part.scattered.rows > 1 ? memory + packed[i] : operand;
    char *to = gathers && part.gathered.rows > 1 ? memory + unpacked[i] : result;
    auto block = static_cast<size_t>(part.blockBytes), width = static_cast<size_t>(plan.elementBytes());
    if (part.bytes == 0)
      continue;
    switch (params.kind) {
    case DIVISI_ALL_REDUCE:
      nccl->check(nccl->allReduce(from, to, sizes[i] / width, type, reduction, comm, side), "all_reduce");
      break;
    case DIVISI_ALL_GATHER:
      nccl->check(nccl->allGather(from, to, sizes[i], int8, comm, side), "all_gather");
      break;
    case DIVISI_REDUCE_SCATTER:
      nccl->check(nccl->reduceScatter(from, to, block / width, type, reduction, comm, side), "reduce_scatter");
      break;
    case DIVISI_ALL_TO_ALL:
      for (int64_t j = 0; j < n; ++j) {
        auto at = static_cast<size_t>(j) * block;
        nccl->check(nccl->send(from + at, block, int8, static_cast<int>(j), comm, side), "send");
        nccl->check(nccl->receive(to + at, block, int8, static_cast<int>(j), comm, side), "receive");
      }
      break;
    default: {
      bool near = params.shift > -n && params.shift < n;
      int64_t target = near ? me + params.shift : -1, source = near ? me - params.shift : -1;
      if (target == me) {
        copy(to, from, part.bytes);
        break;
      }
      if (target >= 0 && target < n)
        nccl->check(nccl->send(from, block, int8, static_cast<int>(target), comm, side), "send");
      if (source >= 0 && source < n)
        nccl->check(nccl->receive(to, block, int8, static_cast<int>(source), comm, side), "receive");
      else
        driver.check(driver.clear(addressOf(to), 0, block, side), "clear");
    }
    }
  }
  nccl->check(nccl->groupEnd(), "end a group");
  for (size_t i = 0; i < parts.size(); ++i)
    if (gathers && parts[i].gathered.rows > 1)
      copyBlocks({parts[i].gathered, n, static_cast<char *>(buffers[parts.size() + i]), memory + unpacked[i], false});
}

void Nccl::abort() noexcept {
  nccl->groupStart(); // the work of one communicator may wait for that of another
  for (NcclComm *comm : communicators())
    if (NcclComm lost = std::exchange(*comm, nullptr))
      nccl->abort(lost);
  nccl->groupEnd();
}

void Nccl::fail(const std::string &why) {
  unsigned under = word->read(0);
  std::optional<int64_t> id = under ? std::optional<int64_t>(under - 1) : messages->underWay();
  Status status = failure(id ? concat("waited for ", ranks.nameOf(*id), ": ") : "", why);
  throw std::runtime_error(ranks.located(status).message());
}

void Nccl::wait() {
  wait(side);
  for (Stream stream : messages->streams())
    wait(stream);
}

void Nccl::wait(const std::function<int()> &query) {
  Communicator::Patience patience;
  for (int tries = 0;; ++tries) {
    int code = query();
    if (code != notReady)
      return driver.check(code, "finish what the GPU computes");
    if (tries < 1000) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    for (NcclComm *comm : communicators()) {
      int problem = 0;
      if (*comm && (nccl->asyncError(*comm, &problem) != 0 || (problem != 0 && problem != ncclInProgress)))
        fail(concat("NCCL: ", nccl->errorText(problem)));
    }
    if (Status status = ranks.watch(patience); !status.ok())
      fail(status.message());
  }
}
