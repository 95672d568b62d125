//===- Util.h - what tests of the runtime share -----------------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_UTIL_H
#define DIVISI_TEST_RUNTIME_UTIL_H

#include "runtime/core/DataType.h"
#include "runtime/core/Status.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace divisi::test {

/// A folder that is removed after the test.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "divisi-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string &name) const { return (path / name).string(); }
  std::filesystem::path path;
};

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void writeBytes(const std::string &path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

/// The bytes that NumPy would write, version 1.
inline std::string npyBytes(const std::string &descr, const runtime::Shape &shape, std::string_view data) {
  std::string tuple;
  for (int64_t size : shape)
    tuple.append(std::to_string(size)).append(", ");
  std::string header = runtime::concat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", tuple, "), }");
  header.resize((header.size() + 10 + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + std::string(data);
}

/// A device of the test's own on which every write fails because the disk is full; empty if it cannot be created. It is
/// never the system's device, which an error in the tested code could replace.
inline std::string fullDevice(const TemporaryFolder &folder) {
  std::string path = folder / "full";
  if (mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 7)) == 0)
    if (int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC); fd >= 0) {
      close(fd);
      return path;
    }
  return geteuid() == 0 ? "" : "/dev/full";
}

template <typename T> std::string_view bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
void writeNpy(const std::string &path, const std::string &descr, const runtime::Shape &shape,
              const std::vector<T> &values) {
  writeBytes(path, npyBytes(descr, shape, bytesOf(values)));
}

/// Random numbers in [-1, 1).
template <typename T = float> std::vector<T> randomNumbers(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> distribution(-1, 1);
  std::vector<T> values(count);
  for (T &value : values)
    value = static_cast<T>(distribution(generator));
  return values;
}

/// The largest difference, relative to the largest value of `want`.
template <typename A, typename B> double worstError(const A &got, const B &want) {
  double scale = 1e-30, worst = got.size() == want.size() ? 0 : INFINITY;
  for (auto w : want)
    scale = std::max(scale, std::fabs(static_cast<double>(w)));
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    double error = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error / scale);
  }
  return worst;
}

/// GoogleTest's predicate for results: prints the message of a failure.
inline testing::AssertionResult succeeded(const runtime::Status &status) {
  if (status.ok())
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << status.message();
}
template <typename T> testing::AssertionResult succeeded(const runtime::Result<T> &result) {
  if (result.ok())
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << result.status().message();
}
/// Checks that it is a failure whose message contains these words.
template <typename T> testing::AssertionResult failsWith(const T &result, const std::string &words) {
  if (result.ok())
    return testing::AssertionFailure() << "it succeeded";
  std::string message;
  if constexpr (std::is_same_v<T, runtime::Status>)
    message = result.message();
  else
    message = result.status().message();
  if (message.find(words) == std::string::npos || message.find('\n') != std::string::npos)
    return testing::AssertionFailure() << "the message is: " << message;
  return testing::AssertionSuccess();
}

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_UTIL_H
