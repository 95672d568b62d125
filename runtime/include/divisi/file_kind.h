// What a file seems to be by its first bytes: for messages about files that are not what a flag takes.
#ifndef DIVISI_FILE_KIND_H
#define DIVISI_FILE_KIND_H

#include <algorithm>
#include <string_view>

namespace divisi {

enum class FileKind { unknown, empty, npy, npz, torch, zip, pickle, safetensors, hdf5, gzip, parquet, image, program, onnx, mlir, json, csv };

/// The kind as the end of "looks like ..."; empty for FileKind::unknown.
constexpr std::string_view nameOf(FileKind kind) {
  switch (kind) {
  case FileKind::unknown:
    return "";
  case FileKind::empty:
    return "an empty file";
  case FileKind::npy:
    return "a NumPy array (.npy)";
  case FileKind::npz:
    return "an archive of NumPy arrays (.npz)";
  case FileKind::torch:
    return "a PyTorch file (.pt)";
  case FileKind::zip:
    return "a zip archive";
  case FileKind::pickle:
    return "a Python pickle";
  case FileKind::safetensors:
    return "safetensors";
  case FileKind::hdf5:
    return "HDF5";
  case FileKind::gzip:
    return "a gzip file";
  case FileKind::parquet:
    return "Parquet";
  case FileKind::image:
    return "an image";
  case FileKind::program:
    return "a program";
  case FileKind::onnx:
    return "an ONNX model";
  case FileKind::mlir:
    return "a dump (.mlir)";
  case FileKind::json:
    return "JSON";
  case FileKind::csv:
    return "CSV";
  }
  return "";
}

/// Guesses from at most the first 4 KiB of a file's content: for words about a file that has been refused, never to
/// refuse it.
inline FileKind kindOfFile(std::string_view text) {
  using namespace std::string_view_literals;
  if (text.empty())
    return FileKind::empty;
  text = text.substr(0, 4096);
  if (text.size() > 9 && text[8] == '{' && text.substr(5, 3) == "\0\0\0"sv) // whatever the length before it looks like
    return FileKind::safetensors;
  auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (text.starts_with("\x93NUMPY"))
    return FileKind::npy;
  if (text.starts_with("PK\x03\x04"))
    return has("data.pkl") || has("/version") ? FileKind::torch : has(".npy") ? FileKind::npz : FileKind::zip;
  if (text.starts_with("\x89HDF"))
    return FileKind::hdf5;
  if (text.starts_with("\x1f\x8b"))
    return FileKind::gzip;
  if (text.starts_with("PAR1"))
    return FileKind::parquet;
  if (text.starts_with("\x89PNG") || text.starts_with("\xff\xd8\xff") || text.starts_with("GIF8"))
    return FileKind::image;
  if (text.starts_with("\x7f"
                       "ELF"))
    return FileKind::program;
  if (text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5)
    return FileKind::pickle;
  bool isText = std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t';
  });
  if (!isText) // field 1 of a ModelProto, its version, then the producer's name or what follows
    return text[0] == '\x08' && text.size() > 2 && text[1] > 2 && text[1] < 64 ? FileKind::onnx : FileKind::unknown;
  size_t first = text.find_first_not_of(" \r\n\t");
  if (first == std::string_view::npos)
    return FileKind::unknown;
  if (text[first] == '{' || text[first] == '[')
    return FileKind::json;
  if (has("func.func") || has("builtin.module") || text.substr(first).starts_with("module") || has("dist.plan"))
    return FileKind::mlir;
  std::string_view line = text.substr(first, text.find('\n', first) - first);
  return line.find_first_of(",;\t") != std::string_view::npos ? FileKind::csv : FileKind::unknown;
}

} // namespace divisi

#endif
