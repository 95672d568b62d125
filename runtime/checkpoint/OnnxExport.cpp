#include "runtime/checkpoint/OnnxExport.h"
#include "runtime/checkpoint/AtomicFile.h"

using namespace divisi::runtime;

namespace {
/// Field numbers of ONNX's messages, and the two wire types used.
enum Field {
  ModelGraph = 7, ModelTraining = 20, TrainingAlgorithm = 2, GraphInitializer = 5, TensorDims = 1, TensorType = 2, TensorName = 8,
  TensorRaw = 9
};
enum Wire { Varint = 0, Delimited = 2 };

void putVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void putKey(std::string &out, Field field, Wire wire) { putVarint(out, static_cast<uint64_t>(field) << 3 | wire); }
/// The key and the length of a message or text.
std::string keyed(Field field, uint64_t length) {
  std::string out;
  putKey(out, field, Delimited);
  putVarint(out, length);
  return out;
}

/// A serialised TensorProto up to its data.
struct Initializer {
  const State *state;
  std::string head; ///< key and length of the tensor, its fields, key and length of the data
};

Initializer encode(const State &state) {
  const std::string &name = state.trainingName.empty() ? state.name : state.trainingName;
  std::string fields;
  for (int64_t size : state.wholeShape()) {
    putKey(fields, TensorDims, Varint);
    putVarint(fields, static_cast<uint64_t>(size));
  }
  putKey(fields, TensorType, Varint);
  putVarint(fields, static_cast<uint64_t>(onnxCodeOf(state.dtype)));
  fields += keyed(TensorName, name.size()) + name;
  fields += keyed(TensorRaw, static_cast<uint64_t>(state.wholeBytes()));
  return {&state, keyed(GraphInitializer, fields.size() + static_cast<uint64_t>(state.wholeBytes())) + fields};
}

/// The initializers of one graph.
struct Initializers {
  std::vector<Initializer> all;
  uint64_t bytes = 0;

  void add(const State &state) {
    all.push_back(encode(state));
    bytes += all.back().head.size() + static_cast<uint64_t>(state.wholeBytes());
  }
  /// All ranks call it; `file` is null on those that do not write.
  Status write(GlobalState &state, AtomicFile *file) const {
    for (const Initializer &initializer : all) {
      Result<const char *> data = state.whole(*initializer.state);
      if (!data.ok())
        return data.status();
      if (file) {
        file->write(initializer.head);
        file->write(*data, static_cast<size_t>(initializer.state->wholeBytes()));
      }
    }
    return {};
  }
};
} // namespace

Status divisi::runtime::exportOnnx(GlobalState &state, std::string_view skeleton, const std::string &path) {
  const Manifest &manifest = state.manifest();
  const auto trainingBytes = std::min(static_cast<uint64_t>(manifest.trainingBytes), static_cast<uint64_t>(skeleton.size()));
  const std::string_view model = skeleton.substr(0, skeleton.size() - trainingBytes), training = skeleton.substr(model.size());
  Initializers ofGraph, ofAlgorithm;
  for (const State &s : manifest.state)
    if (!s.trainingName.empty())
      ofAlgorithm.add(s);
    else if (s.isWeight())
      ofGraph.add(s);
  const std::string graph = keyed(ModelGraph, ofGraph.bytes), algorithm = keyed(TrainingAlgorithm, ofAlgorithm.bytes);
  const uint64_t bytes = ofGraph.bytes + ofAlgorithm.bytes;
  if (skeleton.size() + bytes > uint64_t(INT32_MAX) - 64)
    return state.agree(failure("cannot write '", path, "': the model has ", bytes >> 20,
                               " MiB, and an ONNX file holds 2048 at most; use --save-weights FILE.safetensors"));
  std::optional<AtomicFile> file;
  if (state.writes())
    file.emplace(path);
  AtomicFile *const written = file ? &*file : nullptr;
  if (written) {
    written->write(model);
    written->write(graph);
  }
  if (Status status = ofGraph.write(state, written); !status.ok())
    return status;
  if (written && trainingBytes > 0) {
    written->write(keyed(ModelTraining, training.size() + algorithm.size() + ofAlgorithm.bytes));
    written->write(training);
    written->write(algorithm);
  }
  if (Status status = ofAlgorithm.write(state, written); !status.ok())
    return status;
  return state.agree(file ? file->commit() : Status());
}
