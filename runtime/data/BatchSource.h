//===- BatchSource.h - batches from files -----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_BATCHSOURCE_H
#define DIVISI_RUNTIME_DATA_BATCHSOURCE_H

#include "runtime/core/Manifest.h"
#include "runtime/data/NpyFile.h"

#include <functional>
#include <map>

namespace divisi::runtime {

/// Where training stands in its data: enough to go on with exactly the next batch.
struct Cursor {
  int64_t epoch = 0; ///< finished epochs
  int64_t batch = 0; ///< finished batches of this epoch
};

/// One file per input. Sample i is row i of every file (or as many rows as the input has for each sample of a batch);
/// an input whose rows are not samples is the same in every batch. Files are those of the whole batch; a rank loads its
/// piece.
class BatchSource {
public:
  /// `files` maps names of inputs to files; `flag` (--data, --eval) is for messages. `note` hears of conversions.
  static Result<BatchSource> open(const Manifest &manifest, const std::map<std::string, std::string> &files,
                                  const std::string &flag, const std::function<void(const std::string &)> &note);

  int64_t samples() const { return sampleCount; }
  /// Full batches of an epoch.
  int64_t fullBatches() const { return sampleCount / batch; }
  /// Batches of an epoch, an incomplete last one included.
  int64_t allBatches() const { return (sampleCount + batch - 1) / batch; }

  /// Orders samples by (seed, epoch); without a call they come as they lie in the files.
  void shuffle(uint64_t seed, uint64_t epoch);
  /// Copies batch `index` to the inputs' places in the arena; rows that it lacks become padding.
  Status load(int64_t index, char *arena, int64_t &rows);

private:
  struct Feed {
    Input input;
    NpyFile file;
    bool constant = false;
    Slice piece = {};                    ///< what this rank has of the batch
    Slice row = {};                      ///< and of one row of it
    int64_t microbatches = 1, first = 0; ///< that it has, and the first of them
    int64_t microbatchRows = 0;          ///< of the whole batch
    int64_t rows = 0, firstRow = 0;      ///< that it has of each microbatch
    int64_t rowElements = 1;             ///< of a row of the file
    int64_t rowsEach = 1;                ///< rows of a sample
  };
  int64_t sampleAt(int64_t position) const { return order.empty() ? position : order[static_cast<size_t>(position)]; }
  static Result<Feed> openFeed(const Manifest &manifest, const Input &input, const std::string &flag,
                               const std::string &path);
  /// `count` elements of the file from element `from` on, checked.
  Status copy(const Feed &feed, int64_t from, char *to, int64_t count) const;
  /// A piece of the tensor that begins at element `from` of the file.
  Status copy(const Feed &feed, const Slice &slice, int64_t from, char *to) const;
  /// This rank's rows of the batch that begins at sample `begin` and has `rows` of them.
  Status loadRows(const Feed &feed, int64_t begin, int64_t rows, char *to) const;
  /// The same for rows [`from`, `to`) of the batch; returns how many there are.
  Result<int64_t> loadRun(const Feed &feed, int64_t begin, int64_t rows, int64_t from, int64_t to, char *place) const;
  void readAhead(int64_t index) const;

  std::vector<Feed> feeds;
  std::vector<uint32_t> order;
  int64_t batch = 1, sampleCount = 0;
  bool large = false; ///< too large to stay in memory
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_BATCHSOURCE_H
