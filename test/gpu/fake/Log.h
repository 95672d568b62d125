#pragma once
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <set>
#include <string>

/// Writes a line to the file that DIVISI_FAKE_GPU_LOG names; with several ranks, .RANK is appended.
__attribute__((format(printf, 1, 2))) inline void record(const char *format, ...) {
  static FILE *file = [] {
    const char *path = std::getenv("DIVISI_FAKE_GPU_LOG"), *rank = std::getenv("RANK");
    return path ? std::fopen((std::string(path) + (rank ? std::string(".") + rank : "")).c_str(), "a") : nullptr;
  }();
  if (!file)
    return;
  flockfile(file); // threads of streams write, too
  std::va_list arguments;
  va_start(arguments, format);
  std::vfprintf(file, format, arguments);
  va_end(arguments);
  std::fputc('\n', file);
  std::fflush(file);
  funlockfile(file);
}

/// For the other fake libraries: does the work now, or when the recorded graph runs. Returns `none` if there is no
/// driver.
inline int enqueueOn(void *stream, std::function<int()> work, int none, const char *how = "fakeEnqueue") {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto *function = driver ? (int (*)(void *, std::function<int()> *))dlsym(driver, how) : nullptr;
  return function ? function(stream, &work) : none;
}

/// For the other fake libraries: a shape or a function of theirs is used for the first time.
inline void noteFirstUse(const std::string &what) {
  static std::set<std::string> known;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto *function = driver ? (void (*)(const char *))dlsym(driver, "fakeFirstUse") : nullptr;
  if (function && known.insert(what).second)
    function(("use of " + what).c_str());
}

/// For the other fake libraries: the version of CUDA that the driver supports, such as 13000.
inline int driverVersion() {
  const char *text = std::getenv("DIVISI_FAKE_GPU_DRIVER");
  return text ? std::atoi(text) : 13000;
}

/// For the other fake libraries: whether requests on a stream become part of a graph.
inline bool isCapturing(void *stream) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto *function = driver ? (int (*)(void *))dlsym(driver, "fakeIsCapturing") : nullptr;
  return function && function(stream);
}

/// For the other fake libraries: whether the whole range is in memory that the driver allocated.
inline bool isOnDevice(const void *address, size_t bytes) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto *function = driver ? (int (*)(const void *, size_t))dlsym(driver, "fakeIsWithin") : nullptr;
  return function && function(address, bytes);
}
