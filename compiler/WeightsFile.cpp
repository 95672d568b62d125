#include "compiler/WeightsFile.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace divisi::compiler;
namespace json = llvm::json;

/// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv).
static uint64_t hash(StringRef bytes, uint64_t seed = 0xcbf29ce484222325ull) {
  for (unsigned char byte : bytes)
    seed = (seed ^ byte) * 0x100000001b3ull;
  return seed;
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
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(header));
  text.resize((text.size() + 7) / 8 * 8, ' '); // data begin aligned
  char length[8];
  llvm::support::endian::write64le(length, text.size());

  auto temporary = llvm::sys::fs::TempFile::create(path + ".tmp%%%%%%");
  auto failed = [&](llvm::Error error) {
    return llvm::createStringError("cannot write '" + path + "': " + llvm::toString(std::move(error)));
  };
  if (!temporary)
    return failed(temporary.takeError());
  uint64_t state = hash(StringRef(length, sizeof length));
  llvm::raw_fd_ostream out(temporary->FD, /*shouldClose=*/false);
  out.write(length, sizeof length);
  out << text;
  state = hash(text, state);
  for (const Weight &weight : weights) {
    out.write(weight.bytes.data(), weight.bytes.size());
    state = hash(StringRef(weight.bytes.data(), weight.bytes.size()), state);
  }
  out.flush();
  if (out.has_error()) {
    auto code = out.error();
    out.clear_error();
    llvm::consumeError(temporary->discard());
    return failed(llvm::errorCodeToError(code));
  }
  if (auto error = temporary->keep(path))
    return failed(std::move(error));
  char digits[32];
  snprintf(digits, sizeof digits, "fnv1a64:%016llx", (unsigned long long)state);
  return WeightsReference{llvm::sys::path::filename(path).str(), digits};
}
