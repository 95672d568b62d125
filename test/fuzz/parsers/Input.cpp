#include "test/fuzz/parsers/Input.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using namespace divisi;

/// Ends the fuzzer if it cannot write its inputs: it would otherwise pass without testing anything.
static void expect(bool good) {
  if (!good) {
    std::perror("fuzzer");
    std::_Exit(2);
  }
}

std::string fuzz::fileOf(std::string_view bytes) {
  static int file = -1;
  if (file >= 0)
    ::close(file); // a new one each time: a mapping of the old one must not change
  file = ::memfd_create("input", MFD_CLOEXEC);
  expect(file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  return "/proc/self/fd/" + std::to_string(file);
}

const std::string &fuzz::temporary() {
  static const struct Folder {
    Folder() {
      path = std::filesystem::exists("/dev/shm") ? "/dev/shm/fuzz-XXXXXX" : "/tmp/fuzz-XXXXXX";
      expect(::mkdtemp(path.data()) != nullptr);
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::string path;
  } folder;
  return folder.path;
}

void fuzz::write(const std::string &path, std::string_view bytes) {
  FILE *file = std::fopen(path.c_str(), "wb");
  expect(file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fclose(file) == 0);
}

size_t fuzz::mutateJson(uint8_t *data, size_t size, size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 3 == 0)
    return LLVMFuzzerMutate(data, size, most);
  static const char *const words[] = {"0",    "-1",  "1",      "4",    "[]",        "{}",   "null", "true",
                                      "\"\"", "1e9", "[0, 1]", "[[]]", "9223372036854775807", "18446744073709551615",
                                      "1.5",  "[4]", "\"F32\"", "\"x\"", "[[0]]", "64"};
  std::string_view text = fuzz::text(data, size);
  size_t from = text.find_first_of(":,[", random() % (size + 1));
  if (from == std::string_view::npos)
    return LLVMFuzzerMutate(data, size, most);
  size_t to = text.find_first_of(",]}", ++from);
  std::string_view word = words[random() % std::size(words)];
  if (to == std::string_view::npos || size - (to - from) + word.size() > most)
    return LLVMFuzzerMutate(data, size, most);
  std::string tail(text.substr(to));
  std::memcpy(data + from, word.data(), word.size());
  std::memcpy(data + from + word.size(), tail.data(), tail.size());
  return from + word.size() + tail.size();
}

void fuzz::use(const char *data, size_t size) {
  volatile unsigned char sum = 0;
  for (size_t i = 0; i < size; ++i)
    sum = static_cast<unsigned char>(sum + static_cast<unsigned char>(data[i]));
}
