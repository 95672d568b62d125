// divisi plan, divisi explain: predict the costs of plans for a cluster, without using its devices.
#include "compiler/PlanSearch.h"
#include "compiler/Report/Calls.h"
#include "compiler/Report/Numbers.h"
#include "compiler/Report/Throughput.h"
#include "compiler/PlannedCalls.h"
#include "divisi/Calibrate.h"
#include "divisi/Commands.h"
#include "divisi/DeviceFlags.h"
#include "divisi/Fail.h"
#include "divisi/Output.h"
#include "divisi/PipeDream.h"
#include "divisi/PlanFlags.h"
#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Simulator/Render.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::tools;
using namespace divisi::planning;

namespace {

/// What a search is asked for on the cluster; an error is one of the flags.
llvm::Expected<compiler::PlanRequest> requestOf(const PlanFlags &flags, const Cluster &cluster, bool explain) {
  if (flags.devices > cluster.devices())
    return compiler::wrongRequest("--cluster " + flags.cluster + " has " + std::to_string(cluster.devices()) + " devices, " +
                                  std::to_string(flags.devices) + " are asked for");
  if (!flags.allowed.empty() && !flags.pipelines)
    return compiler::wrongRequest("--allow asynchronous is for --pipelines");
  const bool pipedream = flags.schedule == compiler::asynchronousSchedule;
  if (pipedream && (flags.microbatches || flags.remat.value_or(0) > 0))
    return compiler::wrongRequest("--schedule pipedream updates the weights with every batch and recomputes nothing: leave "
                                  "out --microbatches and --remat");
  compiler::PlanRequest request{.model = flags.model, .cluster = cluster};
  request.model.import.weightsOptional = true;
  request.devices = flags.devices ? flags.devices : cluster.devices();
  request.microbatches = flags.microbatches;
  request.file = flags.plan;
  request.givenMesh = !flags.mesh.empty();
  request.pipelines = flags.pipelines;
  request.asynchronous = !flags.allowed.empty() || pipedream;
  request.schedule = flags.schedule;
  request.explains = explain;
  request.pricesSync = !flags.sync.empty();
  auto pins = parsePins(flags.pins);
  if (!pins)
    return compiler::wrongRequest("--pin " + llvm::toString(pins.takeError()));
  request.options.pins = *pins;
  request.options.remat = flags.remat;
  if (request.givenMesh) {
    auto mesh = parseMesh(flags.mesh);
    if (!mesh)
      return compiler::wrongRequest("--mesh: " + llvm::toString(mesh.takeError()));
    if (mesh->devices() > cluster.devices())
      return compiler::wrongRequest("--mesh: more devices than the cluster has");
    if (mesh->find(dist::stageAxis))
      return compiler::wrongRequest("--mesh is searched without stages: --pipelines searches pipelines, and --plan FILE prices "
                                    "one that divisi compile --mesh stage=N,... --emit plan has written");
    if (std::string wrong = checkDevices(flags.mesh, mesh->devices(), flags.devices); !wrong.empty())
      return compiler::wrongRequest(wrong);
    request.options.searchOnly(*mesh);
  } else if (request.devices > 1) {
    request.options.meshes = enumerateMeshes(cluster, request.devices);
    request.options.wider = true;
  }
  if (request.devices == 1 && !request.options.pins.empty())
    return compiler::wrongRequest("--pin needs several devices");
  return request;
}

int write(const std::string &file, llvm::function_ref<void(llvm::raw_ostream &)> print) {
  std::string wrong = tools::writeOutput(file, print);
  return wrong.empty() ? 0 : fail(wrong, 1);
}

/// Prints what a program is expected to take.
int report(const PlanFlags &flags, const compiler::Expectation &program) {
  llvm::json::Object facts{{"step_ms", program.step * 1e-3}};
  if (flags.calls)
    facts["calls"] = compiler::describeCalls(compiler::callsOf(program));
  if (flags.json) {
    llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(facts))) << "\n";
    return 0;
  }
  llvm::outs() << "a step takes " << compiler::digits(program.step * 1e-3) << " ms\n";
  if (flags.calls)
    compiler::printCalls(*facts.getArray("calls"), llvm::outs());
  return 0;
}

