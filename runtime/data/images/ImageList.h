//===- ImageList.h - the images of folders and tar files --------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_IMAGES_IMAGELIST_H
#define DIVISI_RUNTIME_DATA_IMAGES_IMAGELIST_H

#include "runtime/core/Status.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace divisi::runtime {

/// Whether a path stands for images: a folder, or tar files.
bool isImagePath(const std::string &path);
bool isTarPath(std::string_view path);

/// What the extension of a file's name says, in lower case and without its point.
enum class ImageFormat : uint8_t { none, readable, other };
ImageFormat formatOf(std::string_view extension);

/// What was found of an image's label.
enum class LabelState : uint8_t {
  absent,   ///< nothing
  given,    ///< a number
  noNumber, ///< "label" of a JSON file is no whole number of 64 bits
  noLabel,  ///< a JSON file without "label"
  tooLarge  ///< a file that is too large for a label
};

/// Where each image lies, and its label. Found once: some 60 bytes and the name for each image stay in memory.
class ImageList {
public:
  /// The images of one folder, or of the tar files that the paths stand for. Fails if there are none.
  static Result<std::shared_ptr<ImageList>> open(const std::vector<std::string> &paths);

  int64_t size() const { return static_cast<int64_t>(items.size()); }
  /// The first path, for messages.
  const std::string &path() const { return first; }
  /// The names of the classes, whose positions are the labels; none of tar files, and of a folder without subfolders.
  const std::vector<std::string> &classes() const { return classNames; }
  /// Numbers the labels as these classes, which are `printable` texts. Returns the list's classes that are not among
  /// them, in which case nothing changes.
  std::vector<std::string> numberAs(const std::vector<std::string> &trained);
  /// Whether no image has a label.
  bool isUnlabelled() const;
  /// Whether both give the same label to each image.
  bool agreesWith(const ImageList &other) const;
  /// The path of an image; of one in a tar file, with the member: "train.tar:0001.jpg".
  std::string nameOf(int64_t index) const;
  std::optional<int64_t> labelOf(int64_t index) const {
    const Item &item = items[static_cast<size_t>(index)];
    return item.state == LabelState::given ? std::optional(item.label) : std::nullopt;
  }
  /// Why an image has none: the end of a sentence that begins with its name.
  std::string whyNoLabel(int64_t index) const;
  bool hasLabels() const;
  /// Reads the bytes of an image. An error is the end of a sentence that begins with its name.
  Status read(int64_t index, std::string &to) const;

private:
  struct Item {
    uint32_t container = 0; ///< the folder or tar file
    LabelState state = LabelState::absent;
    int64_t label = 0;
    uint64_t name = 0;             ///< where it begins in `names`, up to a zero
    int64_t offset = 0, bytes = 0; ///< in a tar file
  };
  Status openFolder(const std::string &path);
  /// Adds the images of a folder and all folders below it, in the order of their paths; those of hidden ones are refused.
  Status addFolder(const std::string &path, std::optional<int64_t> label, bool hidden);
  Status addTar(const std::string &path);
  void add(std::string_view name, Item item);

  std::string first;
  bool inTars = false;
  std::vector<std::string> containers, classNames;
  std::string names;
  std::vector<Item> items;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_IMAGES_IMAGELIST_H
