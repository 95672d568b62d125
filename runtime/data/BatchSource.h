//===- BatchSource.h - batches from files -----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_BATCHSOURCE_H
#define DIVISI_RUNTIME_DATA_BATCHSOURCE_H

#include "runtime/core/Manifest.h"
#include "runtime/data/DataFile.h"
#include "runtime/data/Shuffle.h"
#include "runtime/data/images/ImageOptions.h"

#include <functional>
#include <map>
#include <memory>
#include <set>

namespace divisi::runtime {

/// The position of training in its data, from which it can be resumed exactly.
struct Cursor {
  int64_t epoch = 0; ///< finished epochs
  int64_t batch = 0; ///< finished batches of this epoch
  bool operator==(const Cursor &) const = default;
};

/// Names of classes as `printable` texts, in the order of their numbers, by the input whose labels they are. Inputs whose labels are from elsewhere have none.
using ClassNames = std::map<std::string, std::vector<std::string>>;

/// Where the inputs of a batch are written: to their places in an arena, or elsewhere.
class InputPlaces {
public:
  InputPlaces(char *arena) : arena(arena) {}
  /// One for each input that this rank has, in their order.
  InputPlaces(const std::vector<char *> &own) : next(own.data()) {}
  /// That of the next input that this rank has.
  char *take(const Input &input) { return next ? *next++ : arena + input.offset; }

private:
  char *arena = nullptr;
  char *const *next = nullptr;
};

class BatchRing;
class CsvFile;
struct CsvPath;
class ImageList;
class ImageSamples;
class TokenFiles;

/// The data of each input. Of a .npy file, sample i is row i (or as many rows as the input has for each sample of a
/// batch); an input whose rows are not samples is the same in every batch. Of token files, sample i is window i; of
/// a CSV file, some columns of row i; of a folder or tar files, image i. Files contain the whole batch; a rank loads its
/// shard.
class BatchSource {
public:
  using Files = std::multimap<std::string, std::string>;
  using Note = std::function<void(const std::string &)>;
  /// `files` maps names of inputs to files (several, if they are of tokens or tar files); a label without one is the
  /// next token of each that another input has, or the class of an image. `flag` (--data, --eval) is for messages.
  /// `note` is called with messages about conversions, tokens and images. `tokenType` is that of token files without a
  /// header, if it is not the usual one. `needed` names the inputs that need a file (null: all): others are filled with
  /// padding if they have none.
  static Result<BatchSource> open(const Manifest &manifest, const Files &files, const std::string &flag,
                                  const Note &note, std::optional<DataType> tokenType = {},
                                  const std::set<std::string> *needed = nullptr);

  /// The batches that another process feeds (BatchRing), in its order; every rank takes them.
  static Result<BatchSource> openRing(const Manifest &manifest, const std::string &path);

  /// 0 if they are fed by another process, which alone knows their number.
  int64_t samples() const { return sampleCount; }
  /// Null if the data are files.
  const std::shared_ptr<BatchRing> &fed() const { return ring; }
  /// The names of the folders whose positions are the labels of an input.
  ClassNames classes() const;
  /// Numbers labels from folders of classes as training does, whose names these are. Fails if there are others; `flag`
  /// is for the message.
  Status numberClassesAs(const ClassNames &trained, const std::string &flag);
  /// The number of full batches of an epoch.
  int64_t fullBatches() const { return ring ? INT64_MAX : sampleCount / batch; }
  /// Whether batch `index`, the last that was loaded, ends an epoch.
  bool endsEpoch(int64_t index) const;
  /// The number of batches of an epoch, including an incomplete last one.
  int64_t allBatches() const { return (sampleCount + batch - 1) / batch; }

