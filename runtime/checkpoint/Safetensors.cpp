#include "runtime/checkpoint/Safetensors.h"
#include "divisi/file_kind.h"
#include "runtime/checkpoint/AtomicFile.h"
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

Status divisi::runtime::writeSafetensors(const std::string &path, const std::vector<NamedTensor> &tensors,
                                         const std::map<std::string, std::string> &metadata,
                                         const TensorContents &contents,
                                         const std::function<void(const char *, size_t)> &written) {
  std::vector<size_t> order = writingOrder(tensors);
  OrderedJson header = OrderedJson::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t end = 0;
  for (size_t i : order) {
    const NamedTensor &tensor = tensors[i];
    header[tensor.name] = {
        {"dtype", nameOf(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {end, end + tensor.bytes}}};
    end += tensor.bytes;
  }
  std::string text = dumpJson(header);
  text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');
  uint64_t length = text.size();
  AtomicFile file(path);
  auto put = [&](const char *data, size_t bytes) {
    constexpr size_t most = size_t(128) << 10;
    for (size_t done = 0; done < bytes;) {
      size_t piece = std::min(bytes - done, most);
      file.write(data + done, piece);
      if (written)
        written(data + done, piece);
      done += piece;
    }
  };
  put(reinterpret_cast<const char *>(&length), sizeof(length));
  put(text.data(), text.size());
  for (size_t i : order) {
    Result<const char *> data = contents ? contents(i) : Result<const char *>(tensors[i].data);
    if (!data.ok())
      return data.status();
    put(*data, tensors[i].bytes);
  }
  return file.commit();
}
