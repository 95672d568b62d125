#include "runtime/checkpoint/CheckpointReader.h"

#include <algorithm>
#include <filesystem>

using namespace divisi::runtime;

namespace {
Status damaged(const std::string &path) {
  return failure("'", path, "' is damaged: its contents have changed since it was written");
}

/// Elements that are contiguous both in the tensor and in a slice.
struct Run {
  int64_t there = 0, here = 0, count = 0;
};

/// The mean of a tensor over the replicas that have it, in `memory`: `bytes` bytes.
Result<const char *> meanOf(CheckpointReader &reader, const CheckpointTensor &tensor, size_t bytes, std::vector<char> &memory) {
  int64_t width = widthOf(tensor.dtype);
  std::vector<double> sums(bytes / static_cast<size_t>(width));
  memory.resize(bytes);
  Slice slice{tensor.shape, tensor.shape, Shape(tensor.shape.size())};
  slice.local[0] = 1;
  for (; slice.start[0] < tensor.replicas; ++slice.start[0]) {
    if (Status status = reader.read(tensor, slice, memory.data()); !status.ok())
      return status;
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += readNumber(memory.data() + i * static_cast<size_t>(width), tensor.dtype);
  }
  for (size_t i = 0; i < sums.size(); ++i)
    writeNumber(memory.data() + i * static_cast<size_t>(width), tensor.dtype, sums[i] / static_cast<double>(tensor.replicas));
  return static_cast<const char *>(memory.data());
}

/// Calls body(index in `from`, index in `to`, count) for the elements that both slices contain. Both are slices of
/// reshapes of the same elements.
template <typename Body> void forEachCommonRun(const Slice &from, const std::vector<Run> &to, const Body &body) {
  size_t next = 0; // runs are in the tensor's order
  from.forEachRun([&](int64_t there, int64_t here, int64_t count) {
    while (next < to.size() && to[next].there + to[next].count <= there)
      ++next;
    for (size_t i = next; i < to.size() && to[i].there < there + count; ++i) {
      int64_t begin = std::max(there, to[i].there), end = std::min(there + count, to[i].there + to[i].count);
      body(here + begin - there, to[i].here + begin - to[i].there, end - begin);
    }
  });
}
} // namespace

Result<CheckpointReader> CheckpointReader::open(const std::string &folder, const CheckpointManifest &manifest) {
  CheckpointReader reader;
  for (const CheckpointFile &listed : manifest.files) {
    std::string path = folder + "/" + listed.name;
    std::error_code error;
    auto bytes = std::filesystem::file_size(path, error);
    if (error)
      return cannotRead(error.value(), concat("cannot read '", path, "': ", error.message()));
    if (bytes != static_cast<uint64_t>(listed.bytes))
      return damaged(path);
    reader.files.push_back({path, &listed, nullptr});
  }
  return reader;
}

Status CheckpointReader::openContents(File &file) {
  if (file.contents)
    return {};
  Result<CheckedFile> opened = CheckedFile::open(file.path, file.listed->hashes, damaged(file.path));
  if (!opened.ok())
    return opened.status();
  if (opened->file().contents().size() != static_cast<size_t>(file.listed->bytes))
    return damaged(file.path);
  file.contents = std::make_unique<CheckedFile>(std::move(*opened));
  return {};
}

const SafetensorsFile::Entry *CheckpointReader::find(const File &file, const CheckpointTensor &tensor, const Shape &shape) {
  const auto &entries = file.contents->file().entries();
  auto it = entries.find(tensor.name);
  bool fits = it != entries.end() && it->second.dtype == tensor.dtype && it->second.shape == shape;
  return fits ? &it->second : nullptr;
}

