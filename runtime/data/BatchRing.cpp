#include "runtime/data/BatchRing.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace divisi::runtime;

namespace {
// The layout of docs/data.md: offsets of words of 64 bits, little-endian.
constexpr uint64_t magic = 0x31474e4952564944; // "DIVRING1"
constexpr size_t slotsAt = 8, slotBytesAt = 16, ranksAt = 24;
constexpr size_t producedAt = 64, closedAt = 128, readyAt = 192;
constexpr size_t stepAt = 200, epochAt = 208, batchAt = 216, startLengthAt = 224;
constexpr size_t startTextAt = 4096, textBytes = size_t(1) << 20;
constexpr size_t countersAt = startTextAt + textBytes, line = 64;
/// Of a slot.
constexpr size_t flagsAt = 0, lengthAt = 8, textAt = line, inputsAt = line + textBytes;

constexpr size_t align(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
bool isText(const std::string &text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}
} // namespace

Result<std::unique_ptr<BatchRing>> BatchRing::open(const std::string &path, const std::vector<int64_t> &inputBytes,
                                                   int64_t ranks, int64_t rank) {
  std::unique_ptr<BatchRing> ring(new BatchRing);
  ring->where = path;
  ring->fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  struct stat info = {};
  if (ring->fd < 0 || fstat(ring->fd, &info) != 0)
    return failure("cannot open '", path, "': ", systemError());
  if (!S_ISREG(info.st_mode) || info.st_size < static_cast<off_t>(countersAt + line))
    return failure("'", path, "' is no ring of batches");
  ring->size = static_cast<size_t>(info.st_size);
  void *mapped = mmap(nullptr, ring->size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
  if (mapped == MAP_FAILED)
    return failure("cannot map '", path, "': ", systemError());
  ring->memory = static_cast<char *>(mapped);
  if (Status status = ring->check(inputBytes, ranks); !status.ok())
    return status;
  ring->mine = countersAt + static_cast<size_t>(rank) * line;
  if (ring->load(ring->mine) != 0)
    return failure("'", path, "' was read before: each run needs a ring of its own");
  if (!ring->feederLives())
    return failure("'", path, "': the process that feeds it has ended, or does not hold a lock on it");
  return ring;
}

BatchRing::~BatchRing() {
  if (memory)
    munmap(memory, size);
  if (fd >= 0)
    close(fd);
}

Status BatchRing::check(const std::vector<int64_t> &inputBytes, int64_t ranks) {
  if (load(0) != magic)
    return failure("'", where, "' is no ring of batches");
  size_t end = inputsAt;
  for (int64_t bytes : inputBytes) {
    offsets.push_back(end);
    end += align(static_cast<size_t>(bytes), line);
  }
  uint64_t hasSlots = load(slotsAt), hasBytes = load(slotBytesAt), hasRanks = load(ranksAt);
  if (hasRanks != static_cast<uint64_t>(ranks))
    return failure("'", where, "' is for ", hasRanks, " ranks, and this program has ", ranks);
  if (hasBytes != end)
    return failure("'", where, "' has batches of ", hasBytes, " bytes, and this program takes ", end);
  headBytes = align(countersAt + static_cast<size_t>(ranks) * line, 4096);
  slotBytes = end;
  if (size < headBytes || hasSlots < 1 || hasSlots != (size - headBytes) / slotBytes)
    return failure("'", where, "' is damaged: it does not have room for ", hasSlots, " batches");
  slots = hasSlots;
  return {};
}

uint64_t BatchRing::load(size_t offset) const {
  return std::atomic_ref(*reinterpret_cast<uint64_t *>(memory + offset)).load(std::memory_order_acquire);
}

void BatchRing::store(size_t offset, uint64_t value) {
  std::atomic_ref(*reinterpret_cast<uint64_t *>(memory + offset)).store(value, std::memory_order_release);
}

char *BatchRing::slot() const {
  return memory + headBytes + (static_cast<size_t>(count - 1) % slots) * slotBytes;
}

bool BatchRing::feederLives() const {
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void BatchRing::begin(const Start &start) {
  store(stepAt, static_cast<uint64_t>(start.step));
  store(epochAt, static_cast<uint64_t>(start.epoch));
  store(batchAt, static_cast<uint64_t>(start.batch));
  size_t length = std::min(start.position.size(), textBytes);
  std::memcpy(memory + startTextAt, start.position.data(), length);
  store(startLengthAt, length);
  store(readyAt, 1);
}

Result<bool> BatchRing::next() {
  using namespace std::chrono;
  auto wanted = static_cast<uint64_t>(count) + 1;
  began = steady_clock::now();
  auto looked = began;
  auto pause = microseconds(20);
  for (bool first = true; load(producedAt) < wanted; first = false) {
    // What was produced before the ring was closed counts.
    if (load(closedAt) != 0 && load(producedAt) < wanted) {
      closed = true;
      return false;
    }
    if (interrupted && interrupted())
      return false;
    auto now = steady_clock::now();
    if (first || now - looked > milliseconds(100)) {
      looked = now;
      if (!feederLives() && load(producedAt) < wanted)
        return failure("the process that feeds the program has ended: training stops");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, microseconds(500));
  }
  count = static_cast<int64_t>(wanted);
  if (Status status = readFacts(); !status.ok())
    return status;
  return true;
}

Status BatchRing::readFacts() {
  auto at = static_cast<size_t>(slot() - memory);
  flags = load(at + flagsAt);
  uint64_t length = load(at + lengthAt);
  if (length > textBytes)
    return failure("batch ", count, " of '", where, "' is damaged: its position has ", length, " bytes");
  positionText.assign(slot() + textAt, length);
  if (!isText(positionText))
    return failure("batch ", count, " of '", where, "' is damaged: its position is no text");
  return {};
}

void BatchRing::release() {
  store(mine, static_cast<uint64_t>(count));
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

double BatchRing::takeSeconds() { return std::exchange(seconds, 0.0); }
