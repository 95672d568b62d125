#include "divisi/PlanFlags.h"

#include "divisi/DeviceFlags.h"
#include "divisi/Output.h"
#include "passes/Planning/Simulator/Schedule.h"

using namespace divisi;
using namespace divisi::tools;

/// The price of a device and hour, from "2.5" or "2.5/h". An error text, or "".
static std::string parsePrice(llvm::StringRef text, double &price) {
  llvm::StringRef number = text;
  number.consume_back("/h");
  return number.find_first_not_of("0123456789.") != llvm::StringRef::npos || number.getAsDouble(price) || !(price > 0 && price < 1e9)
             ? "--price expects the price of a device and hour, such as 2.5/h, got '" + text.str() + "'"
             : "";
}

void PlanFlags::addTo(CLI::App &command, bool explains) {
  model.addTo(command);
  auto *where = command.add_option_group("Devices");
  where->add_option("--cluster", cluster,
                    "cpu:4 (default: this machine's cores), h100, 8xh100, 2x8xh100, or a .toml file");
  where->add_option("--devices", devices, "how many of the cluster's devices (default: all)")
      ->check(CLI::Range(1, 65536));
  where->add_option("--mesh", mesh, "search plans on this mesh only: data=2,model=4");
  where->add_option("--pin", pins, "a sharding to keep: NAME=AXES,AXES,... such as fc1.weight=_,model")
      ->delimiter('\0');
  where
      ->add_option("--sync", sync,
                   "all: what a step would take with other ways to synchronise the replicas of data parallelism; no search chooses one "
                   "whose losses differ (docs/synchronisation.md)")
      ->check(CLI::IsMember({"all"}));
  CLI::Option *logged =
      where
          ->add_option("--log", log,
                       "the log of a program compiled with --log-noise-scale: which of a quarter, a half, twice and four times the batch "
                       "(--dim) makes the most progress in a second (docs/noise.md)")
          ->check(CLI::ExistingFile);
  where->add_option("--price", priceText,
                    "what a device costs in an hour, such as 2.5/h: then a million tokens, or samples, of each plan have a cost");
  addRemat(*where, remat);
  addNoCalibration(*where, noCalibration);
  command.add_flag("--json", json, "machine-readable output");
  if (!explains)
    command.add_flag("--calls", calls,
                     "list what a device runs in a step under the first plan, or under that of a dump of level exec, with the "
                     "time of each call");
  if (!explains)
    where
        ->add_option("--plan", plan,
                     "what this plan costs, as --emit=plan wrote it or somebody by hand, instead of a search")
        ->check(CLI::ExistingFile)
        ->excludes("--mesh")
        ->excludes("--pin")
        ->excludes("--remat")
        ->excludes("--sync")
        ->excludes(logged)
        ->excludes("--devices");
  if (!explains) {
    auto *layers = command.add_option_group("Layers", "A profile of layers instead of a model (docs/plans.md)");
    layers
        ->add_option("--profile", profile,
                     "times and sizes of layers: layers.json, or the graph.txt of PipeDream")
        ->check(CLI::ExistingFile);
    layers
        ->add_option("--objective", objective, "step (default), or pipedream: the slowest of replicated stages")
        ->check(CLI::IsMember({"step", "pipedream"}));
    layers->add_option("--bandwidth", bandwidth,
                       "between any two devices, instead of a cluster: 1.25GB/s, 10Gb/s");
    layers
        ->add_option(
            "--cost", cost,
            "of pipedream's stages: paper (default; computing overlaps with synchronising, cuts cost), or code "
            "(of its published code: they add up, cuts are free)")
        ->check(CLI::IsMember({"paper", "code"}));
  }
  if (explains)
    command.add_option("--html", html, "write a page for a browser");
  else {
    where
        ->add_option("--microbatches", microbatches,
                     "gradient accumulation over this number of parts of the batch (default: as many as the memory "
                     "needs); of pipelines: only those with this number of microbatches")
        ->check(CLI::Range(int64_t(1), compiler::MicrobatchOptions::most))
        ->excludes("--plan");
    auto *staged = command.add_option_group("Pipelines");
    staged->add_flag("--pipelines", pipelines,
                        "search pipelines, too, and list the fastest: their stages, microbatches, schedules, and the plans of stages");
    staged
        ->add_option("--schedule", schedule,
                     "with this schedule only: " + planning::pipeline::scheduleKindNames())
        ->check(CLI::IsMember(planning::pipeline::scheduleKinds()));
    staged
        ->add_option("--allow", allowed, "asynchronous: pipedream, too, which computes other numbers")
        ->check(CLI::IsMember({"asynchronous"}));
    staged->add_option("--swimlane", swimlane, "write a page that shows what the best one does when");
    command.add_option("--top", top, "how many plans to list")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
  }
  command.footer(
      explains ? "Examples:\n"
                "  divisi explain model.onnx --cluster 8xh100 --dim batch=64 --html why.html\n"
                "Exit code 3: no plan fits the memory."
              : "Examples:\n"
                "  divisi plan model.onnx --cluster 2x8xh100 --dim batch=64\n"
                "  divisi plan model.onnx --cluster cluster.toml --devices 4 --optimizer adamw --json\n"
                "  divisi plan model.onnx --cluster 2x8xh100 --dim batch=64 --pipelines --swimlane pipeline.html\n"
                "  divisi plan --profile layers.json --objective pipedream --devices 4 --bandwidth 1.25GB/s\n"
                "External data may be missing. Exit code 3: no plan fits the memory.");
  command.get_option("model")->required(false); // --profile replaces it
}

std::string PlanFlags::finish(const CLI::App &command, bool explains) {
  std::string wrong = model.finish();
  auto given = [&command](const char *flag) {
    const CLI::Option *option = command.get_option_no_throw(flag);
    return option && option->count() > 0;
  };
  if (model.input.empty() == profile.empty())
    wrong = explains ? "expected a model" : "expected a model, or --profile FILE";
  else if (given("--cost") && objective != "pipedream")
    wrong = "--cost is for --objective pipedream";
  else if (given("--bandwidth") && profile.empty())
    wrong = "--bandwidth is for a --profile of layers; of a model's cluster it is in the --cluster file";
  else if (profile.empty() != (objective == "step"))
    wrong = "--objective pipedream is for a --profile of layers, and such a profile for it";
  for (const char *flag : {"--cluster", "--mesh", "--html"})
    if (given(flag) && command.get_option(flag)->as<std::string>().empty())
      wrong = std::string(flag) + " is empty";
  if (wrong.empty() && command.get_option("--price")->count())
    wrong = parsePrice(priceText, price);
  if (wrong.empty() && !plan.empty() && pipelines)
    wrong = "--pipelines searches, --plan FILE has all decisions: leave out one of them";
  if (wrong.empty() && pipelines && remat && *remat > 0 &&
      *remat < std::numeric_limits<int64_t>::max())
    wrong = "--pipelines recomputes no segments, or all: --remat none, all or auto";
  if (wrong.empty() && !pipelines && !schedule.empty())
    wrong = "--schedule is for --pipelines";
  if (wrong.empty() && pipelines && microbatches == 1)
    wrong = "--microbatches 1 leaves no pipeline for --pipelines";
  if (wrong.empty() && !pipelines && plan.empty() && !swimlane.empty())
    wrong = "--swimlane is for --pipelines, or the --plan of one";
  if (wrong.empty())
    wrong = tools::checkOutput(command, "--html", html);
  return wrong.empty() ? tools::checkOutput(command, "--swimlane", swimlane) : wrong;
}
