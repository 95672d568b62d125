#include "runtime/comm/tcp/Ring.h"
#include "runtime/comm/tcp/Secret.h"
#include "runtime/core/Status.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
/// Nobody can make the memory smaller, under which the other side would crash.
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Copies between a stream's position in a ring and other memory, in two parts where the ring ends.
template <typename Copy>
void copyAround(uint64_t position, size_t bytes, Copy copy) {
  const size_t at = position % Ring::capacity, first = std::min(bytes, Ring::capacity - at);
  copy(at, 0, first);
  if (bytes > first)
    copy(0, first, bytes - first);
}
} // namespace

size_t Ring::write(const void *data, size_t bytes) {
  const uint64_t at = memory.written.load(std::memory_order_relaxed);
  const uint64_t used = at - memory.taken.load(std::memory_order_acquire);
  bytes = std::min<size_t>(bytes, used < capacity ? capacity - used : 0);
  copyAround(at, bytes, [&](size_t to, size_t from, size_t count) {
    std::memcpy(memory.bytes.data() + to, static_cast<const char *>(data) + from, count);
  });
  memory.written.store(at + bytes, std::memory_order_release);
  return bytes;
}

size_t Ring::read(void *data, size_t bytes) {
  const uint64_t at = memory.taken.load(std::memory_order_relaxed);
  const uint64_t left = memory.written.load(std::memory_order_acquire) - at;
  bytes = std::min<size_t>({bytes, left, capacity});
  copyAround(at, bytes, [&](size_t from, size_t to, size_t count) {
    std::memcpy(static_cast<char *>(data) + to, memory.bytes.data() + from, count);
  });
  memory.taken.store(at + bytes, std::memory_order_release);
  return bytes;
}

/// New memory is zero: rings without bytes.
struct RingPair::Mapped {
  std::array<char, 32> token;
  Ring::Memory toSecond, toFirst;

  /// Maps the memory of a descriptor; null if that fails.
  static Mapped *of(int descriptor) {
    void *mapped = ::mmap(nullptr, sizeof(Mapped), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<Mapped *>(mapped);
  }
};

RingPair::RingPair(Mapped &mapped, bool isFirst)
    : mapped(mapped), out_(isFirst ? mapped.toSecond : mapped.toFirst), in_(isFirst ? mapped.toFirst : mapped.toSecond) {}

RingPair::~RingPair() {
  close();
  ::munmap(&mapped, sizeof(Mapped));
}

void RingPair::close() {
  if (offer_.process != 0)
    ::close(offer_.descriptor);
  offer_ = {};
}

std::unique_ptr<RingPair> RingPair::make() {
  rlimit largest = {}; // a larger file would be answered by a signal
  if (::getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < sizeof(Mapped))
    return nullptr;
  Result<std::string> token = randomDigits(sizeof offer_.token);
  const int descriptor = ::memfd_create("divisi-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0)
    return nullptr;
  const bool isReady = token.ok() && ::ftruncate(descriptor, sizeof(Mapped)) == 0 && ::fcntl(descriptor, F_ADD_SEALS, seals) == 0;
  Mapped *mapped = isReady ? Mapped::of(descriptor) : nullptr;
  if (!mapped) {
    ::close(descriptor);
    return nullptr;
  }
  std::unique_ptr<RingPair> pair(new RingPair(*mapped, true));
  pair->offer_ = {::getpid(), descriptor};
  std::copy_n(token->begin(), pair->offer_.token.size(), pair->offer_.token.begin());
  mapped->token = pair->offer_.token;
  return pair;
}

std::unique_ptr<RingPair> RingPair::open(const RingOffer &offer) {
  // In another system's /proc the number may be that of anything, so it is looked at before it is opened.
  const int place = ::open(concat("/proc/", offer.process, "/fd/", offer.descriptor).c_str(), O_PATH | O_CLOEXEC);
  struct stat info = {};
  const bool isFile = place >= 0 && ::fstat(place, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == sizeof(Mapped);
  const int descriptor = isFile ? ::open(concat("/proc/self/fd/", place).c_str(), O_RDWR | O_CLOEXEC) : -1;
  const bool isSealed = descriptor >= 0 && (::fcntl(descriptor, F_GET_SEALS) & seals) == seals;
  Mapped *mapped = isSealed ? Mapped::of(descriptor) : nullptr;
  for (int opened : {place, descriptor})
    if (opened >= 0)
      ::close(opened);
  if (!mapped)
    return nullptr;
  std::unique_ptr<RingPair> pair(new RingPair(*mapped, false));
  return mapped->token == offer.token ? std::move(pair) : nullptr;
}
