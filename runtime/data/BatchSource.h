//===- BatchSource.h - batches from files -----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_BATCHSOURCE_H
#define DIVISI_RUNTIME_DATA_BATCHSOURCE_H

#include "runtime/core/Manifest.h"
#include "runtime/data/NpyFile.h"

#include <functional>
#include <map>

namespace divisi::runtime {

/// The position of training in its data, from which it can be resumed exactly.
struct Cursor {
  int64_t epoch = 0; ///< finished epochs
  int64_t batch = 0; ///< finished batches of this epoch
};

/// One file for each input. Sample i is row i of every file (or as many rows as the input has for each sample of a
/// batch); an input whose rows are not samples is the same in every batch. Files contain the whole batch; a rank loads
/// its shard.
class BatchSource {
public:
  /// `files` maps names of inputs to files; `flag` (--data, --eval) is for messages. `note` is called with messages
  /// about conversions.
  static Result<BatchSource> open(const Manifest &manifest, const std::map<std::string, std::string> &files,
                                  const std::string &flag, const std::function<void(const std::string &)> &note);

  int64_t samples() const { return sampleCount; }
  /// The number of full batches of an epoch.
  int64_t fullBatches() const { return sampleCount / batch; }
  /// The number of batches of an epoch, including an incomplete last one.
  int64_t allBatches() const { return (sampleCount + batch - 1) / batch; }

  /// Orders the samples by (seed, epoch); otherwise they have the files' order.
  void shuffle(uint64_t seed, uint64_t epoch);
  /// Copies batch `index` to the inputs' places in the arena; missing rows are filled with padding. Returns the number
  /// of valid rows in `rows`.
  Status load(int64_t index, char *arena, int64_t &rows);

private:
  struct Feed {
    Input input;
    NpyFile file;
    bool constant = false;
    Slice piece = {};                    ///< this rank's shard of the batch
    Slice row = {};                      ///< and of one row
    int64_t microbatches = 1, first = 0; ///< number of microbatches of the shard, and the first
    int64_t microbatchRows = 0;          ///< of the whole batch
    int64_t rows = 0, firstRow = 0;      ///< of the shard in each microbatch
    int64_t rowElements = 1;             ///< in a row of the file
    int64_t rowsEach = 1;                ///< rows of a sample
  };
  int64_t sampleAt(int64_t position) const { return order.empty() ? position : order[static_cast<size_t>(position)]; }
  static Result<Feed> openFeed(const Manifest &manifest, const Input &input, const std::string &flag,
                               const std::string &path);
  /// Copies `count` elements of the file from element `from` on, and checks them.
  Status copy(const Feed &feed, int64_t from, char *to, int64_t count) const;
  /// Copies a slice of the tensor that begins at element `from` of the file.
  Status copy(const Feed &feed, const Slice &slice, int64_t from, char *to) const;
  /// Copies this rank's rows of the batch that begins at sample `begin` and has `rows` rows.
  Status loadRows(const Feed &feed, int64_t begin, int64_t rows, char *to) const;
  /// The same for rows [`from`, `to`) of the batch; returns their number.
  Result<int64_t> loadRun(const Feed &feed, int64_t begin, int64_t rows, int64_t from, int64_t to, char *place) const;
  void readAhead(int64_t index) const;

  std::vector<Feed> feeds;
  std::vector<uint32_t> order;
  int64_t batch = 1, sampleCount = 0;
  bool large = false; ///< too large to be kept in memory
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_BATCHSOURCE_H
