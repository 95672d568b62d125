#include "compiler/Report/PlanReport.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace divisi;
using namespace divisi::compiler;
namespace json = llvm::json;
using llvm::StringRef;

namespace {

double number(const json::Object &object, StringRef key) { return object.getNumber(key).value_or(0); }
/// A text without control characters: names come from files and are printed on a terminal.
std::string text(const json::Object &object, StringRef key) {
  std::string result = object.getString(key).value_or("").str();
  std::replace_if(
      result.begin(), result.end(), [](unsigned char c) { return c < 32 || c == 127; }, '?');
  return result;
}
const json::Array &list(const json::Object &object, StringRef key) {
  static const json::Array none;
  const json::Array *found = object.getArray(key);
  return found ? *found : none;
}

std::string joined(const json::Array &array) {
  std::string result;
  for (const json::Value &value : array)
    result += (result.empty() ? "" : " ") + value.getAsString().value_or("").str();
  return result;
}

/// Three digits and a unit prefix: "1.23 GB".
std::string scaled(double value, StringRef unit) {
  static constexpr const char *prefixes[] = {"", "k", "M", "G", "T", "P"};
  int step = 0;
  while (value >= 999.5 && step < 5)
    value /= 1000, ++step;
  std::string result;
  llvm::raw_string_ostream(result) << llvm::format("%.3g ", value) << prefixes[step] << unit;
  return result;
}

std::string milliseconds(double value) {
  std::string result;
  llvm::raw_string_ostream(result) << llvm::format("%.3g", value);
  return result;
}

std::string share(double value) {
  std::string result;
  llvm::raw_string_ostream(result) << llvm::format("%.2g %%", value * 100);
  return result;
}

/// A plan's time by measured times; "" if there are none.
std::string measured(const json::Object &plan) {
  auto time = plan.getNumber("measured_ms");
  return time ? " (measured times: " + milliseconds(*time) + " ms)" : "";
}

void row(llvm::raw_ostream &out, const std::vector<std::pair<std::string, int>> &cells) {
  std::string line;
  for (const auto &[cell, width] : cells) {
    std::string padding(std::max(0, std::abs(width) - (int)cell.size()), ' ');
    line += width < 0 ? padding + cell + "  " : cell + padding + "  ";
  }
  out << StringRef(line).rtrim() << "\n";
}
} // namespace

/// Prints a table of pipelines, and the first nodes of the best pipeline's stages.
static void printPipelines(const json::Array &pipelines, size_t most, llvm::raw_ostream &out) {
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
         {milliseconds(number(pipeline, "step_ms")), -9},
         {share(number(pipeline, "bubble")), -8},
         {scaled(number(pipeline, "memory_bytes"), "B"), -8},
         {text(pipeline, "stage_plan") + (pipeline.getBoolean("fits").value_or(true) ? "" : " (does not fit)"), 0}});
  }
  if (pipelines.size() > most)
    out << "   ... and " << pipelines.size() - most << " more (--top N)\n";
  if (std::string cuts = joined(list(*pipelines[0].getAsObject(), "cuts")); !cuts.empty())
    out << "\nstages of the best begin at " << cuts << "\n";
}

