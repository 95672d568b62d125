//===- TarImages.cpp - the samples of WebDataset's tar files --------------===//
#include "divisi/suggest.h"
#include "runtime/core/Json.h"
#include "runtime/core/MappedFile.h"
#include "runtime/data/images/ImageList.h"
#include "runtime/data/images/TarReader.h"

#include <charconv>

using namespace divisi;
using namespace divisi::runtime;

namespace {
/// Larger ones are no labels.
constexpr int64_t mostLabelBytes = 1 << 20;

std::string_view trimmed(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string_view::npos ? "" : text.substr(first, last - first + 1);
}

/// The name of a member up to the first point of its last part, and the rest in lower case: WebDataset's rule. Null if
/// either is empty.
std::optional<std::pair<std::string, std::string>> splitName(const std::string &name) {
  size_t slash = name.rfind('/'), begin = slash == std::string::npos ? 0 : slash + 1, dot = name.find('.', begin);
  if (dot == std::string::npos || dot == begin || dot + 1 == name.size())
    return std::nullopt;
  return std::pair(name.substr(0, dot), plainName(name.substr(dot + 1), true));
}
} // namespace

Status ImageList::addTar(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return failure(file.status().message(), didYouMeanFile(path));
  auto container = static_cast<uint32_t>(containers.size());
  containers.push_back(path);
  // The members of a sample follow each other.
  std::string key, imageName;
  std::optional<Item> image;
  std::optional<int64_t> label;
  auto finish = [&] {
    if (image) {
      image->label = label;
      add(imageName, *image);
    }
    image.reset();
    label.reset();
  };
  auto visit = [&](const TarMember &member) -> Status {
    auto named = splitName(member.name);
    if (!named)
      return {};
    const std::string &kind = named->second;
    if (named->first != key)
      finish();
    key = named->first;
    std::string_view contents =
        file->text().substr(static_cast<size_t>(member.offset), static_cast<size_t>(member.bytes));
    if (kind == "jpg" || kind == "jpeg" || kind == "png") {
      if (image)
        return failure("has two images of the sample '", printable(key), "'");
      image = {container, {}, 0, member.offset, member.bytes};
      imageName = member.name;
    } else if (kind == "cls" && member.bytes <= mostLabelBytes) {
      std::string_view digits = trimmed(contents);
      int64_t number = 0;
      auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (error != std::errc() || end != digits.data() + digits.size())
        return failure("has the label '", printable(digits.substr(0, 40)), "' in '", printable(member.name),
                       "', which is no whole number");
      label = number;
    } else if (kind == "json" && member.bytes <= mostLabelBytes) {
      Result<Json> json = parseJson(contents, concat("'", printable(member.name), "'"));
      if (!json.ok())
        return failure("has a member that cannot be read: ", json.status().message());
      if (auto it = json->find("label"); json->is_object() && it != json->end() && it->is_number_integer())
        label = it->get<int64_t>();
    }
    return {};
  };
  if (Status status = forEachMember(file->text(), visit); !status.ok())
    return failure("'", path, "' ", status.message());
  finish();
  return {};
}
