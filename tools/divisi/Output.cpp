#include "divisi/Output.h"

#include "compiler/WeightsFile.h"
#include "runtime/include/divisi/file_kind.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

#include <fstream>

using namespace divisi;
namespace sys = llvm::sys;

static std::string cannotWrite(const std::string &file, const std::string &reason) {
  return "cannot write " + (file == "-" ? "the standard output" : "'" + file + "'") + ": " + reason;
}

/// Whether an argument (FILE, NAME=FILE or FILE@CLUSTER) of an option names this file, which exists. A word is not taken for
/// a file that happens to be called so, unless the option is for files.
static bool names(const CLI::Option *option, llvm::StringRef argument, llvm::StringRef file) {
  const bool always = option && (option->get_positional() || llvm::StringRef(option->get_type_name()).contains("FILE"));
  return llvm::any_of(std::initializer_list<llvm::StringRef>{argument, argument.split('=').second, argument.rsplit('@').first},
                      [&](llvm::StringRef name) {
                        return (always || name.find_first_of("./") != llvm::StringRef::npos) && sys::fs::equivalent(name, file);
                      });
}

/// An error text if another argument names a file that a flag would replace.
static std::string checkNamedOnce(const CLI::App &command, const std::string &flag, const std::string &file) {
  for (const CLI::Option *option : command.get_options())
    for (const std::string &argument : option->results())
      if (!option->check_name(flag) && names(option, argument, file))
        return flag + " " + file + ": " + option->get_name() + " names this file, too: name another one";
  for (const CLI::App *group : command.get_subcommands([](const CLI::App *part) { return part->get_name().empty(); }))
    if (std::string wrong = checkNamedOnce(*group, flag, file); !wrong.empty())
      return wrong;
  for (const std::string &argument : command.remaining())
    if (names(nullptr, argument, file))
      return flag + " " + file + ": '" + argument + "' names this file, too: name another one";
  return "";
}

static std::string checkWritable(const std::string &file) {
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

std::string tools::checkOutput(const CLI::App &command, const std::string &flag, const std::string &file) {
  std::string wrong = checkWritable(file);
  return wrong.empty() && sys::fs::is_regular_file(file) ? checkNamedOnce(command, flag, file) : wrong;
}

/// Whether a file may be replaced by a program: an executable (ELF) or an empty one. Others may be data of the model, which no argument names.
static bool isReplaceable(const std::string &path) {
  if (!sys::fs::is_regular_file(path))
    return true;
  char begin[64];
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return false;
  file.read(begin, sizeof begin);
  const FileKind kind = kindOfFile({begin, (size_t)file.gcount()});
  return kind == FileKind::program || kind == FileKind::empty;
}

std::string tools::checkProgram(const CLI::App &command, const std::string &path) {
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && status.type() != sys::fs::file_type::regular_file &&
      status.type() != sys::fs::file_type::directory_file)
    return "-o " + path + ": this is not a file";
  std::string wrong = checkOutput(command, "-o", path);
  if (wrong.empty() && !isReplaceable(path))
    wrong = "-o " + path + ": this file exists and is no program: remove it, or name another one";
  if (wrong.empty())
    wrong = checkOutput(command, "-o", path + ".safetensors");
  return wrong.empty() ? llvm::toString(compiler::checkReplaceable(path + ".safetensors")) : wrong;
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
