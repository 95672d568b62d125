// divisi profile: measures the times of a model's kernels, library calls and collectives on this machine.
#include "compiler/Profile/Database.h"
#include "compiler/Profile/LayerTimes.h"
#include "compiler/Session.h"
#include "divisi/Commands.h"
#include "divisi/Fail.h"
#include "divisi/ModelFlags.h"
#include "divisi/Output.h"
#include "divisi/RandomData.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace divisi;
using namespace divisi::tools;
using compiler::ProfileDatabase;
namespace json = llvm::json;

namespace {

struct ProfileFlags {
  std::string model, database, from, layers;
  std::vector<std::string> strategies, forwarded;
  int64_t devices = 1, steps = 40;
};

/// A temporary folder; it is removed with its contents.
struct TemporaryFolder {
  llvm::SmallString<128> path;
  std::error_code error = llvm::sys::fs::createUniqueDirectory("divisi-profile", path);
  ~TemporaryFolder() { llvm::sys::fs::remove_directories(path); }
  std::string file(llvm::StringRef name) const { return (path + "/" + name).str(); }
};

class Profiling {
public:
  explicit Profiling(const ProfileFlags &flags) : flags(flags) {}

  int run() {
    std::string file = flags.database.empty() ? ProfileDatabase::defaultFile() : flags.database;
    auto database = ProfileDatabase::read(file);
    if (!database)
      return fail(llvm::toString(database.takeError()));
    if (!flags.from.empty()) {
      if (auto error = database->fold(flags.from))
        return fail(llvm::toString(std::move(error)));
    } else if (int code = measure(*database)) {
      return code;
    }
    if (auto error = database->write(file))
      return fail(llvm::toString(std::move(error)));
    llvm::outs() << file << ": " << database->size() << " times\n";
    return 0;
  }

private:
  int execute(std::vector<std::string> arguments) {
    std::vector<llvm::StringRef> list(arguments.begin(), arguments.end());
    std::string error;
    int code = llvm::sys::ExecuteAndWait(arguments[0], list, std::nullopt, {}, 0, 0, &error);
    if (!error.empty())
      fail(arguments[0] + ": " + error);
    return code;
  }

  /// Compiles the model with each strategy, and trains each program for some steps on random data.
  int measure(ProfileDatabase &database) {
    if (folder.error)
      return fail("cannot make a temporary folder: " + folder.error.message());
    std::string self = llvm::sys::fs::getMainExecutable(nullptr, (void *)&addProfile);
    std::vector<std::string> ways = {"", "data", "operator", "auto"}; // one device first
    if (!flags.strategies.empty())
      ways = flags.strategies;
    if (flags.devices == 1)
      ways = {""};
    for (const std::string &way : ways) {
      std::string program = folder.file("program" + way), times = folder.file("times" + way);
      std::vector<std::string> compile = {self, "compile", flags.model, "-o", program};
      compile.insert(compile.end(), flags.forwarded.begin(), flags.forwarded.end());
      if (!way.empty())
        compile.insert(compile.end(), {"--devices", std::to_string(flags.devices), "--strategy", way});
      if (int code = execute(compile))
        return code;
      std::vector<std::string> data;
      int64_t ranks = 1;
      if (auto error = writeRandomData(program, folder.path.str().str(), data, ranks))
        return fail(llvm::toString(std::move(error)));
      std::vector<std::string> train = {program};
      if (ranks > 1)
        train = {self, "run", "--devices", std::to_string(ranks), program};
      train.insert(train.end(), data.begin(), data.end());
      train.insert(train.end(), {"--steps", std::to_string(flags.steps), "--init", "1", "--lr", "0", "--no-shuffle",
                                 "--quiet", "--profile", times});
      if (int code = execute(train))
        return code;
      if (auto error = database.fold(times))
        return fail(llvm::toString(std::move(error)));
      if (!flags.layers.empty())
        if (int code = writeLayers(times))
          return code;
      report(way.empty() ? "one device" : way, times);
    }
    return 0;
  }

