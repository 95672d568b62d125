#include "runtime/data/images/ImageList.h"
#include "divisi/suggest.h"
#include "runtime/data/Paths.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

using namespace divisi;
using namespace divisi::runtime;

namespace fs = std::filesystem;

namespace {
/// Larger files are no images that anybody trains on.
constexpr int64_t mostBytes = int64_t(1) << 29;
/// Folders within each other; more are a loop of symbolic links.
constexpr int deepest = 32;

std::string extensionOf(const std::string &name) {
  size_t dot = name.rfind('.');
  std::string extension = dot == std::string::npos ? "" : name.substr(dot + 1);
  for (char &c : extension)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

/// Folders and other files in a folder, by name. Symbolic links are followed.
struct Listing {
  std::vector<std::string> folders, files;

  static Result<Listing> of(const std::string &path) {
    Listing listing;
    std::error_code error;
    fs::directory_iterator it(path, error), end;
    for (; !error && it != end; it.increment(error)) {
      std::error_code problem;
      // (The entry of the folder knows most kinds: nothing need be asked for each of a million images.)
      fs::file_type type = it->is_directory(problem)      ? fs::file_type::directory
                           : it->is_regular_file(problem) ? fs::file_type::regular
                                                          : it->status(problem).type();
      // What it would be is not known: without it, classes behind it would have other labels.
      if (type == fs::file_type::none)
        return failure("cannot read '", it->path().string(), "': ", problem.message());
      if (type == fs::file_type::not_found && it->is_symlink(problem))
        return failure("'", it->path().string(), "' is a symbolic link to what is not there: repair it, or remove it");
      (type == fs::file_type::directory ? listing.folders : listing.files).push_back(it->path().filename().string());
    }
    if (error)
      return failure("cannot read the folder '", path, "': ", error.message());
    std::sort(listing.folders.begin(), listing.folders.end());
    std::sort(listing.files.begin(), listing.files.end());
    return listing;
  }
};

bool isHidden(const std::string &name) { return name.starts_with('.'); }

struct Files {
  std::vector<std::string> names;
  bool hidden = false; ///< by the folder, or by one around it
};

/// The files of a folder and of all below it, by folder: in the order of os.walk's sorted results.
Status findFiles(const std::string &path, int depth, bool hidden, std::map<std::string, Files> &found) {
  if (depth > deepest)
    return failure("'", path, "': folders lie deeper than ", deepest, " levels; is there a loop of symbolic links?");
  Result<Listing> listing = Listing::of(path);
  if (!listing.ok())
    return listing.status();
  found[path] = {std::move(listing->files), hidden};
  for (const std::string &name : listing->folders)
    if (Status status = findFiles(path + "/" + name, depth + 1, hidden || isHidden(name), found); !status.ok())
      return status;
  return {};
}

/// Closes a file at the end.
struct Descriptor {
  int number;
  explicit Descriptor(const std::string &path) : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};
} // namespace

ImageFormat divisi::runtime::formatOf(std::string_view extension) {
  static constexpr std::array<std::string_view, 5> read = {"jpg", "jpeg", "png", "jpe", "jfif"};
  static constexpr std::array<std::string_view, 19> others = {"avif", "bmp", "dib", "gif", "heic", "heif", "j2k",
                                                              "jp2",  "jpf", "jpx", "jxl", "pbm",  "pgm",  "pnm",
                                                              "ppm",  "tga", "tif", "tiff", "webp"};
  auto isOneOf = [&](const auto &all) { return std::find(all.begin(), all.end(), extension) != all.end(); };
  return isOneOf(read) ? ImageFormat::readable : isOneOf(others) ? ImageFormat::other : ImageFormat::none;
}

bool divisi::runtime::isTarPath(std::string_view path) { return path.ends_with(".tar"); }

bool divisi::runtime::isImagePath(const std::string &path) {
  std::error_code error;
  return isTarPath(path) || fs::is_directory(path, error);
}

Result<std::shared_ptr<ImageList>> ImageList::open(const std::vector<std::string> &paths) {
  auto list = std::make_shared<ImageList>();
  list->first = paths.front();
  list->inTars = isTarPath(paths.front());
  if (!list->inTars) {
    if (Status status = list->openFolder(paths.front()); !status.ok())
      return status;
    return list;
  }
  for (const std::string &pattern : paths) {
    Result<std::vector<std::string>> expanded = expandPattern(pattern);
    if (!expanded.ok())
      return expanded.status();
    for (const std::string &path : *expanded)
      if (Status status = list->addTar(path); !status.ok())
        return status;
  }
  if (list->items.empty())
    return failure("'", list->first, "' has no images: no member is KEY.jpg, KEY.jpeg or KEY.png");
  return list;
}

Status ImageList::openFolder(const std::string &given) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  Result<Listing> listing = Listing::of(path);
  if (!listing.ok())
    return listing.status();
  auto first = std::find_if_not(listing->folders.begin(), listing->folders.end(), isHidden);
  if (first == listing->folders.end()) {
    if (Status status = addFolder(path, {}, false); !status.ok())
      return status;
    return items.empty() ? failure("'", given, "' has no folders of classes and no .jpg, .jpeg or .png images")
                         : Status();
  }
  for (const std::string &name : listing->files)
    if (formatOf(extensionOf(name)) != ImageFormat::none)
      return failure("'", path, "/", name, "' lies beside folders of classes such as '", *first,
                     "': move it into one of them, or remove it");
  for (const std::string &name : listing->folders) {
    size_t before = items.size();
    if (Status status = addFolder(path + "/" + name, static_cast<int64_t>(classNames.size()), isHidden(name));
        !status.ok())
      return status;
    if (isHidden(name))
      continue; // without images
    if (items.size() == before)
      return failure("'", path, "/", name, "' has no .jpg, .jpeg or .png images: each folder in '", given,
                     "' is a class; remove it if it is none");
    classNames.push_back(name);
  }
  return {};
}

