#include "compiler/Profile/Calibrations.h"
#include "compiler/Profile/JsonFile.h"
#include "passes/Planning/Cost/Quantity.h"
#include "passes/Planning/Pipeline/LayerProfile.h"

#include "llvm/Support/FileSystem.h"

#include <fstream>

using namespace divisi;
using namespace divisi::compiler;
namespace json = llvm::json;

/// Of a list of rates.
static constexpr size_t mostPoints = 16;
static constexpr int64_t formatVersion = 6;

std::string Calibrations::defaultFile() { return cachedFile("DIVISI_CALIBRATION", "calibration.json"); }

/// Points with ascending sizes; null if it is no list of pairs.
static std::optional<std::vector<planning::Rate>> parsePoints(const json::Array *list) {
  std::vector<planning::Rate> result;
  if (!list || list->size() > mostPoints)
    return std::nullopt;
  for (const json::Value &value : *list) {
    const json::Array *pair = value.getAsArray();
    if (!pair || pair->size() != 2)
      return std::nullopt;
    result.push_back({(*pair)[0].getAsNumber().value_or(0), (*pair)[1].getAsNumber().value_or(0)});
    if (result.size() > 1 && result.back().size <= result[result.size() - 2].size)
      return std::nullopt;
  }
  return result;
}

static std::optional<planning::Rates> parseRates(const json::Object *figures) {
  if (!figures)
    return std::nullopt;
  auto matmuls = parsePoints(figures->getArray("matmuls")), convolutions = parsePoints(figures->getArray("convolutions")),
       filters = parsePoints(figures->getArray("filters")), kernels = parsePoints(figures->getArray("kernels")), packings = parsePoints(figures->getArray("packings"));
  double bf16 = figures->getNumber("bf16").value_or(0);
  if (!matmuls || !convolutions || !filters || !kernels || !packings || !(bf16 >= 0 && bf16 <= 1e21))
    return std::nullopt;
  return planning::Rates{figures->getNumber("flops").value_or(0), figures->getNumber("bandwidth").value_or(0), bf16,
                         *matmuls, *convolutions, *kernels, *filters, *packings};
}

/// Null if a figure is missing or no machine has it.
static std::optional<planning::Calibration> parse(const json::Object &figures) {
  auto core = parseRates(figures.getObject("core")), all = parseRates(figures.getObject("all"));
  if (!core || !all || core->matmuls.size() != all->matmuls.size() ||
      core->convolutions.size() != all->convolutions.size() || core->filters.size() != all->filters.size() || core->kernels.size() != all->kernels.size() ||
      core->packings.size() != all->packings.size())
    return std::nullopt;
  const std::optional<double> large = figures.getNumber("large");
  if (!large || (*large != 0 && !planning::inRange(planning::Unit::bytesPerSecond, *large)))
    return std::nullopt;
  planning::Calibration result{figures.getNumber("message").value_or(0), *core, *all, *large};
  constexpr int cores = 2;
  for (const char *ranks : {"cpu:1", "cpu:2"}) // all cores, and one
    if (!llvm::cantFail(planning::parseCluster(ranks, {1e9, cores, result})).invalid().empty())
      return std::nullopt;
  return result;
}

llvm::Expected<Calibrations> Calibrations::read(const std::string &file) {
  Calibrations result;
  if (!llvm::sys::fs::exists(file))
    return result;
  auto text = readText(file);
  if (!text)
    return text.takeError();
  auto parsed = json::parse((*text)->getBuffer());
  const json::Object *top = parsed ? parsed->getAsObject() : nullptr;
  if (!parsed)
    llvm::consumeError(parsed.takeError());
  const json::Object *machines = top ? top->getObject("machines") : nullptr;
  std::optional<int64_t> version = top ? top->getInteger("divisi_calibration") : std::nullopt;
  if (!machines || !version || *version < 1 || *version > formatVersion)
    return llvm::createStringError("'" + file + "' is no calibration: expected {\"divisi_calibration\": " +
                                   std::to_string(formatVersion) + ", \"machines\": {...}}; remove it to measure again");
  if (*version < formatVersion) // had fewer figures, or others: measured again
    return result;
  for (const auto &[name, value] : *machines) {
    const json::Object *figures = value.getAsObject();
    auto calibration = figures ? parse(*figures) : std::nullopt;
    if (!calibration)
      return llvm::createStringError("'" + file + "': the figures of '" + planning::shownName(name) +
                                     "' are not those of a machine; remove the file to measure again");
    result.machines[llvm::StringRef(name).str()] = *calibration;
  }
  return result;
}

static json::Array listOf(llvm::ArrayRef<planning::Rate> points) {
  json::Array list;
  for (const auto &point : points)
    list.push_back(json::Array{point.size, point.rate});
  return list;
}

static json::Object ratesJson(const planning::Rates &rates) {
  return json::Object{{"flops", rates.flops},
                      {"bandwidth", rates.bandwidth},
                      {"bf16", rates.bf16},
                      {"matmuls", listOf(rates.matmuls)},
                      {"convolutions", listOf(rates.convolutions)},
                      {"filters", listOf(rates.filters)},
                      {"kernels", listOf(rates.kernels)},
                      {"packings", listOf(rates.packings)}};
}

llvm::Error Calibrations::write(const std::string &file) const {
  json::Object all;
  for (const auto &[name, figures] : machines)
    all[json::fixUTF8(name)] = json::Object{{"message", figures.message},
                                            {"large", figures.large},
                                            {"core", ratesJson(figures.core)},
                                            {"all", ratesJson(figures.all)}};
  return writeJson(file, json::Object{{"divisi_calibration", formatVersion}, {"machines", std::move(all)}});
}

std::string compiler::nameOfThisMachine() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, name = "processor";
  while (std::getline(file, line))
    if (llvm::StringRef text(line); text.starts_with("model name")) {
      name = text.split(':').second.trim().str();
      break;
    }
  return name + ", " + std::to_string(planning::thisMachine().cores) + " cores";
}
