#include "runtime/comm/Communicator.h"

#include <algorithm>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
double secondsBetween(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}
} // namespace

Communicator::Communicator(Transport &transport, Mesh mesh, std::map<int64_t, std::string> names)
    : transport(transport), mesh_(std::move(mesh)), names(std::move(names)), placement{transport.hosts()},
      worker([this] { work(); }) {}

Communicator::~Communicator() {
  {
    std::lock_guard lock(mutex);
    if (completed.load() < started)
      transport.fail(failure(place(), "ended before its collectives and transfers"));
    ends = true;
  }
  begun.notify_one();
  worker.join();
}

std::string Communicator::place() const { return concat("rank ", rank(), ": step ", step.load(), ": "); }

std::string Communicator::nameOf(int64_t id) const {
  auto it = names.find(id);
  return it == names.end() ? concat("collective ", id) : concat("'", it->second, "'");
}

Status Communicator::located(const Status &what) const {
  return what.message().starts_with(place()) ? what : failure(place(), what.message());
}

void Communicator::setStep(int64_t number) {
  auto now = Clock::now();
  if (number != step.load())
    stepSeconds = step.load() > 0 ? secondsBetween(stepBegan, now) : 0;
  stepBegan = now;
  step = number;
}

Status Communicator::watch(Patience &patience) const {
  if (transport.failed())
    return transport.status();
  if (completed.load(std::memory_order_acquire) >= started)
    if (Status status = transport.lookAround(); !status.ok())
      return status;
  return exhausted(patience) ? failure("waited in vain: another rank has ended or hangs") : Status();
}

std::unique_ptr<Message> Communicator::post(int to, int tag, const void *data, size_t bytes) {
  {
    std::lock_guard lock(mutex);
    usage.bytes += static_cast<int64_t>(bytes);
  }
  return transport.send(to, static_cast<int>(transport.largestTag()) - tag, data, bytes);
}

std::unique_ptr<Message> Communicator::accept(int from, int tag, void *data, size_t bytes) {
  return transport.receive(from, static_cast<int>(transport.largestTag()) - tag, data, bytes);
}

