#include "divisi/Output.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace divisi;
namespace sys = llvm::sys;

static std::string cannotWrite(const std::string &file, const std::string &reason) {
  return "cannot write " + (file == "-" ? "the standard output" : "'" + file + "'") + ": " + reason;
}

std::string tools::checkOutput(const std::string &file) {
  if (file.empty() || file == "-")
    return "";
  if (sys::fs::is_directory(file))
    return cannotWrite(file, "this is a folder");
  if (sys::fs::exists(file))
    return sys::fs::can_write(file) ? "" : cannotWrite(file, "permission denied");
  llvm::StringRef folder = sys::path::parent_path(file);
  if (folder.empty())
    folder = ".";
  if (!sys::fs::is_directory(folder))
    return cannotWrite(file, "there is no folder '" + folder.str() + "'");
  return sys::fs::can_write(folder) ? "" : cannotWrite(file, "permission denied");
}

std::string tools::checkProgram(const std::string &path) {
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && status.type() != sys::fs::file_type::regular_file &&
      status.type() != sys::fs::file_type::directory_file)
    return "-o " + path + ": this is not a file";
  std::string wrong = checkOutput(path);
  return wrong.empty() ? checkOutput(path + ".safetensors") : wrong;
}

std::string tools::writeOutput(const std::string &file, llvm::function_ref<void(llvm::raw_ostream &)> print) {
  std::error_code code;
  llvm::ToolOutputFile output(file, code, sys::fs::OF_Text);
  if (code)
    return cannotWrite(file, code.message());
  print(output.os());
  output.os().flush();
  if (output.os().has_error()) {
    std::string reason = output.os().error().message();
    output.os().clear_error();
    return cannotWrite(file, reason);
  }
  output.keep();
  return "";
}
