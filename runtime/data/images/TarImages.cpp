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

/// The members of one sample, which follow each other.
struct Sample {
  std::string key, imageName, labelName;
  int64_t offset = 0, bytes = 0; ///< of the image
  LabelState state = LabelState::absent;
  int64_t label = 0;

  Status setLabel(const TarMember &member, std::optional<int64_t> number, LabelState otherwise);
  Status readLabel(const TarMember &member, const std::string &kind, std::string_view contents);
};

/// A label, or what keeps a member from being one; that does not hide a label of the sample's other member.
Status Sample::setLabel(const TarMember &member, std::optional<int64_t> number, LabelState otherwise) {
  if (!number) {
    state = state == LabelState::absent ? otherwise : state;
    return {};
  }
  if (state == LabelState::given && label != *number)
    return failure("has the labels ", label, " and ", *number, " in '", printable(labelName), "' and '",
                   printable(member.name), "'");
  state = LabelState::given, label = *number, labelName = member.name;
  return {};
}

Status Sample::readLabel(const TarMember &member, const std::string &kind, std::string_view contents) {
  if (member.bytes > mostLabelBytes)
    return setLabel(member, {}, LabelState::tooLarge);
  if (kind == "cls") {
    std::string_view digits = trimmed(contents);
    int64_t number = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size())
      return failure("has the label '", printable(digits.substr(0, 40)), "' in '", printable(member.name),
                     "', which is no whole number");
    return setLabel(member, number, {});
  }
  Result<Json> json = parseJson(contents, concat("'", printable(member.name), "'"));
  if (!json.ok())
    return failure("has a member that cannot be read: ", json.status().message());
  if (!json->is_object() || !json->contains("label"))
    return setLabel(member, {}, LabelState::noLabel);
  const Json &found = json->at("label");
  // Whole numbers without a sign are unsigned: those above INT64_MAX would become negative.
  bool fits = found.is_number_integer() && !(found.is_number_unsigned() && found.get<uint64_t>() > uint64_t(INT64_MAX));
  return setLabel(member, fits ? std::optional(found.get<int64_t>()) : std::nullopt, LabelState::noNumber);
}
} // namespace

Status ImageList::addTar(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return failure(file.status().message(), didYouMeanFile(path));
  auto container = static_cast<uint32_t>(containers.size());
  containers.push_back(path);
  Sample sample;
  auto finish = [&]() -> Status {
    if (sample.imageName.empty() && sample.state == LabelState::given)
      return failure("has the label '", printable(sample.labelName),
                     "' without an image: KEY.jpg, KEY.jpeg or KEY.png stands beside its label, with the same key");
    if (!sample.imageName.empty())
      add(sample.imageName, {container, sample.state, sample.label, 0, sample.offset, sample.bytes});
    return {};
  };
  auto visit = [&](const TarMember &member) -> Status {
    auto named = splitName(member.name);
    if (!named)
      return {};
    const auto &[key, kind] = *named;
    if (key != sample.key) {
      if (Status status = finish(); !status.ok())
        return status;
      sample = Sample();
      sample.key = key;
    }
    ImageFormat format = formatOf(kind);
    bool isLabel = kind == "cls" || kind == "json";
    if (format == ImageFormat::other)
      return failure("has the image '", printable(member.name), "', which is neither JPEG nor PNG: convert it, or leave it out");
    if ((isLabel || format == ImageFormat::readable) && member.other)
      return failure("has the member '", printable(member.name), "', which is ", member.other,
                     ": pack the files themselves (GNU tar: --dereference --hard-dereference)");
    if (isLabel)
      return sample.readLabel(
          member, kind, file->text().substr(static_cast<size_t>(member.offset), static_cast<size_t>(member.bytes)));
    if (format == ImageFormat::readable) {
      if (!sample.imageName.empty())
        return failure("has two images of the sample '", printable(key), "'");
      sample.imageName = member.name, sample.offset = member.offset, sample.bytes = member.bytes;
    }
    return {};
  };
  Status status = forEachMember(file->text(), visit);
  if (status.ok())
    status = finish();
  return status.ok() ? status : failure("'", path, "' ", status.message());
}
