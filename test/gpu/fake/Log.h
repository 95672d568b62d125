#pragma once
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <string>

/// A line of the file that DIVISI_FAKE_GPU_LOG names; among several ranks, with .RANK behind.
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

/// For libraries beside the driver: does it now, or when the graph that is recorded runs. `none` if there is no driver.
inline int enqueueOn(void *stream, std::function<int()> work, int none, const char *how = "fakeEnqueue") {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto *function = driver ? (int (*)(void *, std::function<int()> *))dlsym(driver, how) : nullptr;
  return function ? function(stream, &work) : none;
}

/// For libraries beside the driver: whether all of it lies in memory that the driver gave.
inline bool isOnDevice(const void *address, size_t bytes) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto *function = driver ? (int (*)(const void *, size_t))dlsym(driver, "fakeIsWithin") : nullptr;
  return function && function(address, bytes);
}
