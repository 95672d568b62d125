//===- CsvFile.h - columns of a CSV file ------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_CSVFILE_H
#define DIVISI_RUNTIME_DATA_CSVFILE_H

#include "runtime/core/MappedFile.h"
#include "runtime/data/DataFile.h"

#include <memory>
#include <vector>

namespace divisi::runtime {

/// Splits "FILE.csv:COLUMN,COLUMN" into the file and its columns, which may be absent; null for other paths.
struct CsvPath {
  std::string file;
  std::vector<std::string> columns;
};
std::optional<CsvPath> parseCsvPath(const std::string &path);

/// A mapped CSV file (RFC 4180; also with semicolons or tabs) whose first line names the columns. Its rows are found
/// once; every 64th is remembered.
class CsvFile {
public:
  static Result<std::shared_ptr<CsvFile>> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  const std::vector<std::string> &header() const { return names; }
  int64_t rows() const { return rowCount; }
  const MappedFile &mapped() const { return file; }
  /// The fields of a row, as they stand in the file.
  std::vector<std::string_view> row(int64_t index) const;
  /// The text of such a field: without its quotes, of which those inside are doubled, and without blanks around it.
  std::string textOf(std::string_view field) const;
  /// The offset of a row that is not behind this one.
  size_t near(int64_t index) const { return starts[static_cast<size_t>(index / step)]; }

private:
  static constexpr int64_t step = 64;
  explicit CsvFile(MappedFile mapped) : file(std::move(mapped)) {}
  Status readHeader();
  /// Fails if quotes are open at the end of the file.
  Status findRows();
  /// The end of the row that begins at an offset: that of its newline, or of the file; npos if it
  /// opens quotes that nothing closes.
  size_t endOf(size_t begin) const;
  std::vector<std::string_view> fieldsOf(std::string_view line) const;

  MappedFile file;
  std::vector<std::string> names;
  char delimiter = ',';
  size_t first = 0; ///< the offset of the first row
  int64_t rowCount = 0;
  std::vector<size_t> starts; ///< of every `step`-th row
};

/// Some columns of a file as the elements of a sample.
class CsvSamples : public DataFile {
public:
  /// The columns that `wanted` names (each a pattern with * and ?).
  static Result<std::shared_ptr<CsvSamples>> select(std::shared_ptr<const CsvFile> file,
                                                    const std::vector<std::string> &wanted);
  size_t columns() const { return indices.size(); }

  const std::string &path() const override { return file->path(); }
  int64_t samples() const override { return file->rows(); }
  size_t bytes() const override { return file->mapped().size(); }
  bool hasManySamples() const override { return true; }
  Status read(int64_t from, int64_t count, char *to, DataType type) const override;
  std::string describe(int64_t element, int64_t value) const override;
  void willNeed(int64_t from, int64_t count) const override;
  void willNeedAll() const override { file->mapped().willNeed(0, file->mapped().size()); }
  void release() const override { file->mapped().release(0, file->mapped().size()); }

private:
  explicit CsvSamples(std::shared_ptr<const CsvFile> file) : file(std::move(file)) {}
  /// Where an element is, for messages.
  std::string placeOf(int64_t element) const;

  std::shared_ptr<const CsvFile> file;
  std::vector<size_t> indices; ///< of the columns
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_CSVFILE_H
