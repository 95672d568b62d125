#include "compiler/Report/Lines.h"
#include "compiler/Report/Numbers.h"
#include "compiler/Report/PlanReport.h"
#include "compiler/Report/Repeats.h"
#include "compiler/Report/Throughput.h"

#include "llvm/Support/raw_ostream.h"

using namespace divisi;
using namespace divisi::compiler;
namespace json = llvm::json;
using llvm::StringRef;

/// A plan's time by measured times; "" if there are none.
static std::string measured(const json::Object &plan) {
  auto time = plan.getNumber("measured_ms");
  return time ? " (measured times: " + digits(*time) + " ms)" : "";
}

/// Whether a plan takes the same time as the first, as far as predictions are exact.
static bool isMarkedTie(const json::Value &plan) { return plan.getAsObject()->getBoolean("tie").value_or(false); }

/// Says how many entries of a table are left out, and with which flag to see them if there is one.
static void printRest(size_t all, size_t shown, bool hasTop, llvm::raw_ostream &out) {
  if (all > shown)
    out << "   ... and " << all - shown << " more" << (hasTop ? " (--top N)" : "") << "\n";
}

/// Prints a table of pipelines, and the first nodes of the best pipeline's stages.
static void printPipelines(const json::Array &pipelines, size_t most, bool hasTop, llvm::raw_ostream &out) {
  if (pipelines.empty()) {
    out << "\nno pipeline: the batch must divide into microbatches, and the model have as many nodes as stages\n";
    return;
  }
  llvm::ArrayRef<json::Value> shown(pipelines.data(), std::min(most, pipelines.size()));
  int width = 52; // of names; stages that differ have longer ones
  for (const json::Value &value : shown)
    width = std::max(width, (int)text(*value.getAsObject(), "name").size());
  out << "\n";
  row(out, {{"#", -2}, {"pipeline", width}, {"step ms", -9}, {"bubble", -8}, {"memory", -8}, {"plan of a stage", 0}});
  int64_t rank = 0;
  for (const json::Value &value : shown) {
    const json::Object &pipeline = *value.getAsObject();
    row(out,
        {{std::to_string(++rank), -2},
         {text(pipeline, "name"), width},
         {digits(number(pipeline, "step_ms")), -9},
         {percent(number(pipeline, "bubble")), -8},
         {scaled(number(pipeline, "memory_bytes"), "B"), -8},
         {text(pipeline, "stage_plan") + (pipeline.getBoolean("fits").value_or(true) ? "" : " (does not fit)"), 0}});
  }
  printRest(pipelines.size(), most, hasTop, out);
  if (std::string cuts = joined(list(*pipelines[0].getAsObject(), "cuts")); !cuts.empty())
    out << "\nstages of the best begin at " << cuts << "\n";
}

/// Prints what is proven about a search.
static void printGap(const json::Object &search, llvm::raw_ostream &out) {
  constexpr double noise = 1e-5; // what the costs' rounding leaves
  double gap = number(search, "gap");
  out << "\noptimality gap on the mesh " << text(search, "mesh") << ": "
      << (gap < noise ? "none, no plan costs less" : "at most " + percent(gap)) << " (pairwise cost "
      << digits(number(search, "cost_ms")) << " ms, lower bound " << digits(number(search, "bound_ms")) << " ms)\n";
}

