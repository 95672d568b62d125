// divisi: the command line.
#include "divisi/Commands.h"
#include "divisi/Run.h"
#include "divisi/Version.h"
#include "runtime/core/StandardStreams.h"
#include "runtime/main/FlagErrors.h"
#include "runtime/main/Options.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <iostream>

/// What jemalloc reads, if it is linked (tools/CMakeLists.txt): freed memory stays with the process, which plans for seconds.
extern "C" {
const char *malloc_conf = "dirty_decay_ms:-1";
}

/// Reports an error if output was lost, for example on a full disk.
static int ended(int code) {
  std::cout.flush();
  llvm::outs().flush();
  bool lost = !std::cout || llvm::outs().has_error();
  llvm::outs().clear_error(); // LLVM would end the process with its own message
  if (!lost)
    return code;
  llvm::errs() << "error: cannot write to the standard output\n";
  return code ? code : 1;
}

/// All flags of subcommands and of programs, with words for where they belong.
static std::map<std::string, std::string> flagsElsewhere(const CLI::App &app) {
  std::map<std::string, std::string> where;
  for (const std::string &flag : divisi::runtime::programFlags())
    where.try_emplace(flag, "the program that divisi compile writes");
  for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; }))
    for (const std::string &flag : divisi::runtime::flagsOf(*command))
      where.try_emplace(flag, "divisi " + command->get_name());
  where.erase("--help");
  return where;
}

int main(int argc, char **argv) {
  using namespace divisi::tools;
  divisi::runtime::occupyStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // a limit on the size of files is an error of the write
  CLI::App app{"Divisi: trains ONNX models as native programs.\n", "divisi"};
  app.require_subcommand(1);
  app.set_version_flag("--version", describeVersion, "print the version and the libraries that this was built with");
  app.footer("Example:\n"
             "  divisi compile model.onnx -o model --loss cross_entropy --label label --optimizer sgd --lr 0.05\n"
             "  ./model --data image=x.npy --data label=y.npy --epochs 10 --save trained.onnx\n"
             "  divisi compile model.onnx -o model --devices 4 ...; divisi run --devices 4 ./model ...");
  static int anchor;
  llvm::SmallString<128> folder(llvm::sys::fs::getMainExecutable(argv[0], &anchor));
  llvm::sys::path::remove_filename(folder);
  llvm::sys::path::append(folder, "..", "lib");
  llvm::sys::path::remove_dots(folder, /*remove_dot_dot=*/true);
  Installation installation{folder.str().str()};
  int exitCode = 0;
  addCompile(app, installation, exitCode);
  addPlan(app, exitCode);
  addExplain(app, exitCode);
  addDiff(app, exitCode);
  addProfile(app, exitCode);
  addSimulate(app, exitCode);
  addRunGraph(app, exitCode);
  addCheckpoint(app, exitCode);
  addData(app, exitCode);
  addDoctor(app, exitCode);
  addRun(app);
  app.add_subcommand("version", "the same as --version")->callback([] { llvm::outs() << describeVersion() << "\n"; });
  addCompletion(app);
  addManual(app, exitCode);
  if (argc > 1 && std::string_view(argv[1]) == "run") // the other arguments belong to the program
    return ended(runMain(argc - 1, argv + 1));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) // --help, --version
      return ended(app.exit(error));
    llvm::errs() << "error: " << divisi::runtime::describeFlagError(app, error, flagsElsewhere(app)) << "\n";
    return 2;
  }
  return ended(exitCode);
}