Status ImageList::addFolder(const std::string &path, std::optional<int64_t> label, bool hidden) {
  std::map<std::string, Files> found;
  if (Status status = findFiles(path, 0, hidden, found); !status.ok())
    return status;
  for (const auto &[folder, files] : found) {
    auto container = static_cast<uint32_t>(containers.size());
    containers.push_back(folder);
    for (const std::string &name : files.names) {
      ImageFormat format = formatOf(extensionOf(name));
      if (files.hidden && format != ImageFormat::none)
        return failure("'", folder, "/", name, "' lies in a hidden folder: move it, or remove it");
      if (format == ImageFormat::other)
        return failure("'", folder, "/", name, "' is neither a JPEG nor a PNG image: convert it, or remove it");
      if (format == ImageFormat::readable)
        add(name, {container, label ? LabelState::given : LabelState::absent, label.value_or(0)});
    }
  }
  return {};
}

void ImageList::add(std::string_view name, Item item) {
  item.name = names.size();
  names += name;
  names += '\0';
  items.push_back(item);
}

std::string ImageList::nameOf(int64_t index) const {
  const Item &item = items[static_cast<size_t>(index)];
  const char *name = names.c_str() + item.name;
  return inTars ? concat(containers[item.container], ":", printable(name))
                : concat(containers[item.container], "/", name);
}

std::vector<std::string> ImageList::numberAs(const std::vector<std::string> &trained) {
  std::map<std::string, int64_t> numbers;
  for (size_t i = 0; i < trained.size(); ++i)
    numbers[trained[i]] = static_cast<int64_t>(i);
  std::vector<std::string> strange;
  std::vector<int64_t> labels;
  for (const std::string &name : classNames)
    if (auto it = numbers.find(printable(name)); it != numbers.end())
      labels.push_back(it->second);
    else
      strange.push_back(name);
  if (strange.empty() && !classNames.empty()) // the labels of tar files are numbers already
    for (Item &item : items)
      item.label = labels[static_cast<size_t>(item.label)];
  return strange;
}

bool ImageList::agreesWith(const ImageList &other) const {
  bool agrees = items.size() == other.items.size();
  for (size_t i = 0; agrees && i < items.size(); ++i)
    agrees = items[i].state == other.items[i].state && items[i].label == other.items[i].label;
  return agrees && classNames == other.classNames;
}

bool ImageList::isUnlabelled() const {
  return std::all_of(items.begin(), items.end(), [](const Item &item) { return item.state == LabelState::absent; });
}

bool ImageList::hasLabels() const {
  return std::all_of(items.begin(), items.end(), [](const Item &item) { return item.state == LabelState::given; });
}

std::string ImageList::whyNoLabel(int64_t index) const {
  switch (items[static_cast<size_t>(index)].state) {
  case LabelState::noNumber:
    return "has a \"label\" in its .json file that is no whole number of 64 bits";
  case LabelState::noLabel:
    return "has no label: its .json file has no \"label\"";
  case LabelState::tooLarge:
    return "has no label: its .cls or .json file has more than 1 MiB";
  default:
    return "has no label: in a tar file it stands beside its image, with the same key, as KEY.cls or as \"label\" in "
           "KEY.json";
  }
}

Status ImageList::read(int64_t index, std::string &to) const {
  const Item &item = items[static_cast<size_t>(index)];
  Descriptor file(inTars ? containers[item.container] : nameOf(index));
  struct stat about = {};
  if (file.number < 0 || ::fstat(file.number, &about) != 0)
    return failure("cannot be read: ", systemError());
  if (!S_ISREG(about.st_mode))
    return failure("is no file");
  int64_t bytes = inTars ? item.bytes : about.st_size;
  if (bytes > mostBytes)
    return failure("has ", bytes, " bytes; images have at most ", mostBytes);
  to.resize(static_cast<size_t>(bytes));
  for (int64_t done = 0; done < bytes;) {
    ssize_t count = ::pread(file.number, to.data() + done, static_cast<size_t>(bytes - done), item.offset + done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return failure(count < 0 ? concat("cannot be read: ", systemError()) : "is truncated");
    done += count;
  }
  return {};
}
