#pragma once
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

/// A line of the file that DIVISI_FAKE_GPU_LOG names.
__attribute__((format(printf, 1, 2))) inline void record(const char *format, ...) {
  static FILE *file = [] {
    const char *path = std::getenv("DIVISI_FAKE_GPU_LOG");
    return path ? std::fopen(path, "a") : nullptr;
  }();
  if (!file)
    return;
  std::va_list arguments;
  va_start(arguments, format);
  std::vfprintf(file, format, arguments);
  va_end(arguments);
  std::fputc('\n', file);
  std::fflush(file);
}
