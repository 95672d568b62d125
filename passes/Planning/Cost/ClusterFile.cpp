// The only file that knows toml++.
#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Cost/Quantity.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"

#include <filesystem>
#include <fstream>

namespace {
/// On hostile text toml++ violates its own assertions ("[[[": marzer/tomlplusplus PR #301), and without assertions its
/// behaviour is undefined. Here a violated assertion is an exception, which does not leave this file.
struct BrokenAssertion {};
[[noreturn]] void breakAssertion() { throw BrokenAssertion(); }
} // namespace
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? void() : breakAssertion())
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

using namespace divisi;
using namespace divisi::planning;
using llvm::StringRef;

namespace {

constexpr size_t mostBytes = 1 << 16;
constexpr size_t mostNameLength = 64;
/// toml++ 3.3 destroys the tables of a dotted key by recursion, and has no limit of its own (PR #242).
constexpr int mostDotsInLine = 64;

/// Text of the file as an error may show it: one short line.
std::string shown(StringRef text) {
  std::string result;
  for (char c : text.take_front(mostNameLength))
    result += llvm::isPrint(c) ? c : '?';
  return result;
}

/// Null if the text violates an assertion of toml++.
std::optional<toml::parse_result> parseToml(StringRef text) {
  try {
    return toml::parse(std::string_view(text));
  } catch (const BrokenAssertion &) {
    return std::nullopt;
  }
}

/// Reads the tables of a file. Each step returns whether it succeeded; the first that fails sets the error.
class Reader {
public:
  explicit Reader(StringRef file) : file(file) {}

  /// The error of the first step that failed.
  llvm::Error takeError() const { return llvm::createStringError(error); }

  bool fail(size_t line, const std::string &what) {
    error = file.str() + ":" + std::to_string(std::max<size_t>(line, 1)) + ": " + what;
    return false;
  }

  bool readCluster(const toml::table &root, Cluster &cluster) {
    const toml::table *header = nullptr, *device = nullptr;
    return knownKeys(root, "", {"cluster", "device", "level"}) && table(root, "cluster", header) &&
           knownKeys(*header, "cluster.", {"name"}) && name(*header, "cluster.", "name", cluster.name) &&
           table(root, "device", device) && readDevice(*device, cluster.device) && readLevels(root, cluster);
  }

private:
  static size_t lineOf(const toml::node &node) { return node.source().begin.line; }

  bool knownKeys(const toml::table &table, const std::string &path, llvm::ArrayRef<StringRef> keys) {
    for (auto &&[key, value] : table)
      if (!llvm::is_contained(keys, StringRef(key.str())))
        return fail(key.source().begin.line,
                    path + shown(key.str()) + ": unknown key, expected one of " + llvm::join(keys, ", "));
    return true;
  }

  bool table(const toml::table &parent, StringRef key, const toml::table *&result) {
    const toml::node *node = parent.get(key);
    result = node ? node->as_table() : nullptr;
    return result || fail(lineOf(node ? *node : parent), key.str() + ": expected a table [" + key.str() + "]");
  }

  bool name(const toml::table &table, const std::string &path, StringRef key, std::string &result) {
    const toml::node *node = table.get(key);
    const auto *text = node ? node->as_string() : nullptr;
    if (!text || text->get().empty() || text->get().size() > mostNameLength ||
        !llvm::all_of(text->get(), llvm::isPrint))
      return fail(lineOf(node ? *node : table), path + key.str() + ": expected text of 1 to " +
                                                    std::to_string(mostNameLength) + " letters, digits and signs");
    result = text->get();
    return true;
  }

  bool figure(const toml::table &table, const std::string &path, StringRef key, Unit unit, bool required,
              double &result) {
    const toml::node *node = table.get(key);
    if (!node && !required)
      return true;
    std::optional<double> value;
    if (node && node->is_number())
      value = node->value<double>();
    else if (node && node->is_string())
      value = parseQuantity(node->as_string()->get(), unit);
    if (!value || !inRange(unit, *value))
      return fail(lineOf(node ? *node : table), path + key.str() + ": expected " + expectation(unit).str());
    result = *value;
    return true;
  }

  bool readDevice(const toml::table &table, Cluster::Device &device) {
    if (!knownKeys(table, "device.",
                   {"preset", "kind", "name", "memory", "flops", "bandwidth", "compute-efficiency", "memory-efficiency",
                    "launch"}))
      return false;
    bool preset = table.contains("preset");
    if (preset && !readPreset(table, device))
      return false;
    if ((!preset || table.contains("kind")) && !name(table, "device.", "kind", device.kind))
      return false;
    if (device.kind != "cpu" && device.kind != "cuda")
      return fail(lineOf(*table.get("kind")), "device.kind: expected \"cpu\" or \"cuda\"");
    if ((!preset || table.contains("name")) && !name(table, "device.", "name", device.name))
      return false;
    double share = device.computeEfficiency[0];
    if (!figure(table, "device.", "compute-efficiency", Unit::share, false, share))
      return false;
    if (table.contains("compute-efficiency"))
      device.computeEfficiency.fill(share);
    return figure(table, "device.", "memory", Unit::bytes, !preset, device.memory) &&
           figure(table, "device.", "bandwidth", Unit::bytesPerSecond, !preset, device.bandwidth) &&
           figure(table, "device.", "memory-efficiency", Unit::share, false, device.memoryEfficiency) &&
           figure(table, "device.", "launch", Unit::seconds, !preset, device.launch) &&
           readFlops(table, preset, device);
  }

