// divisi plan, divisi explain: predict the costs of plans for a cluster, without using its devices.
#include "compiler/Profile/Database.h"
#include "compiler/RankPipelines.h"
#include "compiler/Report/Numbers.h"
#include "compiler/Report/PlanReport.h"
#include "compiler/Report/SyncReport.h"
#include "compiler/Report/Throughput.h"
#include "divisi/Attempt.h"
#include "divisi/BatchSearch.h"
#include "divisi/Calibrate.h"
#include "divisi/Commands.h"
#include "divisi/Diagnostics.h"
#include "divisi/DeviceFlags.h"
#include "divisi/ModelFlags.h"
#include "divisi/Output.h"
#include "divisi/PipeDream.h"
#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Strategy.h"
#include "passes/Planning/Simulator/Render.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::tools;
using namespace divisi::planning;

namespace {

struct PlanFlags {
  ModelFlags model;
  std::string cluster, mesh, html, plan;
  std::string profile, objective = "step", bandwidth, cost = "paper"; // of layers instead of a model
  std::vector<std::string> pins;
  std::string schedule, allowed, swimlane; // of pipelines
  int64_t devices = 0, microbatches = 0;
  std::optional<int64_t> remat;
  std::string priceText;
  double price = 0; // of a device and hour; 0: unknown
  std::string log;  // of a program that measured the noise of its gradients
  std::string sync; // all: also the ways to keep replicas in step
  size_t top = 10;
  bool json = false, pipelines = false, noCalibration = false;
};

class Planning {
public:
  Planning(PlanFlags &flags, bool explain) : flags(flags), explain(explain) {}

  int run() {
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
    if (flags.devices > cluster->devices())
      return fail("--cluster " + flags.cluster + " has " + std::to_string(cluster->devices()) + " devices, " +
                      std::to_string(flags.devices) + " are asked for",
                  2);
    flags.model.import.weightsOptional = true;
    if (!flags.allowed.empty() && !flags.pipelines)
      return fail("--allow asynchronous is for --pipelines", 2);
    if (flags.schedule == compiler::asynchronousSchedule && (flags.microbatches || flags.remat.value_or(0) > 0))
      return fail("--schedule pipedream updates the weights with every batch and recomputes nothing: leave out "
                  "--microbatches and --remat",
                  2);
    Attempt first(flags.model);
    first.asynchronous = !flags.allowed.empty() || flags.schedule == compiler::asynchronousSchedule;
    if (!flags.plan.empty()) {
      if (llvm::Error error = first.price(*cluster, flags.plan))
        return fail(std::move(error));
      auto database = compiler::ProfileDatabase::read(compiler::ProfileDatabase::defaultFile());
      if (!database)
        llvm::consumeError(database.takeError()); // it is not used
      else if (!database->empty() && cluster->device.kind == "cpu")
        llvm::errs() << "note: --plan FILE is priced by formulas, without the times of the profile\n";
      return report({llvm::sys::path::filename(flags.model.input).str(), *cluster, first.candidates, suggestions},
                    first);
    }
    PlannerOptions options;
    auto pins = parsePins(flags.pins);
    if (!pins)
      return fail("--pin " + llvm::toString(pins.takeError()), 2);
    options.pins = *pins;
    options.remat = flags.remat;
    int64_t devices = flags.devices ? flags.devices : cluster->devices();
    if (!flags.mesh.empty()) {
      auto mesh = parseMesh(flags.mesh);
      if (!mesh)
        return fail("--mesh: " + llvm::toString(mesh.takeError()), 2);
      if (mesh->devices() > cluster->devices())
        return fail("--mesh: more devices than the cluster has", 2);
      if (mesh->find(dist::stageAxis))
        return fail("--mesh is searched without stages: --pipelines ranks pipelines, and --plan FILE prices one that "
                    "divisi compile --mesh stage=N,... --emit plan has written",
                    2);
      if (std::string wrong = checkDevices(flags.mesh, mesh->devices(), flags.devices); !wrong.empty())
        return fail(wrong, 2);
      options.meshes = {*mesh};
    } else if (devices > 1) {
      options.meshes = enumerateMeshes(*cluster, devices);
      options.wider = true;
    }
    if (devices == 1 && !options.pins.empty())
      return fail("--pin needs several devices", 2);
    if (llvm::Error error = first.plan(*cluster, options, flags.microbatches))
      return fail(std::move(error));
    if (!first.unmeasured.empty())
      llvm::errs() << "note: plans are not ordered by measured times: " << first.unmeasured << "\n";
    if (flags.pipelines && devices > 1) {
      if (first.hasBatchNorm)
        return fail(
            "--pipelines: batch norm uses the statistics of each microbatch, so that pipelines compute other numbers: "
            "compile with --strategy hybrid, whose stages work on the whole batch, or with --microbatches N, too",
            2);
      first.pipelines = compiler::rankPipelines(
          first.asynchronous ? *first.marked : *first.session.model.module, *cluster,
          {devices, flags.microbatches, 0, flags.schedule, first.asynchronous, rematOfPipelines()});
    }
    if (!first.candidates[0].fits) {
      if (devices > 1 && flags.mesh.empty() && flags.pins.empty() && !first.hasBatchNorm && !flags.microbatches)
        suggestPipeline(first, *cluster, devices);
      suggest(*cluster, options, devices);
      suggestPrecision(*cluster, options);
    } else if (bool free = devices > 1 && flags.mesh.empty() && flags.pins.empty() && !first.hasBatchNorm;
               free && !explain && !flags.json && !flags.pipelines &&
               compiler::mayPipelinesWin(*cluster, first.candidates[0], devices)) {
      llvm::errs()
          << "note: pipelines may be faster: --pipelines ranks them, and compile chooses between them and these\n";
    }
    if (!flags.sync.empty())
      if (std::string wrong = priceSync(first, *cluster, options, devices); !wrong.empty())
        return fail(wrong, 2);
    std::vector<compiler::PlanReport::Flip> flips;
    if (explain && first.candidates[0].fits)
      hintAtPrecision(first.candidates[0], *cluster, options);
    if (explain)
      flips = batches.others(first.candidates[0], *cluster, options);
    if (noise) {
      auto advised = batches.advise(flags.log, *noise, first, *cluster, options);
      if (!advised)
        return fail(advised.takeError());
      advice = std::move(*advised);
    }
    return report({llvm::sys::path::filename(flags.model.input).str(), *cluster, first.candidates, suggestions, flips},
                  first);
  }

private:
  /// For suggestions: those that fail are left out.
  static bool succeeds(llvm::Error error) { return !llvm::errorToBool(std::move(error)); }