/// Prints a table of the plans, suggestions if nothing fits, and the optimality gap of the best plan.
static void printRanking(const json::Object &report, size_t most, bool hasTop, llvm::raw_ostream &out) {
  out << "\nper step and device of the mesh:\n";
  const json::Object &cluster = *report.getObject("cluster");
  const json::Array &plans = list(report, "plans");
  const bool priced = !costOf(*plans[0].getAsObject()).empty();
  using Cells = std::vector<std::pair<std::string, int>>;
  auto print = [&](Cells cells, const std::string &cost, const std::string &last) {
    if (priced)
      cells.push_back({cost, -8});
    cells.push_back({last, 0});
    row(out, cells);
  };
  print({{"#", -2},
         {"plan", 30},
         {"step ms", -9},
         {"compute", -9},
         {"comm", -9},
         {"exposed", -9},
         {"sent", -8},
         {"memory", -8}},
        "cost", "parallelism");
  for (const json::Value &value : llvm::ArrayRef(plans.data(), std::min(most, plans.size()))) {
    const json::Object &plan = *value.getAsObject();
    bool fits = plan.getBoolean("fits").value_or(true);
    print({{std::to_string((int64_t)number(plan, "rank")), -2},
           {text(plan, "name"), 30},
           {digits(number(plan, "step_ms")), -9},
           {digits(number(plan, "compute_ms")), -9},
           {digits(number(plan, "communication_ms")), -9},
           {digits(number(plan, "exposed_ms")), -9},
           {scaled(number(plan, "bytes_sent"), "B"), -8},
           {scaled(plan.getNumber("arena_bytes").value_or(number(*plan.getObject("memory"), "total")), "B"), -8}},
          costOf(plan),
          joined(list(plan, "parallelism")) + (isMarkedTie(value) ? " (tie)" : "") + (fits ? "" : " (does not fit)") +
              measured(plan));
  }
  const json::Object &best = *plans[0].getAsObject();
  printRest(plans.size(), most, hasTop, out);
  if (llvm::any_of(llvm::ArrayRef(plans.data(), std::min(most, plans.size())), isMarkedTie))
    out << "(tie): within " << percent(number(best, "same_within")) << " of plan 1, which is within the error of predictions\n";
  if (std::string line = describeThroughput(best); !line.empty())
    out << "\nplan 1: " << line << "\n";
  for (const json::Value &hint : list(report, "hints"))
    out << "hint: " << hint.getAsString().value_or("") << "\n";
  if (!best.getBoolean("fits").value_or(true)) {
    const json::Object &memory = *best.getObject("memory");
    double has = number(cluster, "memory"), needs = number(memory, "total");
    out << "\nNothing fits. '" << text(best, "name") << "' comes nearest: " << scaled(needs - has, "B") << " of "
        << scaled(needs, "B") << " are too much for a device: parameters " << scaled(number(memory, "parameters"), "B")
        << ", optimizer state " << scaled(number(memory, "optimizer_state"), "B") << ", activations and gradients "
        << scaled(number(memory, "transient"), "B") << " in the " << text(memory, "worst_phase") << " part at '"
        << text(memory, "worst_node") << "'\n";
    for (const json::Value &suggestion : list(report, "suggestions"))
      out << "  would fit: " << suggestion.getAsString().value_or("") << "\n";
  }
  for (const json::Value &value : plans)
    if (const json::Object *search = value.getAsObject()->getObject("search"))
      printGap(*search, out);
}

static void printTables(const json::Object &report, size_t most, bool hasTop, llvm::raw_ostream &out) {
  const json::Object &cluster = *report.getObject("cluster");
  out << text(report, "model") << " on " << text(cluster, "name") << ": " << (int64_t)number(cluster, "devices")
      << " x " << text(cluster, "device") << ", " << scaled(number(cluster, "memory"), "B") << " each";
  if (std::string calibration = text(cluster, "calibration"); !calibration.empty())
    out << ", measured (calibration " << calibration << ")";
  out << "\n";
  if (!list(report, "plans").empty())
    printRanking(report, most, hasTop, out);
  if (const json::Array *pipelines = report.getArray("pipelines"))
    printPipelines(*pipelines, most, hasTop, out);
}

void compiler::printPlans(const json::Object &report, size_t most, llvm::raw_ostream &out) {
  printTables(report, most, /*hasTop=*/true, out);
}

/// The number of plans that are explained.
static constexpr size_t mostListed = 6;

void compiler::printExplanation(const json::Object &report, llvm::raw_ostream &out) {
  printTables(report, mostListed, /*hasTop=*/false, out);
  const json::Array &plans = list(report, "plans");
  out << "\nWhy not the others\n";
  for (const json::Value &value : llvm::ArrayRef(plans.data(), std::min(mostListed, plans.size())).drop_front())
    out << "  " << text(*value.getAsObject(), "name") << ": " << text(*value.getAsObject(), "why_not") << "\n";
  if (const json::Array &parts = list(report, "remat"); !parts.empty()) {
    out << "\nRecomputed in the backward pass (rematerialization, activation checkpointing)\n";
    for (const json::Value &part : parts)
      out << "  " << text(*part.getAsObject(), "first") << " to " << text(*part.getAsObject(), "last") << "\n";
  }
  out << "\nWhat would change the choice\n";
  const json::Array &flips = list(report, "flips");
  for (const json::Value &value : flips) {
    const json::Object &flip = *value.getAsObject();
    bool exact = flip.getBoolean("exact").value_or(true);
    bool below = number(flip, "then") < number(flip, "now");
    out << "  " << text(flip, "figure") << " "
        << (!exact  ? "of "
            : below ? "below "
                    : "above ")
        << scaled(number(flip, "then"), text(flip, "unit")) << " (now "
        << scaled(number(flip, "now"), text(flip, "unit")) << "): " << text(flip, "plan") << "\n";
  }
  if (flips.empty())
    out << "  nothing: no figure of the cluster does, up to 64 times larger or smaller\n";
  printParameters(list(report, "parameters"), out);
  printLayers(list(report, "layers"), number(*plans[0].getAsObject(), "step_ms"), out);
}