  /// Orders the samples by (seed, epoch); otherwise they have the files' order.
  void shuffle(uint64_t seed, uint64_t epoch);
  bool hasImages() const;
  /// Has images prepared in this way; without a call, in the usual one. `note` is called with descriptions of it.
  Status prepareImages(const ImageOptions &options, const Note &note);
  /// Draws the augmentation of images by (seed, epoch).
  void augment(uint64_t seed, uint64_t epoch);
  /// Loads the shard of another rank of the mesh from now on.
  void loadFor(const Manifest &manifest, int64_t rank);
  /// Copies batch `index` to the inputs' places; missing rows are filled with padding. Returns the number of valid rows
  /// in `rows`: 0 if another process feeds and there is no further batch, or a stop was asked for.
  Status load(int64_t index, InputPlaces places, int64_t &rows);

private:
  struct Feed {
    Input input;
    std::shared_ptr<const DataFile> file = nullptr;
    std::shared_ptr<const TokenFiles> tokens = nullptr; ///< null: the file is not of tokens
    std::shared_ptr<ImageSamples> images = nullptr;     ///< null: the file is not of images
    bool constant = false;
    bool blank = false;                  ///< padding only, without a file
    Slice piece = {};                    ///< this rank's shard of the batch
    Slice row = {};                      ///< and of one row
    int64_t microbatches = 1, first = 0; ///< number of microbatches of the shard, and the first
    int64_t microbatchRows = 0;          ///< of the whole batch
    int64_t rows = 0, firstRow = 0;      ///< of the shard in each microbatch
    int64_t rowElements = 1;             ///< in a row of the file
    int64_t rowsEach = 1;                ///< rows of a sample
  };
  using FileRange = std::pair<Files::const_iterator, Files::const_iterator>;
  int64_t sampleAt(int64_t position) const;
  Result<Feed> openFeed(const Manifest &manifest, const Input &input, const Files &files, const std::string &flag,
                        const Note &note, std::optional<DataType> tokenType);
  /// An input without its file: what of a batch this rank has.
  static Feed placeOf(const Manifest &manifest, const Input &input, int64_t rank);
  static Status openArray(Feed &feed, const std::string &path, const std::string &flag, const Note &note);
  static Status openTokens(Feed &feed, const FileRange &paths, const std::string &flag, const Note &note,
                           std::optional<DataType> type);
  Status loadFed(InputPlaces places, int64_t &rows);
  Status openCsv(Feed &feed, const CsvPath &path, const Manifest &manifest, const std::string &flag);
  /// Feeds a label without a file with next tokens.
  Status followTokens(Feed &feed, const std::string &flag, const Note &note) const;
  /// The images that paths of an input stand for; inputs may share them.
  Result<std::shared_ptr<ImageList>> imagesOf(const FileRange &paths);
  /// Feeds an input with images, or with their labels if it takes one whole number for each sample.
  Status openImages(Feed &feed, const FileRange &paths, const std::string &flag, const Note &note);
  Status openLabels(Feed &feed, const FileRange &paths, const std::string &flag);
  /// Feeds a label without a file with the classes of the inputs' images; fails if these differ.
  Status followImages(Feed &feed, const Files &files, const std::string &flag);
  /// Has threads prepare this rank's images of batch `index` and of the next ones.
  void expectImages(int64_t index) const;
  /// This rank's samples of a batch.
  std::vector<int64_t> samplesOf(const Feed &feed, int64_t index) const;
  /// The rows of the batch that are this rank's in its microbatch `m`: from the first up to, not including, the second.
  static std::pair<int64_t, int64_t> rowsOf(const Feed &feed, int64_t m);
  /// What an input takes, for messages: "F32 [N, 3, 224, 224]".
  static std::string expectation(const Input &input, bool constant);
  /// Copies `count` elements of the file from element `from` on, and checks them.
  Status copy(const Feed &feed, int64_t from, char *to, int64_t count) const;
  /// Copies a slice of the tensor that begins at element `from` of the file.
  Status copy(const Feed &feed, const Slice &slice, int64_t from, char *to) const;
  /// Copies this rank's rows of the batch that begins at sample `begin` and has `rows` rows.
  Status loadRows(const Feed &feed, int64_t begin, int64_t rows, char *to) const;
  /// The same for rows [`from`, `to`) of the batch, all of which exist.
  Status loadRun(const Feed &feed, int64_t begin, int64_t from, int64_t to, char *place) const;
  void readAhead(int64_t index) const;
  /// Keeps the process from growing with what was read of large files.
  void limitResidence(int64_t rows);

  std::vector<Feed> feeds;
  std::shared_ptr<BatchRing> ring; ///< null: the data are files
  std::map<std::string, std::shared_ptr<const CsvFile>> csvFiles; ///< by path: inputs may share one
  std::map<std::string, std::shared_ptr<ImageList>> imageLists; ///< by paths
  std::map<std::string, std::shared_ptr<ImageList>> labelled; ///< whose classes are the labels of an input
  std::vector<uint32_t> order;                                    ///< empty: not shuffled, or computed
  std::optional<Permutation> computed;                            ///< of more samples than an order is kept for
  int64_t batch = 1, sampleCount = 0;
  int64_t bytes = 0, resident = 0; ///< of the files, and at most resident
  bool large = false;              ///< too large to be kept in memory
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_BATCHSOURCE_H
