//===- Safetensors.h - named tensors in a file ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_SAFETENSORS_H
#define DIVISI_RUNTIME_CHECKPOINT_SAFETENSORS_H

#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/core/DataType.h"
#include "runtime/core/Hash.h"
#include "runtime/core/MappedFile.h"

#include <functional>
#include <map>

namespace divisi::runtime {

/// A mapped safetensors file. Whatever the file contains, every entry is inside of it.
class SafetensorsFile {
public:
  struct Entry {
    DataType dtype = DataType::F32;
    Shape shape;
    const char *data = nullptr;
    size_t bytes = 0;
  };
  static Result<SafetensorsFile> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  /// The whole file, for hashing.
  std::string_view contents() const { return file.text(); }
  /// Releases this range of the file from the process's memory until it is read again.
  void release(size_t offset, size_t bytes) const { file.release(offset, bytes); }
  const std::map<std::string, Entry> &entries() const { return table; }
  const std::map<std::string, std::string> &metadata() const { return notes; }

private:
  explicit SafetensorsFile(MappedFile mapped) : file(std::move(mapped)) {}
  Status parse();

  MappedFile file;
  std::map<std::string, Entry> table;
  std::map<std::string, std::string> notes;
};

/// A tensor to write.
struct NamedTensor {
  std::string name;
  DataType dtype = DataType::F32;
  Shape shape;
  const char *data = nullptr;
  size_t bytes = 0;
};

/// The contents of tensor `index`; they must stay valid until the next call.
using TensorContents = std::function<Result<const char *>(size_t index)>;

/// The order of these tensors in a file.
std::vector<size_t> writingOrder(const std::vector<NamedTensor> &tensors);

/// Writes a file atomically, in steps; its tensors are aligned to their elements. `contents` (else the tensors' own
/// data is used) is called for each tensor once, in `writingOrder`, even if writing fails; its own failure ends the
/// writing. `hasher` (optional) gets all bytes of the file.
class SafetensorsWriter {
public:
  SafetensorsWriter(const std::string &path, std::vector<NamedTensor> tensors,
                    const std::map<std::string, std::string> &metadata = {}, TensorContents contents = {},
                    ChunkHasher *hasher = nullptr);
  /// Writes at most 128 KiB; false: nothing is left, or `contents` has failed. (Failures to write are returned by
  /// `commit`.)
  bool writeMore();
  /// Ends the file. Returns the first failure, and then leaves no file.
  Status commit();

private:
  std::vector<NamedTensor> tensors;
  std::vector<size_t> order; ///< of tensors
  TensorContents contents;
  ChunkHasher *hasher;
  AtomicFile file;
  std::string header;
  std::string_view left; ///< of the header, or of the tensor before `tensor`
  size_t tensor = 0;     ///< in `order`: the next one
  Status failed;         ///< of contents
};

/// Writes a whole file.
Status writeSafetensors(const std::string &path, const std::vector<NamedTensor> &tensors,
                        const std::map<std::string, std::string> &metadata = {}, const TensorContents &contents = {},
                        ChunkHasher *hasher = nullptr);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_SAFETENSORS_H