  int write(const std::string &file, llvm::function_ref<void(llvm::raw_ostream &)> print) {
    std::string wrong = tools::writeOutput(file, print);
    return wrong.empty() ? 0 : fail(wrong, 1);
  }

  int report(const compiler::PlanReport &report, const Attempt &first) {
    const std::vector<compiler::PipelineCandidate> &pipelines = first.pipelines;
    llvm::json::Object facts = explain ? report.explanation() : report.plans();
    if (flags.pipelines || !pipelines.empty())
      facts["pipelines"] = compiler::describePipelines(pipelines);
    for (const char *list : {"plans", "pipelines"})
      if (llvm::json::Array *plans = facts.getArray(list))
        compiler::addThroughput(*plans, first.work, report.cluster, flags.price);
    if (!hints.empty())
      facts["hints"] = llvm::json::Array(hints);
    if (!sync.empty())
      facts["sync"] = compiler::describeSync(sync);
    if (advice)
      facts["batch_advice"] = advice->describe();
    if (!flags.swimlane.empty() && !pipelines.empty())
      if (int code = write(flags.swimlane, [&](llvm::raw_ostream &out) {
            printPage(pipeline::report(pipelines[0].run, {report.model + ": " + pipelines[0].name(), {}}), out);
          }))
        return code;
    if (!flags.html.empty())
      if (int code = write(flags.html, [&](llvm::raw_ostream &out) { compiler::printHtml(facts, out); }))
        return code;
    if (flags.json)
      llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(facts))) << "\n";
    else if (explain && flags.html.empty())
      compiler::printExplanation(facts, llvm::outs());
    else if (!explain)
      compiler::printPlans(facts, flags.top, llvm::outs());
    if (!sync.empty() && !flags.json && flags.html.empty())
      compiler::printSync(syncPlan, sync, llvm::outs());
    if (advice && !flags.json && flags.html.empty())
      advice->print(llvm::outs());
    return (report.candidates.empty() ? pipelines[0].fits : report.candidates[0].fits) ? 0 : 3;
  }

  /// Prices the ways to keep the replicas of data parallelism in step, on --mesh or all devices. An error text, or "".
  std::string priceSync(const Attempt &attempt, const Cluster &cluster, const PlannerOptions &options, int64_t devices) {
    dist::Mesh mesh;
    mesh.axes.push_back({dist::replicaAxis.str(), devices});
    if (!flags.mesh.empty())
      mesh = options.meshes.front();
    auto data = mesh.find(dist::replicaAxis);
    if (!data || mesh.axes[*data].size < 2)
      return "--sync all needs replicas: several devices, or an axis data of at least 2 in --mesh";
    const Planner &planner = *attempt.candidates[0].planner;
    auto plan = planIfAny(planner.problem, mesh, {options.pins, 0});
    if (!plan)
      return "--sync all: the batch does not divide among the replicas of " + nameOf(mesh);
    syncPlan = nameOf(mesh);
    sync = compiler::priceSync(planner.price(cluster, mesh, *plan, syncPlan), cluster.used(mesh.devices()));
    return "";
  }

  std::optional<bool> rematOfPipelines() const { return flags.remat ? std::optional(*flags.remat > 0) : std::nullopt; }

  /// Suggests the pipeline that compile would choose.
  void suggestPipeline(Attempt &attempt, const Cluster &cluster, int64_t devices) {
    auto ranked = attempt.pipelines.empty() ? compiler::rankPipelines(*attempt.session.model.module, cluster,
                                                                      {devices, 0, 0, "", false, rematOfPipelines()})
                                            : std::move(attempt.pipelines);
    if (!ranked.empty() && ranked[0].fits)
      suggestions.push_back("a pipeline, which compile then chooses: " + ranked[0].name() +
                            llvm::formatv(", {0:f2} ms a step", ranked[0].seconds * 1e3).str());
    if (flags.pipelines)
      attempt.pipelines = std::move(ranked);
  }

  /// Suggests the smallest changes with which a plan fits: more machines of the same kind, a smaller batch, or 16 bits.
  void suggest(const Cluster &cluster, const PlannerOptions &options, int64_t devices) {
    PlannerOptions quick = options;
    quick.thorough = false;
    for (int64_t times = 2; times <= mostTimes && flags.mesh.empty(); times *= 2) {
      Cluster larger = cluster;
      if (larger.levels.empty())
        break;
      larger.levels.back().size *= times;
      PlannerOptions wider = quick;
      wider.meshes = enumerateMeshes(larger, devices * times);
      Attempt attempt(flags.model);
      if (!larger.invalid().empty() || !succeeds(attempt.plan(larger, wider, flags.microbatches)))
        break;
      if (attempt.candidates[0].fits) {
        suggestions.push_back(std::to_string(devices * times) + " such devices: " + describeChoice(attempt.candidates));
        break;
      }
    }
    for (int64_t part = 2; batches.dimension() && part <= mostTimes && batches.dimension()->second % part == 0; part *= 2) {
      Attempt attempt(flags.model);
      ScopedDiagnosticHandler silence(&attempt.session.context, [](Diagnostic &) { return success(); });
      int64_t smaller = attempt.flags.import.dims[batches.dimension()->first] /= part;
      if (!succeeds(attempt.plan(cluster, quick, flags.microbatches)))
        break;
      if (attempt.candidates[0].fits) {
        suggestions.push_back("--dim " + batches.dimension()->first + "=" + std::to_string(smaller) + ": " +
                              describeChoice(attempt.candidates));
        break;
      }
    }
  }

  /// The plans in bf16, best first: programs for GPUs then keep activations in 16 bits. Empty where they compute in 16
  /// bits anyway, have no faster units for it, or nothing fits.
  std::vector<ModuleCandidate> plansInHalf(Attempt &attempt, const Cluster &cluster, const PlannerOptions &options) {
    using Device = Cluster::Device;
    attempt.flags.train.precision = "bf16";
    PlannerOptions quick = options;
    quick.thorough = false;
    if (cluster.device.kind != "cuda" || flags.model.train.precision != "fp32" ||
        cluster.device.flops[Device::bf16] <= cluster.device.flops[Device::fp32] ||
        !succeeds(attempt.plan(cluster, quick, flags.microbatches)) || !attempt.candidates[0].fits)
      return {};
    return attempt.candidates;
  }

  void suggestPrecision(const Cluster &cluster, const PlannerOptions &options) {
    Attempt attempt(flags.model);
    if (auto plans = plansInHalf(attempt, cluster, options); !plans.empty())
      suggestions.push_back("--precision bf16: " + describeChoice(plans));
  }

  void hintAtPrecision(const ModuleCandidate &best, const Cluster &cluster, const PlannerOptions &options) {
    Attempt attempt(flags.model);
    ScopedDiagnosticHandler silence(&attempt.session.context, [](Diagnostic &) { return success(); });
    auto plans = plansInHalf(attempt, cluster, options);
    if (!plans.empty() && plans[0].prediction.seconds < 0.95 * best.prediction.seconds)
      hints.push_back(llvm::formatv("--precision bf16 takes {0} ms a step instead of {1} ({2})",
                                    compiler::digits(plans[0].prediction.seconds * 1e3),
                                    compiler::digits(best.prediction.seconds * 1e3), plans[0].name));
  }

  /// Limits of suggestions: factors for more devices and smaller batches.
  static constexpr int64_t mostTimes = 16;

  PlanFlags &flags;
  bool explain;
  BatchSearch batches{flags.model, flags.microbatches};
  std::vector<std::string> suggestions, hints;
  std::vector<compiler::SyncPrice> sync;
  std::string syncPlan;
  std::optional<compiler::BatchAdvice> advice;
};

