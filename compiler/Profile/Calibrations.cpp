#include "compiler/Profile/Calibrations.h"
#include "compiler/Profile/JsonFile.h"

#include "llvm/Support/FileSystem.h"

#include <fstream>

using namespace divisi;
using namespace divisi::compiler;
namespace json = llvm::json;

/// Of a list of rates.
static constexpr size_t mostPoints = 16;

std::string Calibrations::defaultFile() { return cachedFile("DIVISI_CALIBRATION", "calibration.json"); }

/// Points with ascending sizes; null if it is no list of pairs.
static std::optional<std::vector<planning::Cluster::Device::Rate>> parseRates(const json::Array *list) {
  std::vector<planning::Cluster::Device::Rate> result;
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

/// Null if a figure is missing or no machine has it.
static std::optional<planning::Calibration> parse(const json::Object &figures) {
  auto matmuls = parseRates(figures.getArray("matmuls")), caches = parseRates(figures.getArray("caches"));
  if (!matmuls || !caches)
    return std::nullopt;
  planning::Calibration result{figures.getNumber("flops").value_or(0), figures.getNumber("bandwidth").value_or(0),
                               figures.getNumber("message").value_or(0), *matmuls, *caches,
                               figures.getNumber("bf16").value_or(0)};
  if (!(result.bf16 >= 0 && result.bf16 <= 1e21))
    return std::nullopt;
  auto cluster = llvm::cantFail(planning::parseCluster("cpu:2", {1e9, 1, result}));
  return cluster.invalid().empty() ? std::optional(std::move(result)) : std::nullopt;
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
  if (!machines || top->getInteger("divisi_calibration") != 1)
    return llvm::createStringError("'" + file + "' is no calibration: expected {\"divisi_calibration\": 1, \"machines\": {...}}; "
                                   "remove it to measure again");
  for (const auto &[name, value] : *machines) {
    const json::Object *figures = value.getAsObject();
    auto calibration = figures ? parse(*figures) : std::nullopt;
    if (!calibration)
      return llvm::createStringError("'" + file + "': the figures of '" + llvm::StringRef(name).take_front(80).str() +
                                     "' are not those of a machine; remove the file to measure again");
    result.machines[llvm::StringRef(name).str()] = *calibration;
  }
  return result;
}

static json::Array listOf(llvm::ArrayRef<planning::Cluster::Device::Rate> points) {
  json::Array list;
  for (const auto &point : points)
    list.push_back(json::Array{point.size, point.rate});
  return list;
}

llvm::Error Calibrations::write(const std::string &file) const {
  json::Object all;
  for (const auto &[name, figures] : machines) {
    all[json::fixUTF8(name)] = json::Object{{"flops", figures.flops},
                                            {"bandwidth", figures.bandwidth},
                                            {"message", figures.message},
                                            {"bf16", figures.bf16},
                                            {"matmuls", listOf(figures.matmuls)},
                                            {"caches", listOf(figures.caches)}};
  }
  return writeJson(file, json::Object{{"divisi_calibration", 1}, {"machines", std::move(all)}});
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
