//===- NpySamples.h - samples in a .npy file --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_NPYSAMPLES_H
#define DIVISI_RUNTIME_DATA_NPYSAMPLES_H

#include "runtime/data/DataFile.h"
#include "runtime/data/NpyFile.h"

namespace divisi::runtime {

/// The rows of a `.npy` file, of which each sample has `rowsEach` with `rowElements` elements.
class NpySamples : public DataFile {
public:
  NpySamples(NpyFile file, int64_t rowsEach, int64_t rowElements)
      : file(std::move(file)), rowsEach(rowsEach), rowElements(rowElements) {}
  /// Whether the types are equal, or the conversion is one of the two that are allowed.
  static bool isConvertible(DataType from, DataType to);

  const std::string &path() const override { return file.path(); }
  int64_t samples() const override { return file.shape()[0] / rowsEach; }
  size_t bytes() const override { return file.bytes(); }
  Status read(int64_t from, int64_t count, char *to, DataType type) const override;
  std::string describe(int64_t element, int64_t value) const override;
  void willNeed(int64_t from, int64_t count) const override;
  void willNeedAll() const override { file.willNeed(0, file.bytes()); }
  void release() const override { file.release(); }

private:
  /// Converts F64 to F32; fails for what would become infinite.
  Status narrow(const char *begin, int64_t from, int64_t count, char *to) const;

  NpyFile file;
  int64_t rowsEach, rowElements;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_NPYSAMPLES_H
