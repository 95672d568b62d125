#include "runtime/checkpoint/Safetensors.h"
#include "divisi/file_kind.h"
#include "runtime/core/Json.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace divisi;
using namespace divisi::runtime;

namespace {
/// The format's own limit.
constexpr uint64_t maxHeader = 100'000'000;
} // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  SafetensorsFile result(std::move(*file));
  if (Status status = result.parse(); !status.ok())
    return status;
  return result;
}

Status SafetensorsFile::parse() {
  std::string_view text = file.text();
  uint64_t length = 0;
  if (text.size() < 8)
    return failure("'", path(), "' is not a safetensors file: it has ", text.size(), " bytes");
  std::memcpy(&length, text.data(), 8);
  if (length > maxHeader || length > text.size() - 8) {
    if (FileKind kind = kindOfFile(text); kind != FileKind::unknown && kind != FileKind::safetensors)
      return failure("'", path(), "' is not a safetensors file; it looks like ", nameOf(kind),
                     kind == FileKind::torch ? ": save its tensors with safetensors.torch.save_file" : "");
    return failure("'", path(), "' is truncated or not a safetensors file: it announces a header of ", length,
                   " bytes");
  }
  std::string_view body = text.substr(8 + length);
  Result<Json> header = parseJson(text.substr(8, length), concat("the header of '", path(), "'"));
  if (!header.ok())
    return header.status();
  if (!header->is_object())
    return failure("the header of '", path(), "' is not an object");

  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto &[name, json] : header->items()) {
    if (name == "__metadata__") {
      if (!json.is_object())
        return failure("the metadata of '", path(), "' are not an object");
      for (const auto &[key, value] : json.items())
        if (value.is_string())
          notes[key] = value.get<std::string>();
      continue;
    }
    JsonReader reader(json, concat("tensor '", name, "' of '", path(), "'"));
    Entry entry;
    entry.dtype = reader.dataType("dtype");
    entry.shape = reader.shape("shape");
    Shape range = reader.shape("data_offsets");
    if (!reader.status().ok())
      return reader.status();
    std::optional<int64_t> bytes = byteCount(entry.shape, widthOf(entry.dtype));
    if (range.size() != 2 || range[0] > range[1])
      reader.fail("has offsets that are not a range");
    else if (static_cast<uint64_t>(range[1]) > body.size())
      reader.fail("lies beyond the end of the file, which is truncated or damaged");
    else if (!bytes || range[1] - range[0] != *bytes)
      reader.fail(concat("has another size than its shape ", toString(entry.shape)));
    if (!reader.status().ok())
      return reader.status();
    entry.data = body.data() + range[0];
    entry.bytes = static_cast<size_t>(*bytes);
    ranges.emplace_back(range[0], range[1]);
    table.emplace(name, std::move(entry));
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t end = 0;
  for (auto [from, to] : ranges) {
    if (from != end)
      return failure("'", path(), "' is damaged: its tensors overlap or leave gaps");
    end = to;
  }
  if (end != body.size())
    return failure("'", path(), "' is damaged: ", body.size() - end, " bytes belong to no tensor");
  return {};
}

std::vector<size_t> divisi::runtime::writingOrder(const std::vector<NamedTensor> &tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t(0));
  // Wide elements come first, as in the format's own writer, so that each tensor is aligned.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return widthOf(tensors[a].dtype) > widthOf(tensors[b].dtype); });
  return order;
}

SafetensorsWriter::SafetensorsWriter(const std::string &path, std::vector<NamedTensor> given,
                                     const std::map<std::string, std::string> &metadata, TensorContents contents,
                                     ChunkHasher *hasher)
    : tensors(std::move(given)), order(writingOrder(tensors)), contents(std::move(contents)), hasher(hasher),
      file(path) {
  OrderedJson table = OrderedJson::object();
  if (!metadata.empty())
    table["__metadata__"] = metadata;
  uint64_t end = 0;
  for (size_t i : order) {
    const NamedTensor &one = tensors[i];
    table[one.name] = {{"dtype", nameOf(one.dtype)}, {"shape", one.shape}, {"data_offsets", {end, end + one.bytes}}};
    end += one.bytes;
  }
  std::string text = dumpJson(table);
  text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');
  uint64_t length = text.size();
  header = std::string(reinterpret_cast<const char *>(&length), sizeof(length)) + text;
  left = header;
}

bool SafetensorsWriter::writeMore() {
  constexpr size_t most = size_t(128) << 10;
  while (left.empty() && tensor < order.size() && failed.ok()) {
    const size_t i = order[tensor++];
    Result<const char *> data = contents ? contents(i) : Result<const char *>(tensors[i].data);
    failed = data.status();
    if (data.ok())
      left = {*data, tensors[i].bytes};
  }
  std::string_view now = left.substr(0, most);
  file.write(now);
  if (hasher)
    hasher->add(now.data(), now.size());
  left.remove_prefix(now.size());
  return !now.empty();
}

Status SafetensorsWriter::commit() { return failed.ok() ? file.commit() : failed; }

Status divisi::runtime::writeSafetensors(const std::string &path, const std::vector<NamedTensor> &tensors,
                                         const std::map<std::string, std::string> &metadata,
                                         const TensorContents &contents, ChunkHasher *hasher) {
  SafetensorsWriter writer(path, tensors, metadata, contents, hasher);
  while (writer.writeMore())
    ;
  return writer.commit();
}
