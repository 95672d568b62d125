#include "runtime/checkpoint/OnnxExport.h"
#include "runtime/checkpoint/AtomicFile.h"

using namespace divisi::runtime;

namespace {
/// Field numbers of ONNX's messages, and the two wire types used.
enum Field { ModelGraph = 7, GraphInitializer = 5, TensorDims = 1, TensorType = 2, TensorName = 8, TensorRaw = 9 };
enum Wire { Varint = 0, Delimited = 2 };

void putVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void putKey(std::string &out, Field field, Wire wire) { putVarint(out, static_cast<uint64_t>(field) << 3 | wire); }

/// A serialised TensorProto up to its data.
struct Initializer {
  const State *state;
  std::string head; ///< key and length of the tensor, its fields, key and length of the data
};

Initializer encode(const State &state) {
  std::string fields;
  for (int64_t size : state.wholeShape()) {
    putKey(fields, TensorDims, Varint);
    putVarint(fields, static_cast<uint64_t>(size));
  }
  putKey(fields, TensorType, Varint);
  putVarint(fields, static_cast<uint64_t>(onnxCodeOf(state.dtype)));
  putKey(fields, TensorName, Delimited);
  putVarint(fields, state.onnxName.size());
  fields += state.onnxName;
  putKey(fields, TensorRaw, Delimited);
  putVarint(fields, static_cast<uint64_t>(state.wholeBytes()));
  Initializer result{&state, {}};
  putKey(result.head, GraphInitializer, Delimited);
  putVarint(result.head, fields.size() + static_cast<uint64_t>(state.wholeBytes()));
  result.head += fields;
  return result;
}
} // namespace

Status divisi::runtime::exportOnnx(GlobalState &state, std::string_view skeleton, const std::string &path) {
  std::vector<Initializer> initializers;
  uint64_t bytes = 0;
  for (const State &s : state.manifest().state)
    if (s.isWeight()) {
      initializers.push_back(encode(s));
      bytes += initializers.back().head.size() + static_cast<uint64_t>(s.wholeBytes());
    }
  if (skeleton.size() + bytes > uint64_t(INT32_MAX) - 64)
    return state.agree(failure("cannot write '", path, "': the model has ", bytes >> 20,
                               " MiB, and an ONNX file holds 2048 at most; use --save-weights FILE.safetensors"));
  std::optional<AtomicFile> file;
  if (state.writes()) {
    std::string head;
    putKey(head, ModelGraph, Delimited);
    putVarint(head, bytes);
    file.emplace(path);
    file->write(skeleton);
    file->write(head);
  }
  for (const Initializer &initializer : initializers) {
    Result<const char *> data = state.whole(*initializer.state);
    if (!data.ok())
      return data.status();
    if (file) {
      file->write(initializer.head);
      file->write(*data, static_cast<size_t>(initializer.state->wholeBytes()));
    }
  }
  return state.agree(file ? file->commit() : Status());
}