Status Communicator::waitUntil(const std::function<bool()> &isDone) const {
  constexpr int yields = 200;
  Patience patience;
  for (int tries = 0; !isDone(); ++tries) {
    if (tries < yields) {
      std::this_thread::yield();
      continue;
    }
    // A rank that is asked to stop does so when the run of steps ends, which may take long.
    bool urgent = interrupted && interrupted() == Interrupt::Urgent;
    if (Status status = urgent ? watch(patience) : transport.lookAround(); !status.ok())
      return status;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return {};
}

bool Communicator::exhausted(Patience &patience) const {
  Interrupt asked = interrupted ? interrupted() : Interrupt::None;
  if (asked == Interrupt::None)
    return false;
  auto now = Clock::now();
  if (!patience.since)
    patience.since = now;
  double more = asked == Interrupt::Urgent ? 0 : std::min(2 * stepSeconds, 60.0);
  return secondsBetween(*patience.since, now) > 0.5 + more;
}

Result<const Collective *> Communicator::planOf(const DivisiCollective *params) {
  auto plan = plans.find(params);
  if (plan == plans.end()) {
    if (mesh_.size() > size())
      return failure(place(), "the mesh has ", mesh_.size(), " ranks, but there are ", size());
    Result<Collective> made = Collective::create(*params, mesh_, rank(), reducers, placement);
    if (!made.ok())
      return failure(place(), nameOf(params->id), ": ", made.status().message());
    plan = plans.emplace(params, std::move(*made)).first;
  }
  return &plan->second;
}

Status Communicator::start(const DivisiCollective *params, void *const *buffers) {
  if (transport.failed())
    return transport.status();
  Result<const Collective *> plan = planOf(params);
  if (!plan.ok())
    return plan.status();
  {
    std::lock_guard lock(mutex);
    Job job;
    if (!spare.empty()) {
      job = std::move(spare.back());
      spare.pop_back();
    }
    Flow &flow = flows[params->id];
    job.id = params->id;
    job.flow = &flow;
    job.collective = *plan;
    job.buffers.assign(buffers, buffers + 2 * params->part_count);
    jobs.push_back(std::move(job));
    flow.started += 1;
    flow.number = ++started;
  }
  begun.notify_one();
  return {};
}

Status Communicator::await(int64_t id) {
  auto it = flows.find(id);
  if (it == flows.end())
    return failure(place(), nameOf(id), " is waited for but was not started");
  return waitUntil(it->second.completed, it->second.started, id);
}

Status Communicator::beside(const std::function<void()> &call) {
  if (completed.load(std::memory_order_acquire) >= started) {
    call();
    return {};
  }
  {
    std::lock_guard lock(mutex);
    Job job;
    job.id = -1;
    job.flow = &hosts;
    job.call = call;
    jobs.push_back(std::move(job));
    hosts.started += 1;
    hosts.number = ++started;
  }
  begun.notify_one();
  return waitUntil(hosts.completed, hosts.started, -1);
}

Status Communicator::finish() { return waitUntil(completed, started, -1); }

int64_t Communicator::oldest() const {
  int64_t id = -1, number = INT64_MAX;
  for (const auto *all : {&flows, &sendFlows})
    for (const auto &[key, flow] : *all)
      if (flow.completed.load() < flow.started && flow.number < number) {
        id = key;
        number = flow.number;
      }
  return id;
}

Status Communicator::waitUntil(const std::atomic<int64_t> &counter, int64_t number, int64_t id) {
  if (counter.load(std::memory_order_acquire) < number) {
    auto start = Clock::now();
    auto isDone = [&] { return counter.load(std::memory_order_acquire) >= number; };
    // A small collective takes less time than sleeping and waking up.
    for (int i = 0; i < 100 && !isDone(); ++i)
      std::this_thread::yield();
    Patience patience;
    std::unique_lock lock(mutex);
    while (!done.wait_for(lock, std::chrono::milliseconds(50), isDone))
      if (exhausted(patience) && !transport.failed())
        transport.fail(failure(place(), "waited in vain for ", nameOf(id < 0 ? oldest() : id),
                               ": another rank has ended or hangs"));
    usage.waited += secondsBetween(start, Clock::now());
  }
  if (!transport.failed())
    return {};
  std::string waiting = id < 0 ? "" : concat("waited for ", nameOf(id), ": ");
  Status status = transport.status();
  return status.message().starts_with(place()) ? status : failure(place(), waiting, status.message());
}

/// Requests short time slices for this thread, which the scheduler then grants sooner. The thread wakes up for some
/// microseconds at a time; on a busy core it would otherwise wait for milliseconds (EEVDF, Linux 6.12; earlier versions
/// ignore the request).
static void takeShortTurns() {
  struct { // struct sched_attr, which the C library lacks
    uint32_t size = 48, policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 0, deadline = 0, period = 0;
  } turns;
  if (syscall(SYS_sched_getattr, 0, &turns, turns.size, 0) != 0 || turns.policy != SCHED_OTHER)
    return;
  turns.runtime = 100'000; // nanoseconds
  (void)syscall(SYS_sched_setattr, 0, &turns, 0);
}

void Communicator::work() {
  if (mesh_.stageAxis()) // only for messages: it would delay collectives, which compute
    takeShortTurns();
  constexpr int yields = 200, longest = 100; // microseconds
  int idle = 0;                              // consecutive polls without news
  std::unique_lock lock(mutex);
  while (true) {
    auto isNew = [&] { return ends || !jobs.empty() || !posted.empty(); };
    if (moving.empty())
      begun.wait(lock, isNew);
    else if (idle > yields)
      begun.wait_for(lock, std::chrono::microseconds(idle - yields), isNew);
    idle = isNew() ? 0 : std::min(idle + 1, yields + longest);
    if (ends && jobs.empty() && posted.empty())
      return;
    lock.unlock();
    if (idle > 0)
      std::this_thread::yield();
    progress();
    lock.lock();
    if (jobs.empty())
      continue;
    Job &job = jobs.front();
    lock.unlock();
    auto start = Clock::now();
    double begin = recorder ? recorder->now() : 0;
    int64_t sent = transport.bytesSent();
    transport.setBackground([this] { progress(); });
    Status status = run(job);
    transport.setBackground({});
    double seconds = secondsBetween(start, Clock::now());
    if (recorder && !job.call)
      recorder->addCollective(job.id, {begin, recorder->now()});
    if (!status.ok())
      transport.fail(status);
    lock.lock();
    usage.bytes += transport.bytesSent() - sent;
    usage.seconds += seconds;
    Flow &flow = *job.flow;
    job.call = {};
    spare.push_back(std::move(jobs.front()));
    jobs.pop_front();
    settle(flow);
  }
}

void Communicator::settle(Flow &flow) {
  flow.completed.fetch_add(1, std::memory_order_release);
  completed.fetch_add(1, std::memory_order_release);
  done.notify_all();
}

Status Communicator::run(const Job &job) {
  if (transport.failed())
    return transport.status();
  try {
    if (job.call) {
      job.call();
      return {};
    }
    return job.collective->run(transport, job.buffers.data(), scratch, absent);
  } catch (const std::bad_alloc &) {
    return failure(place(), nameOf(job.id), ": out of memory");
  }
}

CommUsage Communicator::takeUsage() {
  std::lock_guard lock(mutex);
  return std::exchange(usage, {});
}
