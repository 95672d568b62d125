// divisi simulate: runs a pipeline schedule with given times of its stages, or replicas that are kept in step.
#include "divisi/Commands.h"
#include "divisi/Fail.h"
#include "divisi/Output.h"
#include "divisi/SimulateFlags.h"
#include "passes/Planning/Simulator/Render.h"

#include "llvm/Support/FormatVariadic.h"

using namespace divisi;
using namespace divisi::tools;
using namespace divisi::planning::pipeline;

namespace {

class Simulating {
public:
  Simulating(SimulateFlags &flags, const CLI::App &command) : flags(flags), command(command) {}

  int run() { return ReplicaFlags::given(command) ? runReplicas() : runPipeline(); }

private:
  int runPipeline() {
    SimulatedPipeline pipeline;
    if (std::string wrong = flags.read(command, pipeline); !wrong.empty())
      return fail(wrong, 2);
    const ScheduleOptions &options = pipeline.options;
    auto simulation = simulate(options, pipeline.edges, pipeline.stages, pipeline.network);
    if (!simulation)
      return fail(llvm::toString(simulation.takeError()), 2);
    Names names{flags.title, {}};
    if (names.title.empty())
      names.title = llvm::formatv("{0}: {1} stages, {2} {3}batches", nameOf(options.kind), options.stages(),
                                  options.microbatches, options.unsplit() ? "mini" : "micro")
                        .str();
    return show(report(*simulation, names), toJson(*simulation, names));
  }

  int runReplicas() {
    ReplicaOptions replicas;
    if (std::string wrong = flags.read(command, replicas); !wrong.empty())
      return fail(wrong, 2);
    auto simulation = simulate(replicas);
    if (!simulation)
      return fail(llvm::toString(simulation.takeError()), 2);
    return show(report(*simulation, flags.title), toJson(*simulation));
  }

  int show(const Report &report, llvm::json::Object json) {
    for (auto [file, print] :
         {std::pair(&flags.svg, &printSwimlane), {&flags.html, &printPage}, {&flags.trace, &printTrace}}) {
      if (file->empty())
        continue;
      std::string wrong = tools::writeOutput(*file, [&](llvm::raw_ostream &out) { print(report, out); });
      if (!wrong.empty())
        return fail(wrong, 2);
    }
    if (flags.json)
      llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(json))) << "\n";
    else
      printTable(report, llvm::outs());
    return 0;
  }

  SimulateFlags &flags;
  const CLI::App &command;
};
} // namespace

void tools::addSimulate(CLI::App &app, int &exitCode) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App *command = app.add_subcommand(
      "simulate", "what a pipeline schedule, or replicas with a straggler, would do: time, a picture");
  flags->addTo(*command);
  command->callback([flags, command, &exitCode] { exitCode = Simulating(*flags, *command).run(); });
}
