#include "compiler/WeightsFile.h"

#include "divisi/chunk_hash.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <fstream>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
namespace json = llvm::json;

/// The header of each such file begins so.
static constexpr llvm::StringLiteral mark = R"({"__metadata__":{"divisi":"initial weights"})";

llvm::Error compiler::checkReplaceable(StringRef path) {
  if (!llvm::sys::fs::is_regular_file(path))
    return llvm::Error::success();
  char begin[8 + mark.size()] = {};
  std::ifstream(path.str(), std::ios::binary).read(begin, sizeof begin);
  if (StringRef(begin + 8, mark.size()) == mark)
    return llvm::Error::success();
  return llvm::createStringError("cannot write the program's weights to '" + path +
                                 "': this file exists, and is not marked as a program's initial weights (files of earlier "
                                 "versions are not): choose another -o, or remove it");
}

llvm::Expected<WeightsReference> divisi::compiler::writeWeights(StringRef path, ArrayRef<Weight> weights) {
  json::Object header;
  int64_t offset = 0;
  for (const Weight &weight : weights) {
    json::Array shape;
    for (int64_t size : weight.type.getShape())
      shape.push_back(size);
    int64_t end = offset + weight.bytes.size();
    header[weight.name] = json::Object{{"dtype", typeName(weight.type.getElementType())},
                                       {"shape", std::move(shape)},
                                       {"data_offsets", json::Array{offset, end}}};
    offset = end;
  }
  std::string text = mark.str(), entries;
  llvm::raw_string_ostream(entries) << json::Value(std::move(header));
  text += entries == "{}" ? "}" : "," + entries.substr(1);
  text.resize((text.size() + 7) / 8 * 8, ' '); // so that the data begins aligned
  char length[8];
  llvm::support::endian::write64le(length, text.size());

  auto temporary = llvm::sys::fs::TempFile::create(path + ".tmp%%%%%%");
  auto failed = [&](llvm::Error error) {
    return llvm::createStringError("cannot write '" + path + "': " + llvm::toString(std::move(error)));
  };
  if (!temporary)
    return failed(temporary.takeError());
  ChunkHasher hasher;
  llvm::raw_fd_ostream out(temporary->FD, /*shouldClose=*/false);
  auto put = [&](StringRef bytes) {
    out << bytes;
    hasher.add(bytes.data(), bytes.size());
  };
  put(StringRef(length, sizeof length));
  put(text);
  for (const Weight &weight : weights)
    put(StringRef(weight.bytes.data(), weight.bytes.size()));
  out.flush();
  if (out.has_error()) {
    auto code = out.error();
    out.clear_error();
    llvm::consumeError(temporary->discard());
    return failed(llvm::errorCodeToError(code));
  }
  if (auto error = temporary->keep(path))
    return failed(std::move(error));
  return WeightsReference{llvm::sys::path::filename(path).str(), std::move(hasher).text()};
}