  bool readPreset(const toml::table &table, Cluster::Device &device) {
    std::string preset;
    if (!name(table, "device.", "preset", preset))
      return false;
    auto found = gpuPreset(preset);
    if (!found)
      return fail(lineOf(*table.get("preset")), "device.preset: expected one of " + gpuPresetNames());
    device = *found;
    return true;
  }

  /// Without a preset, precisions that are not given run at the rate of fp32.
  bool readFlops(const toml::table &table, bool preset, Cluster::Device &device) {
    static constexpr StringRef precisions[] = {"fp32", "tf32", "bf16", "fp16"};
    const toml::node *node = table.get("flops");
    if (!node && preset)
      return true;
    const toml::table *flops = node ? node->as_table() : nullptr;
    if (!flops)
      return fail(lineOf(node ? *node : table), "device.flops: expected a table such as { fp32 = \"60TFLOPS\" }");
    if (!knownKeys(*flops, "device.flops.", precisions))
      return false;
    for (auto [i, precision] : llvm::enumerate(precisions)) {
      if (!figure(*flops, "device.flops.", precision, Unit::flopsPerSecond, !preset && i == Cluster::Device::fp32,
                  device.flops[i]))
        return false;
      if (!preset && i == Cluster::Device::fp32)
        device.flops.fill(device.flops[i]);
    }
    return true;
  }

  bool readLevels(const toml::table &root, Cluster &cluster) {
    const toml::node *node = root.get("level");
    if (!node)
      return true;
    const toml::array *levels = node->as_array();
    if (!levels || levels->size() > Cluster::mostLevels)
      return fail(lineOf(*node), "level: expected one to " + std::to_string(Cluster::mostLevels) + " tables [[level]]");
    for (const toml::node &entry : *levels) {
      const toml::table *table = entry.as_table();
      if (!table)
        return fail(lineOf(entry), "level: expected tables [[level]]");
      Cluster::Level &level = cluster.levels.emplace_back();
      if (!knownKeys(*table, "level.", {"name", "size", "bandwidth", "latency"}) ||
          !name(*table, "level.", "name", level.name) ||
          !size(*table, Cluster::mostDevices / cluster.devices(), level.size) ||
          !figure(*table, "level.", "bandwidth", Unit::bytesPerSecond, true, level.bandwidth) ||
          !figure(*table, "level.", "latency", Unit::seconds, true, level.latency))
        return false;
    }
    return true;
  }

  bool size(const toml::table &table, int64_t most, int64_t &result) {
    const toml::node *node = table.get("size");
    const auto *value = node ? node->as_integer() : nullptr;
    if (!value || value->get() < 1 || value->get() > most)
      return fail(lineOf(node ? *node : table),
                  "level.size: expected a whole number from 1 to " + std::to_string(most));
    result = value->get();
    return true;
  }

  StringRef file;
  std::string error;
};

} // namespace

llvm::Expected<Cluster> planning::parseClusterFile(StringRef text, StringRef file) {
  Reader reader(file);
  if (text.size() > mostBytes) {
    reader.fail(1, "expected at most " + std::to_string(mostBytes) + " bytes");
    return reader.takeError();
  }
  llvm::SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (auto [i, line] : llvm::enumerate(lines))
    if (line.count('.') > mostDotsInLine) {
      reader.fail(i + 1, "expected at most " + std::to_string(mostDotsInLine) + " dots in a line");
      return reader.takeError();
    }

  auto result = parseToml(text);
  if (!result) {
    // Finds the line: the shortest prefix of the text that violates the assertion ends with it.
    auto *line = std::partition_point(lines.begin(), lines.end(), [&](StringRef line) {
      return parseToml(text.take_front(line.end() - text.begin())).has_value();
    });
    reader.fail(line - lines.begin() + 1, "not TOML");
    return reader.takeError();
  }
  if (!*result) {
    reader.fail(result->error().source().begin.line, shown(result->error().description()));
    return reader.takeError();
  }
  Cluster cluster;
  if (!reader.readCluster(result->table(), cluster))
    return reader.takeError();
  return cluster;
}

llvm::Expected<Cluster> planning::readClusterFile(const std::string &file) {
  std::error_code code;
  std::string text(mostBytes + 1, '\0'); // one more than is allowed, to detect larger files
  std::ifstream stream;
  if (std::filesystem::is_regular_file(file, code)) // opening a pipe would block until it has a writer
    stream.open(file, std::ios::binary);
  if (!stream.is_open() || (stream.read(text.data(), (std::streamsize)text.size()), stream.bad()))
    return llvm::createStringError(file + ": cannot be read");
  text.resize((size_t)stream.gcount());
  return parseClusterFile(text, file);
}
