//===- DataFile.h - what an input is fed from -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_DATAFILE_H
#define DIVISI_RUNTIME_DATA_DATAFILE_H

#include "runtime/core/DataType.h"
#include "runtime/core/Status.h"

namespace divisi::runtime {

/// The elements of an input in one file or several, one sample after the other; they may be larger than memory.
class DataFile {
public:
  virtual ~DataFile() = default;

  /// The path, for messages.
  virtual const std::string &path() const = 0;
  virtual int64_t samples() const = 0;
  /// What it maps of the process's memory.
  virtual size_t bytes() const { return 0; }
  /// Whether an order of all samples may be too large for memory.
  virtual bool hasManySamples() const { return false; }
  /// Copies `count` elements of one sample, from element `from` of the whole on, converted to `type`.
  virtual Status read(int64_t from, int64_t count, char *to, DataType type) const = 0;
  /// The value of an element and its place, as the beginning of a message.
  virtual std::string describe(int64_t element, int64_t value) const = 0;
  /// Requests that the system reads these elements of one sample ahead. Here and below: where files are mapped.
  virtual void willNeed(int64_t from, int64_t count) const { (void)from, (void)count; }
  virtual void willNeedAll() const {}
  /// Releases what was read from the process's memory.
  virtual void release() const {}
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_DATAFILE_H
