// The memory that a feeder of batches shares: words of its header and of two batches at their places in docs/data.md,
// which may lie.
#include "runtime/data/BatchRing.h"
#include "test/fuzz/parsers/Input.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace divisi;
using namespace divisi::runtime;

namespace {
constexpr uint64_t textBytes = uint64_t(1) << 20, counters = 4096 + textBytes;
constexpr uint64_t inputs = 64 + textBytes, slotBytes = inputs + 64 + 128;
constexpr uint64_t head = (counters + 64 + 4095) / 4096 * 4096;

/// What the input says; a word that it lacks is zero.
struct Words {
  uint64_t magic, slots, slotBytes, ranks, produced, closed, taken, bytes, flags[2], lengths[2];
  uint64_t locked; ///< whether the feeder lives
  char text[32];
};
constexpr Words sound = {0x31474e4952564944, 2, slotBytes, 1, 2, 1, 0, head + 2 * slotBytes, {0, 3}, {4, 0}, 1, "here"};

/// The descriptor of a lock that another process seems to hold.
int lock(const std::string &path) {
  int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (file < 0 || ::fcntl(file, F_OFD_SETLK, &whole) != 0)
    std::_Exit(2);
  return file;
}

void write(const std::string &path, const Words &words) {
  int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  auto put = [&](const void *bytes, size_t count, uint64_t at) {
    if (::pwrite(file, bytes, count, static_cast<off_t>(at)) != static_cast<ssize_t>(count))
      std::_Exit(2);
  };
  const uint64_t first[] = {words.magic, words.slots, words.slotBytes, words.ranks};
  put(first, sizeof first, 0);
  put(&words.produced, 8, 64);
  put(&words.closed, 8, 128);
  put(&words.taken, 8, counters);
  for (uint64_t slot : {0, 1}) {
    put(&words.flags[slot], 8, head + slot * slotBytes);
    put(&words.lengths[slot], 8, head + slot * slotBytes + 8);
    put(words.text, sizeof words.text, head + slot * slotBytes + 64);
  }
  if (::ftruncate(file, static_cast<off_t>(words.bytes % (4 * slotBytes))) != 0)
    std::_Exit(2);
  ::close(file);
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Words words = {};
  std::memcpy(&words, data, std::min(size, sizeof words));
  std::string path = fuzz::fileOf("");
  write(path, words);
  int held = words.locked % 8 ? lock(path) : -1;
  if (auto ring = BatchRing::open(path, {60, 128}, 1, 0); ring.ok()) {
    int asked = 0;
    (*ring)->interruptBy([&] { return ++asked > 1; });
    (*ring)->begin({3, 1, 2, std::string(words.text, sizeof words.text)});
    for (int batch = 0; batch < 3; ++batch) {
      auto found = (*ring)->next();
      if (!found.ok() || !*found)
        break;
      fuzz::use((*ring)->input(0), 60);
      fuzz::use((*ring)->input(1), 128);
      fuzz::use((*ring)->position().data(), (*ring)->position().size());
      (*ring)->release();
      if ((*ring)->isLast() && held >= 0)
        ::close(std::exchange(held, -1)); // the feeder ends
    }
    (*ring)->takeSeconds();
  }
  if (held >= 0)
    ::close(held);
  return 0;
}

/// In most cases a sound ring with one word or two of the input.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, std::min(most, sizeof(Words)));
  if (seed % 4 == 0 || most < sizeof(Words))
    return size;
  Words words = sound;
  for (unsigned choice : {seed / 4, seed / 128})
    if (size_t at = choice % (sizeof words / 8) * 8; at + 8 <= size)
      std::memcpy(reinterpret_cast<char *>(&words) + at, data + at, 8);
  std::memcpy(data, &words, sizeof words);
  return sizeof words;
}
