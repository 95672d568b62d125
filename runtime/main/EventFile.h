//===- EventFile.h - curves for TensorBoard ---------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_EVENTFILE_H
#define DIVISI_RUNTIME_MAIN_EVENTFILE_H

#include "runtime/core/Status.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace divisi::runtime {

/// The checksum of TensorFlow's records: CRC-32C (Castagnoli), rotated and with a constant added.
uint32_t maskedCrc32c(std::string_view bytes);

/// A file of TensorBoard's events: records of TensorFlow with messages of the type tensorflow.Event.
class EventFile {
public:
  /// Creates a file of a new name in `folder`, and the folder. Events of `firstStep` and later steps in older files of
  /// the folder are repeated.
  static Result<EventFile> create(const std::string &folder, int64_t firstStep);
  /// Adds the values of a step by name.
  Status add(int64_t step, const std::vector<std::pair<std::string, double>> &values);

private:
  /// Writes an event with the time, a step and other fields.
  Status write(int64_t step, const std::string &fields);

  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file;
  std::string path;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_EVENTFILE_H
