#include "compiler/Link.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

/// Writes a temporary object file and remembers its name.
static Error writeTemporary(MemoryBufferRef object, SmallVectorImpl<std::string> &files) {
  SmallString<128> file;
  int descriptor;
  if (auto code = sys::fs::createTemporaryFile("divisi", "o", descriptor, file))
    return createStringError(code, "cannot write a temporary object file: " + code.message());
  files.push_back(file.str().str());
  raw_fd_ostream out(descriptor, /*shouldClose=*/true);
  out << object.getBuffer();
  out.flush();
  if (out.has_error()) {
    std::string reason = out.error().message();
    out.clear_error();
    return createStringError("cannot write '" + file + "': " + reason);
  }
  return Error::success();
}

Error divisi::compiler::linkProgram(ArrayRef<std::unique_ptr<MemoryBuffer>> objects, StringRef output,
                                    StringRef libraryFolder, const LinkOptions &options) {
  SmallVector<std::string> files;
  SmallString<128> log;
  auto cleanUp = scope_exit([&] {
    for (const std::string &file : files)
      sys::fs::remove(file);
    sys::fs::remove(log);
  });
  if (auto code = sys::fs::createTemporaryFile("divisi", "log", log))
    return createStringError(code, "cannot write a temporary file: " + code.message());
  for (const auto &object : objects)
    if (auto failed = writeTemporary(*object, files))
      return failed;
  auto driver = sys::findProgramByName("c++");
  if (!driver)
    return createStringError("cannot link: no 'c++' on the PATH (install g++ or clang)");
  std::string runtime = (libraryFolder + "/libdivisi_runtime.a").str();
  if (!sys::fs::exists(runtime))
    return createStringError("cannot link: '" + runtime + "' is missing");
  // The driver takes "@file" for a file of arguments, and "-x" for a flag.
  std::string program = (output.starts_with("@") || output.starts_with("-") ? "./" + output : output).str();
  SmallVector<StringRef> arguments = {*driver, "-o", program};
  StringRef(DIVISI_LINK_OPTIONS).split(arguments, ' ', -1, /*KeepEmpty=*/false);
  llvm::append_range(arguments, files);
  std::string mpi = (libraryFolder + "/libdivisi_mpi.a").str(), cuda = (libraryFolder + "/libdivisi_cuda.a").str();
  if (options.mpi && !sys::fs::exists(mpi))
    return createStringError("cannot link a program for several devices: '" + mpi +
                             "' is missing (Divisi was built without MPI)");
  arguments.push_back("-Wl,--whole-archive");
  if (options.mpi)
    arguments.push_back(mpi);
  if (options.cuda)
    arguments.push_back(cuda);
  arguments.push_back("-Wl,--no-whole-archive");
  llvm::append_range(arguments, ArrayRef<StringRef>{runtime, "-Wl,--gc-sections", "-Wl,--as-needed", "-lopenblas",
                                                    "-ldnnl", "-ljpeg", "-lpng", "-lgomp", "-lpthread", "-ldl", "-lm"});
  if (options.mpi)
    arguments.push_back("-lmpi");
  std::optional<StringRef> redirects[] = {StringRef(""), log.str(), log.str()};
  // These linkers are three times faster than the default one, which is the last resort.
  for (StringRef linker : {"lld", "gold"})
    if (sys::findProgramByName(("ld." + linker).str())) {
      std::string option = ("-fuse-ld=" + linker).str();
      SmallVector<StringRef> fast = arguments;
      fast.push_back(option);
      if (sys::ExecuteAndWait(*driver, fast, std::nullopt, redirects) == 0)
        return Error::success();
    }
  std::string message;
  if (sys::ExecuteAndWait(*driver, arguments, std::nullopt, redirects, 0, 0, &message) != 0) {
    auto said = MemoryBuffer::getFile(log);
    return createStringError("cannot link '" + output + "': " + message + (said ? (*said)->getBuffer().trim() : ""));
  }
  return Error::success();
}