Status CheckpointReader::read(const CheckpointTensor &tensor, const Slice &slice, char *to) {
  std::vector<Run> wanted, found;
  int64_t missing = 0;
  slice.forEachRun([&](int64_t there, int64_t here, int64_t count) {
    wanted.push_back({there, here, count});
    missing += count;
  });
  auto width = static_cast<size_t>(widthOf(tensor.dtype));
  for (const CheckpointTensor::Piece &piece : tensor.pieces) {
    File &file = files[piece.file];
    const SafetensorsFile::Entry *entry = nullptr;
    Status status;
    forEachCommonRun({tensor.pieced, piece.shape, piece.start}, wanted, [&](int64_t from, int64_t at, int64_t count) {
      if (!entry && status.ok()) {
        status = openContents(file);
        if (status.ok())
          entry = find(file, tensor, piece.shape);
        if (status.ok() && !entry)
          status = failure("'", file.path, "' is damaged: its piece of '", tensor.name, "' is not as listed");
      }
      if (!status.ok())
        return;
      status = file.contents->copy(entry->data + static_cast<size_t>(from) * width, static_cast<size_t>(count) * width,
                                   to + static_cast<size_t>(at) * width);
      missing -= count;
      found.push_back({from, at, count});
    });
    if (!status.ok())
      return status;
  }
  // All elements were found if there are as many as requested and none occurs twice.
  std::sort(found.begin(), found.end(), [](const Run &a, const Run &b) { return a.here < b.here; });
  bool apart = std::adjacent_find(found.begin(), found.end(), [](const Run &a, const Run &b) {
                 return a.here + a.count > b.here;
               }) == found.end();
  return missing == 0 && apart ? Status()
                               : failure("the checkpoint's pieces of '", tensor.name, "' are not the whole");
}

Status divisi::runtime::readCheckpoint(const std::string &folder, const CheckpointManifest &manifest,
                                       const Manifest &program, const Arena &arena) {
  Result<CheckpointReader> reader = CheckpointReader::open(folder, manifest);
  if (!reader.ok())
    return reader.status();
  for (const State &state : program.state)
    if (state.here)
      if (Status status = reader->read(manifest.tensor(state.name), program.storedSlice(state, state, program.rank), arena.at(state));
          !status.ok())
        return status;
  return {};
}

Status divisi::runtime::exportCheckpoint(const std::string &folder, const std::string &path, bool all, bool averaged) {
  CheckpointManifest::Fault fault;
  Result<CheckpointManifest> manifest = CheckpointManifest::read(folder + "/manifest.json", fault);
  if (!manifest.ok())
    return manifest.status();
  Result<CheckpointReader> reader = CheckpointReader::open(folder, *manifest);
  if (!reader.ok())
    return reader.status();
  std::vector<const CheckpointTensor *> chosen;
  std::vector<NamedTensor> tensors;
  bool found = false; // an average
  for (const CheckpointTensor &tensor : manifest->tensors)
    if (all || tensor.role == nameOf(Role::Parameter) || tensor.role == nameOf(Role::Buffer) ||
        tensor.role == nameOf(Role::Constant)) {
      chosen.push_back(&tensor);
      if (averaged && tensor.role == nameOf(Role::Parameter)) {
        auto average = std::find_if(manifest->tensors.begin(), manifest->tensors.end(), [&](const CheckpointTensor &other) {
          return other.name == tensor.name + ".ema" && other.role == nameOf(Role::Moment);
        });
        if (average != manifest->tensors.end()) {
          chosen.back() = &*average;
          found = true;
        }
      }
      Shape shape = tensor.shape;
      if (tensor.replicas > 0)
        shape.erase(shape.begin());
      int64_t bytes = *byteCount(shape, widthOf(tensor.dtype));
      tensors.push_back({tensor.name, tensor.dtype, std::move(shape), nullptr, static_cast<size_t>(bytes)});
    }
  if (averaged && !found)
    return Status::usage(concat("--ema: '", folder, "' has no moving average of the weights: its program was compiled without --ema"));
  std::vector<char> whole;
  return writeSafetensors(path, tensors, {{"format", "pt"}, {"producer", "divisi"}},
                          [&](size_t i) -> Result<const char *> {
                            const CheckpointTensor &tensor = *chosen[i];
                            if (tensor.replicas > 0)
                              return meanOf(*reader, tensor, tensors[i].bytes, whole);
                            whole.resize(tensors[i].bytes);
                            Slice slice{tensor.shape, tensor.shape, Shape(tensor.shape.size())};
                            if (Status status = reader->read(tensor, slice, whole.data()); !status.ok())
                              return status;
                            return static_cast<const char *>(whole.data());
                          });
}
