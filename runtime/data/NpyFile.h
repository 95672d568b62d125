//===- NpyFile.h - NumPy arrays in files ------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_NPYFILE_H
#define DIVISI_RUNTIME_DATA_NPYFILE_H

#include "runtime/core/DataType.h"
#include "runtime/core/MappedFile.h"

namespace divisi::runtime {

/// The first bytes of a `.npy` file (version 1) of an array; null for a type or a shape that it cannot have.
std::optional<std::string> npyHeader(DataType type, const Shape &shape);

/// A mapped `.npy` file of version 1 to 3; arrays may be larger than memory. Little-endian numbers in C order.
class NpyFile {
public:
  static Result<NpyFile> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  DataType dtype() const { return type; }
  const Shape &shape() const { return sizes; }
  const char *data() const { return file.data() + start; }
  size_t bytes() const { return file.size() - start; }
  void willNeed(size_t offset, size_t count) const { file.willNeed(start + offset, count); }
  void release() const { file.release(0, file.size()); }

private:
  explicit NpyFile(MappedFile mapped) : file(std::move(mapped)) {}
  Status parse();

  MappedFile file;
  DataType type = DataType::F32;
  Shape sizes;
  size_t start = 0;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_NPYFILE_H