/// The price of a device and hour, from "2.5" or "2.5/h". An error text, or "".
std::string parsePrice(llvm::StringRef text, double &price) {
  llvm::StringRef number = text;
  number.consume_back("/h");
  return number.find_first_not_of("0123456789.") != llvm::StringRef::npos || number.getAsDouble(price) || !(price > 0 && price < 1e9)
             ? "--price expects the price of a device and hour, such as 2.5/h, got '" + text.str() + "'"
             : "";
}

void addPlanning(CLI::App &app, bool explain, int &exitCode) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App *command =
      app.add_subcommand(explain ? "explain" : "plan", explain ? "why a model is split so, and what would change it"
                                                               : "rank the plans for a model on a cluster");
  flags->model.addTo(*command);
  auto *where = command->add_option_group("Devices");
  where->add_option("--cluster", flags->cluster,
                    "cpu:4 (default: this machine's cores), h100, 8xh100, 2x8xh100, or a .toml file");
  where->add_option("--devices", flags->devices, "how many of the cluster's devices (default: all)")
      ->check(CLI::Range(1, 65536));
  where->add_option("--mesh", flags->mesh, "search this grid only: data=2,model=4");
  where->add_option("--pin", flags->pins, "a sharding to keep: NAME=AXES,AXES,... such as fc1.weight=_,model")
      ->delimiter('\0');
  where
      ->add_option("--sync", flags->sync,
                   "all: what other ways to keep the replicas of data parallelism in step would take; no search chooses one whose "
                   "numbers are others (docs/synchronisation.md)")
      ->check(CLI::IsMember({"all"}));
  CLI::Option *log =
      where
          ->add_option("--log", flags->log,
                       "the log of a program compiled with --log-noise-scale: which of a quarter, a half, twice and four times the batch "
                       "(--dim) makes the most progress in a second (docs/noise.md)")
          ->check(CLI::ExistingFile);
  where->add_option("--price", flags->priceText,
                    "what a device costs in an hour, such as 2.5/h: then a million tokens, or samples, of each plan have a cost");
  addRemat(*where, flags->remat);
  addNoCalibration(*where, flags->noCalibration);
  command->add_flag("--json", flags->json, "machine-readable output");
  if (!explain)
    where
        ->add_option("--plan", flags->plan,
                     "what this plan costs, as --emit=plan wrote it or somebody by hand, instead of a search")
        ->check(CLI::ExistingFile)
        ->excludes("--mesh")
        ->excludes("--pin")
        ->excludes("--remat")
        ->excludes("--sync")
        ->excludes(log)
        ->excludes("--devices");
  if (!explain) {
    auto *layers = command->add_option_group("Layers", "A profile of layers instead of a model (docs/plans.md)");
    layers
        ->add_option("--profile", flags->profile,
                     "times and sizes of layers: layers.json, or the graph.txt of PipeDream")
        ->check(CLI::ExistingFile);
    layers
        ->add_option("--objective", flags->objective, "step (default), or pipedream: the slowest of replicated stages")
        ->check(CLI::IsMember({"step", "pipedream"}));
    layers->add_option("--bandwidth", flags->bandwidth,
                       "between any two devices, instead of a cluster: 1.25GB/s, 10Gb/s");
    layers
        ->add_option(
            "--cost", flags->cost,
            "of pipedream's stages: paper (default; computing overlaps with synchronising, cuts cost), or code "
            "(of its published code: they add up, cuts are free)")
        ->check(CLI::IsMember({"paper", "code"}));
  }
  if (explain)
    command->add_option("--html", flags->html, "write a page for a browser");
  else {
    where
        ->add_option("--microbatches", flags->microbatches,
                     "gradient accumulation over this number of parts of the batch (default: as many as the memory "
                     "needs); of pipelines: only those with this number of microbatches")
        ->check(CLI::Range(1, 65536))
        ->excludes("--plan");
    auto *pipelines = command->add_option_group("Pipelines");
    pipelines->add_flag("--pipelines", flags->pipelines,
                        "rank pipelines, too: their stages, microbatches, schedules, and the plans of stages");
    pipelines
        ->add_option("--schedule", flags->schedule,
                     "with this schedule only: naive, gpipe, 1f1b, interleaved, zb-h1 or pipedream")
        ->check(CLI::IsMember(planning::pipeline::scheduleKinds()));
    pipelines
        ->add_option("--allow", flags->allowed, "asynchronous: pipedream, too, which computes other numbers")
        ->check(CLI::IsMember({"asynchronous"}));
    pipelines->add_option("--swimlane", flags->swimlane, "write a page that shows what the best one does when");
    command->add_option("--top", flags->top, "how many plans to list")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
  }
  command->footer(
      explain ? "Examples:\n"
                "  divisi explain model.onnx --cluster 8xh100 --dim batch=64 --html why.html\n"
                "Exit code 3: no plan fits the memory."
              : "Examples:\n"
                "  divisi plan model.onnx --cluster 2x8xh100 --dim batch=64\n"
                "  divisi plan model.onnx --cluster cluster.toml --devices 4 --optimizer adamw --json\n"
                "  divisi plan model.onnx --cluster 2x8xh100 --dim batch=64 --pipelines --swimlane pipeline.html\n"
                "  divisi plan --profile layers.json --objective pipedream --devices 4 --bandwidth 1.25GB/s\n"
                "External data may be missing. Exit code 3: no plan fits the memory.");
  command->get_option("model")->required(false); // --profile replaces it
  command->callback([flags, explain, command, &exitCode] {
    std::string wrong = flags->model.finish();
    if (flags->model.input.empty() == flags->profile.empty())
      wrong = explain ? "expected a model" : "expected a model, or --profile FILE";
    else if (flags->cost != "paper" && flags->objective != "pipedream")
      wrong = "--cost is for --objective pipedream";
    else if (flags->profile.empty() != (flags->objective == "step"))
      wrong = "--objective pipedream is for a --profile of layers, and such a profile for it";
    for (const char *flag : {"--cluster", "--mesh", "--html"})
      if (auto *option = command->get_option_no_throw(flag);
          option && option->count() && option->as<std::string>().empty())
        wrong = std::string(flag) + " is empty";
    if (wrong.empty() && command->get_option("--price")->count())
      wrong = parsePrice(flags->priceText, flags->price);
    if (wrong.empty() && !flags->plan.empty() && flags->pipelines)
      wrong = "--pipelines searches, --plan FILE has all decisions: leave out one of them";
    if (wrong.empty() && flags->pipelines && flags->remat && *flags->remat > 0 &&
        *flags->remat < std::numeric_limits<int64_t>::max())
      wrong = "--pipelines computes nothing again, or all parts: --remat none, all or auto";
    if (wrong.empty() && !flags->pipelines && !flags->schedule.empty())
      wrong = "--schedule is for --pipelines";
    if (wrong.empty() && flags->pipelines && flags->microbatches == 1)
      wrong = "--microbatches 1 leaves no pipeline for --pipelines";
    if (wrong.empty() && !flags->pipelines && flags->plan.empty() && !flags->swimlane.empty())
      wrong = "--swimlane is for --pipelines, or the --plan of one";
    for (const std::string &file : {flags->html, flags->swimlane})
      if (wrong.empty())
        wrong = tools::checkOutput(file);
    if (wrong.empty() && !flags->profile.empty()) {
      exitCode =
          planPipeDream({flags->profile, flags->cost, flags->bandwidth, flags->cluster, flags->devices, flags->json});
      return;
    }
    if (!wrong.empty()) {
      llvm::errs() << "error: " << wrong << "\n";
      exitCode = 2;
      return;
    }
    exitCode = Planning(*flags, explain).run();
  });
}
} // namespace

void tools::addPlan(CLI::App &app, int &exitCode) { addPlanning(app, /*explain=*/false, exitCode); }
void tools::addExplain(CLI::App &app, int &exitCode) { addPlanning(app, /*explain=*/true, exitCode); }