/// Prints a table of the plans, suggestions if nothing fits, and the optimality gap of the best plan.
static void printRanking(const json::Object &report, size_t most, llvm::raw_ostream &out) {
  out << "\n";
  row(out, {{"#", -2},
            {"plan", 30},
            {"step ms", -9},
            {"compute", -9},
            {"comm", -9},
            {"exposed", -9},
            {"sent", -8},
            {"memory", -8},
            {"parallelism", 0}});
  const json::Object &cluster = *report.getObject("cluster");
  const json::Array &plans = list(report, "plans");
  for (const json::Value &value : llvm::ArrayRef(plans.data(), std::min(most, plans.size()))) {
    const json::Object &plan = *value.getAsObject();
    bool fits = plan.getBoolean("fits").value_or(true);
    row(out, {{std::to_string((int64_t)number(plan, "rank")), -2},
              {text(plan, "name"), 30},
              {milliseconds(number(plan, "step_ms")), -9},
              {milliseconds(number(plan, "compute_ms")), -9},
              {milliseconds(number(plan, "communication_ms")), -9},
              {milliseconds(number(plan, "exposed_ms")), -9},
              {scaled(number(plan, "bytes_sent"), "B"), -8},
              {scaled(plan.getNumber("arena_bytes").value_or(number(*plan.getObject("memory"), "total")), "B"), -8},
              {joined(list(plan, "parallelism")) + (fits ? "" : " (does not fit)") + measured(plan), 0}});
  }
  const json::Object &best = *plans[0].getAsObject();
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
  if (plans.size() > most)
    out << "   ... and " << plans.size() - most << " more (--top N)\n";
  for (const json::Value &value : plans)
    if (const json::Object *search = value.getAsObject()->getObject("search"))
      out << "\nno plan on the mesh " << text(*search, "mesh") << " costs more than "
          << share(number(*search, "gap")) << " less (pairwise cost " << milliseconds(number(*search, "cost_ms"))
          << " ms, bound " << milliseconds(number(*search, "bound_ms")) << " ms)\n";
}

void compiler::printPlans(const json::Object &report, size_t most, llvm::raw_ostream &out) {
  const json::Object &cluster = *report.getObject("cluster");
  out << text(report, "model") << " on " << text(cluster, "name") << ": " << (int64_t)number(cluster, "devices")
      << " x " << text(cluster, "device") << ", " << scaled(number(cluster, "memory"), "B") << " each";
  if (llvm::StringRef calibration = text(cluster, "calibration"); !calibration.empty())
    out << ", measured (calibration " << calibration << ")";
  out << "\n";
  if (!list(report, "plans").empty())
    printRanking(report, most, out);
  if (const json::Array *pipelines = report.getArray("pipelines"))
    printPipelines(*pipelines, most, out);
}

void compiler::printExplanation(const json::Object &report, llvm::raw_ostream &out) {
  printPlans(report, 6, out);
  const json::Array &plans = list(report, "plans");
  out << "\nWhy not the others\n";
  for (const json::Value &value : llvm::ArrayRef(plans.data(), std::min<size_t>(6, plans.size())).drop_front())
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
  out << "\nParameters\n";
  for (const json::Value &value : list(report, "parameters")) {
    const json::Object &parameter = *value.getAsObject();
    std::string shape;
    for (const json::Value &size : list(parameter, "shape"))
      shape += (shape.empty() ? "" : "x") + std::to_string(size.getAsInteger().value_or(0));
    out << "  " << text(parameter, "name") << " " << shape << ": " << text(parameter, "sharding") << ", "
        << scaled(number(parameter, "local_bytes"), "B") << " on a device\n";
    for (const json::Value &other : list(parameter, "alternatives")) {
      const json::Object &alternative = *other.getAsObject();
      out << "    " << text(alternative, "sharding") << " would take " << milliseconds(number(alternative, "step_ms"))
          << " ms: " << text(alternative, "why_not") << "\n";
    }
  }
  out << "\nLayers (ms)\n";
  row(out, {{"layer", 40}, {"forward", -9}, {"backward", -9}, {"exposed", -9}, {"overlapped", -10}, {"weights", -9}});
  for (const json::Value &value : list(report, "layers")) {
    const json::Object &layer = *value.getAsObject();
    std::string name = text(layer, "name");
    row(out, {{name.empty() ? "(losses and update)" : name, 40},
              {milliseconds(number(layer, "forward_ms")), -9},
              {milliseconds(number(layer, "backward_ms")), -9},
              {milliseconds(number(layer, "exposed_ms")), -9},
              {milliseconds(number(layer, "overlapped_ms")), -10},
              {scaled(number(layer, "parameter_bytes"), "B"), -9}});
    for (const json::Value &entry : list(layer, "collectives")) {
      const json::Object &collective = *entry.getAsObject();
      out << "    " << text(collective, "kind") << " over " << joined(list(collective, "axes")) << ", "
          << scaled(number(collective, "bytes"), "B") << ", " << milliseconds(number(collective, "ms")) << " ms ("
          << milliseconds(number(collective, "exposed_ms")) << " exposed): " << text(collective, "reason") << "\n";
    }
  }
}