/// Prints what a search has found; returns the exit code.
int report(const PlanFlags &flags, const compiler::PlanRequest &request, const compiler::PlanSearch &search) {
  const std::vector<compiler::PipelineCandidate> &pipelines = search.first.pipelines;
  const compiler::PlanReport found{llvm::sys::path::filename(request.model.input).str(), request.cluster,
                                   search.first.candidates, search.suggestions, search.flips};
  llvm::json::Object facts = request.explains ? found.explanation() : found.plans();
  if (request.pipelines || !pipelines.empty())
    facts["pipelines"] = compiler::describePipelines(pipelines);
  for (const char *list : {"plans", "pipelines"})
    if (llvm::json::Array *plans = facts.getArray(list))
      compiler::addThroughput(*plans, search.first.work, request.cluster, flags.price);
  if (flags.calls) {
    auto calls = compiler::plannedCalls(search.first, request.cluster, /*isFile=*/!request.file.empty());
    if (!calls)
      return fail(calls.takeError());
    facts["calls"] = compiler::describeCalls(*calls);
  }
  if (!search.hints.empty())
    facts["hints"] = llvm::json::Array(search.hints);
  if (!search.sync.empty())
    facts["sync"] = compiler::describeSync(search.sync);
  if (search.advice)
    facts["batch_advice"] = search.advice->describe();
  if (!flags.swimlane.empty() && !pipelines.empty())
    if (int code = write(flags.swimlane, [&](llvm::raw_ostream &out) {
          printPage(pipeline::report(pipelines[0].run, {found.model + ": " + pipelines[0].name(), {}}), out);
        }))
      return code;
  if (!flags.html.empty())
    if (int code = write(flags.html, [&](llvm::raw_ostream &out) { compiler::printHtml(facts, out); }))
      return code;
  const bool asText = !flags.json && flags.html.empty();
  if (flags.json)
    llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(facts))) << "\n";
  else if (request.explains && asText)
    compiler::printExplanation(facts, llvm::outs());
  else if (!request.explains)
    compiler::printPlans(facts, flags.top, llvm::outs());
  if (flags.calls && asText)
    compiler::printCalls(*facts.getArray("calls"), llvm::outs());
  if (!search.sync.empty() && asText)
    compiler::printSync(search.syncPlan, search.sync, llvm::outs());
  if (search.advice && asText)
    search.advice->print(llvm::outs());
  return (found.candidates.empty() ? pipelines[0].fits : found.candidates[0].fits) ? 0 : 3;
}

int runPlan(PlanFlags &flags, bool explain) {
  std::optional<compiler::MeasuredNoise> noise;
  if (!flags.log.empty()) {
    auto read = compiler::MeasuredNoise::read(flags.log);
    if (!read)
      return fail(read.takeError());
    noise = *read;
  }
  if (flags.cluster.empty())
    flags.cluster = "cpu:" + std::to_string(flags.devices ? flags.devices : thisMachine().cores);
  auto machine = machineFor(flags.cluster, !flags.noCalibration);
  if (!machine)
    return fail(machine.takeError());
  auto cluster = parseCluster(flags.cluster, *machine);
  if (!cluster)
    return fail("--cluster: " + llvm::toString(cluster.takeError()), 2);
  auto request = requestOf(flags, *cluster, explain);
  if (!request)
    return fail(request.takeError());
  request->log = flags.log;
  request->noise = noise;
  compiler::PlanSearch search(*request);
  if (llvm::Error error = search.run())
    return fail(std::move(error));
  if (search.first.program)
    return report(flags, *search.first.program);
  if (!explain && !flags.json && search.mayPipelinesWin())
    llvm::errs() << "note: pipelines may be faster: --pipelines searches them, too, as compile does\n";
  return report(flags, *request, search);
}

void addPlanning(CLI::App &app, bool explain, int &exitCode) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App *command =
      app.add_subcommand(explain ? "explain" : "plan", explain ? "why a model is split so, and what would change it"
                                                               : "list the best plans for a model on a cluster");
  flags->addTo(*command, explain);
  command->callback([flags, explain, command, &exitCode] {
    if (std::string wrong = flags->finish(*command, explain); !wrong.empty())
      exitCode = fail(wrong, 2);
    else if (!flags->profile.empty())
      exitCode =
          planPipeDream({flags->profile, flags->cost, flags->bandwidth, flags->cluster, flags->devices, flags->json});
    else
      exitCode = runPlan(*flags, explain);
  });
}
} // namespace

void tools::addPlan(CLI::App &app, int &exitCode) { addPlanning(app, /*explain=*/false, exitCode); }
void tools::addExplain(CLI::App &app, int &exitCode) { addPlanning(app, /*explain=*/true, exitCode); }
