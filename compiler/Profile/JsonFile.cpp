#include "compiler/Profile/JsonFile.h"

#include "passes/Planning/Nesting.h"
#include "runtime/include/divisi/file_kind.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

using namespace divisi;

/// Larger files are no measurements.
static constexpr size_t mostBytes = 256 << 20;

std::string compiler::cachedFile(const char *variable, llvm::StringRef name) {
  if (auto file = llvm::sys::Process::GetEnv(variable))
    return *file;
  llvm::SmallString<128> path;
  if (!llvm::sys::path::cache_directory(path))
    return ("divisi-" + name).str();
  llvm::sys::path::append(path, "divisi", name);
  return path.str().str();
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> compiler::readText(const std::string &file, llvm::StringRef kind) {
  if (llvm::sys::fs::exists(file) && !llvm::sys::fs::is_regular_file(file))
    return llvm::createStringError("cannot read '" + file + "': it is not a file");
  auto buffer = llvm::MemoryBuffer::getFile(file, /*IsText=*/true);
  if (!buffer || (*buffer)->getBufferSize() > mostBytes)
    return llvm::createStringError("cannot read '" + file +
                                   "': " + (buffer ? "it is too large" : buffer.getError().message()));
  if (llvm::StringRef text = (*buffer)->getBuffer(); nestsTooDeep(text, mostJsonNesting)) {
    const FileKind found = kindOfFile(std::string_view(text));
    const bool isOther = found != FileKind::unknown && found != FileKind::json;
    return llvm::createStringError("'" + file + "' is no " + kind.str() + ": it " +
                                   (isOther ? "looks like " + std::string(nameOf(found)) : "nests too deep"));
  }
  return std::move(*buffer);
}

llvm::Error compiler::writeJson(const std::string &file, llvm::json::Object content) {
  std::string text = llvm::formatv("{0:1}\n", llvm::json::Value(std::move(content)));
  llvm::StringRef folder = llvm::sys::path::parent_path(file);
  if (auto code = folder.empty() ? std::error_code() : llvm::sys::fs::create_directories(folder))
    return llvm::createStringError("cannot make the folder of '" + file + "': " + code.message());
  auto error = llvm::writeToOutput(file, [&](llvm::raw_ostream &out) {
    out << text;
    return llvm::Error::success();
  });
  if (error)
    return llvm::createStringError("cannot write '" + file + "': " + llvm::toString(std::move(error)));
  return llvm::Error::success();
}
