//===- TokenFiles.h - sequences of tokens in files --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_TOKENFILES_H
#define DIVISI_RUNTIME_DATA_TOKENFILES_H

#include "runtime/core/MappedFile.h"
#include "runtime/data/DataFile.h"

#include <memory>

namespace divisi::runtime {

/// Whether a path names token files: it ends in ".bin".
bool isTokenPath(std::string_view path);

/// Mapped files of tokens: numbers of 16 or 32 bits, one after the other, as nanoGPT writes them, or behind the header
/// of llm.c, which says how many there are.
class TokenFiles {
public:
  /// Opens the files in the order of `paths`; a pattern (`*`, `?`, `[...]`) stands for all files that it matches, by
  /// name. `type` is that of files without a header.
  static Result<std::shared_ptr<TokenFiles>> open(const std::vector<std::string> &paths, DataType type);

  struct File {
    MappedFile mapped;
    DataType type;
    int64_t start;  ///< of the tokens, in bytes
    int64_t tokens; ///< their number
    bool hasHeader;
    int64_t token(int64_t position) const;
    /// Whether tokens that were read as 16 bits each are probably halves of 32 bits: the upper ones are 0.
    bool looksWide() const;
  };
  const std::vector<File> &files() const { return all; }

private:
  static Result<File> openFile(const std::string &path, DataType type);
  std::vector<File> all;
};

/// Windows of consecutive tokens, each of which begins where the one before it ends; none crosses the end of a file. A
/// token follows each window, so that `shift` 1 gives the next token of each.
class TokenWindows : public DataFile {
public:
  TokenWindows(std::shared_ptr<const TokenFiles> files, int64_t window, int64_t shift);

  const std::string &path() const override { return files->files().front().mapped.path(); }
  int64_t samples() const override { return ends.back(); }
  size_t bytes() const override;
  bool hasManySamples() const override { return true; }
  Status read(int64_t from, int64_t count, char *to, DataType type) const override;
  std::string describe(int64_t element, int64_t value) const override;
  void willNeed(int64_t from, int64_t count) const override;
  void willNeedAll() const override;
  void release() const override;

private:
  struct Place {
    const TokenFiles::File &file;
    int64_t position;
  };
  Place placeOf(int64_t element) const;

  std::shared_ptr<const TokenFiles> files;
  int64_t window, shift;
  std::vector<int64_t> ends; ///< the number of windows up to the end of each file
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_TOKENFILES_H