  /// Writes the profile of layers, from the model and the times that its program wrote.
  int writeLayers(const std::string &times) {
    ModelFlags model;
    CLI::App parser;
    model.addTo(parser);
    std::vector<std::string> arguments = flags.forwarded;
    arguments.push_back(flags.model);
    std::reverse(arguments.begin(), arguments.end());
    parser.parse(arguments); // divisi compile has accepted them before
    std::string error = model.finish();
    compiler::Session session;
    auto passes = [&](mlir::OpPassManager &manager) {
      compiler::addTrainPipeline(manager, model.train);
      compiler::addSimplify(manager);
    };
    if (!error.empty() || failed(session.read(model)) ||
        failed(compiler::followTrainingInfo(*session.model.module, model.import, model.train)) || failed(session.run(passes)))
      return error.empty() ? 1 : fail(error);
    auto profile = compiler::layerTimes(*session.model.module, times);
    if (!profile)
      return fail(profile.takeError());
    error = writeOutput(flags.layers, [&](llvm::raw_ostream &out) { planning::writeLayerProfile(*profile, out); });
    return error.empty() ? 0 : fail(error);
  }

  /// Prints one line: the time of a step, and the time that was expected before.
  void report(const std::string &way, const std::string &times) {
    auto text = llvm::MemoryBuffer::getFile(times);
    auto head = text ? json::parse((*text)->getBuffer().split('\n').first) : json::parse("{}");
    const json::Object *object = head ? head->getAsObject() : nullptr;
    if (!head)
      llvm::consumeError(head.takeError());
    if (object)
      llvm::outs() << way << ": " << llvm::format("%.3g ms", object->getNumber("us").value_or(0) * 1e-3)
                   << llvm::format(" a step, %.3g ms expected before\n",
                                   object->getNumber("expected_us").value_or(0) * 1e-3);
  }

  const ProfileFlags &flags;
  TemporaryFolder folder;
};
} // namespace

void tools::addProfile(CLI::App &app, int &exitCode) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App *command =
      app.add_subcommand("profile", "measure this machine for a model: plans and expectations then use the times");
  auto *model = command->add_option("model", flags->model, "an ONNX file");
  command->add_option("--devices", flags->devices, "ranks on this machine")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--strategy", flags->strategies,
                   "ways to split it over several devices (default: data, operator and auto, after one device)")
      ->check(CLI::IsMember({"auto", "data", "operator"}));
  command->add_option("--steps", flags->steps, "steps to measure")->check(CLI::Range(5, 100000))->capture_default_str();
  auto *from = command->add_option("--from", flags->from, "take what a program wrote with --profile instead")
                   ->check(CLI::ExistingFile);
  command->add_option("--database", flags->database,
                      "the file to keep the times in (default: $DIVISI_PROFILE, or in the cache folder)");
  auto *layers = command->add_option("--layers", flags->layers,
                                     "write what each node takes on one device, for divisi plan --profile");
  model->excludes(from);
  layers->excludes(from);
  command->allow_extras();
  command->footer(
      "Other flags are those of divisi compile.\nExamples:\n"
      "  divisi profile model.onnx --dim batch=64 --optimizer adamw\n"
      "  divisi profile model.onnx --devices 2\n"
      "  divisi profile model.onnx --layers layers.json; divisi plan --profile layers.json --objective pipedream "
      "--devices 4 --bandwidth 10Gb/s\n"
      "  ./model --data image=x.npy --data label=y.npy --profile run.jsonl; divisi profile --from run.jsonl");
  command->callback([flags, command, &exitCode] {
    flags->forwarded = command->remaining();
    if (flags->model.empty() == flags->from.empty()) {
      exitCode = fail("expected a model, or --from FILE", 2);
      return;
    }
    if (!flags->layers.empty() && flags->devices > 1) {
      exitCode = fail("--layers is about one device: leave out --devices", 2);
      return;
    }
    if (std::string wrong = checkOutput(*command, "--layers", flags->layers); !wrong.empty())
      exitCode = fail(wrong, 2);
    else
      exitCode = Profiling(*flags).run();
  });
}
