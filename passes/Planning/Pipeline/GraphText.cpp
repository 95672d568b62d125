#include "passes/Planning/Pipeline/GraphText.h"
#include "passes/Planning/Pipeline/LayerOrder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <charconv>

using namespace divisi;
using namespace divisi::planning;
using llvm::StringRef;

namespace {

constexpr StringRef separator = " -- ";

/// A finite number from 0 to `most`; null for any other text.
std::optional<double> number(StringRef text, double most) {
  double value = 0;
  auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (error != std::errc() || end != text.end() || !(value >= 0 && value <= most))
    return std::nullopt;
  return value + 0.0; // turns -0 into 0
}

/// BYTES or [BYTES; BYTES; ...].
std::optional<double> bytesOf(StringRef text) {
  if (!text.consume_front("["))
    return number(text, mostBytes);
  if (!text.consume_back("]"))
    return std::nullopt;
  double sum = 0;
  while (true) {
    auto [first, rest] = text.split(';');
    std::optional<double> one = number(first.trim(' '), mostBytes);
    if (!one || (sum += *one) > mostBytes)
      return std::nullopt;
    if (rest.empty())
      return sum;
    text = rest;
  }
}

/// Reads the text. Each step returns whether it succeeded; the first that fails sets the error.
class GraphReader {
public:
  explicit GraphReader(StringRef file) : file(file) {}

  llvm::Error takeError() const { return llvm::createStringError(error); }

  bool read(StringRef text, LayerProfile &profile) {
    std::vector<std::pair<size_t, StringRef>> edges; // lines and texts
    size_t line = 0;
    while (!text.empty()) {
      auto [first, rest] = text.split('\n');
      text = rest;
      ++line;
      StringRef content = first.rtrim(" \t\r");
      if (content.empty())
        continue;
      if (content.consume_front("\t"))
        edges.emplace_back(line, content);
      else if (!readNode(line, content))
        return false;
    }
    for (auto [number, edge] : edges)
      if (!readEdge(number, edge))
        return false;
    return leaveOut() && sort(profile);
  }

private:
  bool fail(size_t line, const std::string &what) {
    error = file.str() + ":" + std::to_string(line) + ": " + what;
    return false;
  }

  bool readNode(size_t line, StringRef text) {
    auto [name, rest] = text.split(separator);
    size_t stage = rest.rfind(" -- stage_id=");
    if (stage != StringRef::npos)
      rest = rest.take_front(stage);
    auto [description, costs] = rest.rsplit(separator);
    if (name.empty() || costs.empty())
      return fail(line, "expected NODE -- DESCRIPTION -- forward_compute_time=..., backward_compute_time=..., "
                        "activation_size=..., parameter_size=...");
    if (layers.size() == LayerProfile::mostLayers)
      return fail(line, "expected at most " + std::to_string(LayerProfile::mostLayers) + " nodes");
    auto [known, added] = byName.try_emplace(name, layers.size());
    if (!added)
      return fail(line, "node '" + shownName(name) + "' is on line " + std::to_string(lines[known->second]) + ", too");
    LayerProfile::Layer &layer = layers.emplace_back();
    layer.name = name.str();
    descriptions.push_back(description);
    lines.push_back(line);
    auto figure = [&](StringRef key, double &value, bool list) {
      auto [first, others] = costs.split(", ");
      costs = others;
      std::optional<double> read;
      if (first.consume_front(key) && first.consume_front("="))
        read = list ? bytesOf(first) : number(first, key.ends_with("time") ? mostMs : mostBytes);
      value = read.value_or(0);
      return read || fail(line, "node '" + shownName(name) + "': expected " + key.str() + "=" +
                                    (key.ends_with("time") ? "milliseconds from 0 to 1e12" : "bytes from 0 to 1e18"));
    };
    return figure("forward_compute_time", layer.forwardMs, false) &&
           figure("backward_compute_time", layer.backwardMs, false) &&
           figure("activation_size", layer.activationBytes, true) &&
           figure("parameter_size", layer.parameterBytes, false) &&
           (costs.empty() || fail(line, "node '" + shownName(name) + "': expected nothing behind parameter_size"));
  }

  bool readEdge(size_t line, StringRef text) {
    auto [from, to] = text.split(separator);
    for (StringRef end : {from, to})
      if (!byName.contains(end))
        return fail(line, "no node is named '" + shownName(end) + "'");
    if (from == to)
      return fail(line, "node '" + shownName(from) + "' cannot be its own input");
    layers[byName[to]].inputs.push_back(static_cast<int>(byName[from]));
    return true;
  }

  bool leaveOut() {
    std::vector<bool> used(layers.size()), kept(layers.size());
    for (LayerProfile::Layer &layer : layers) {
      llvm::sort(layer.inputs);
      layer.inputs.erase(llvm::unique(layer.inputs), layer.inputs.end());
      for (int input : layer.inputs)
        used[input] = true;
    }
    std::vector<int> position(layers.size());
    int count = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      bool data = layers[i].inputs.empty() && descriptions[i].starts_with("Input");
      kept[i] = !data && (used[i] || !descriptions[i].starts_with("__getitem__"));
      position[i] = kept[i] ? count++ : -1;
    }
    if (count == 0)
      return fail(1, "expected a node that is neither an input nor an unused __getitem__");
    std::vector<LayerProfile::Layer> rest;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (!kept[i])
        continue;
      LayerProfile::Layer &layer = rest.emplace_back(std::move(layers[i]));
      lines[position[i]] = lines[i];
      llvm::erase_if(layer.inputs, [&](int input) { return !kept[input]; });
      for (int &input : layer.inputs)
        input = position[input];
    }
    layers = std::move(rest);
    return true;
  }

  bool sort(LayerProfile &profile) {
    std::optional<size_t> cycle = sortLayers(layers, profile);
    return !cycle ||
           fail(lines[*cycle], "the inputs of node '" + shownName(layers[*cycle].name) + "' go round in a cycle");
  }

  StringRef file;
  std::string error;
  std::vector<LayerProfile::Layer> layers; // in the order of the file
  std::vector<StringRef> descriptions;     // by layer
  std::vector<size_t> lines;               // by layer
  llvm::StringMap<size_t> byName;
};

} // namespace

bool planning::isPipeDreamGraph(StringRef text) {
  text = text.ltrim();
  return !text.starts_with("{") && !text.starts_with("[") && text.split('\n').first.contains(separator);
}

llvm::Expected<LayerProfile> planning::parsePipeDreamGraph(StringRef text, StringRef file) {
  LayerProfile profile;
  GraphReader reader(file);
  if (!reader.read(text, profile))
    return reader.takeError();
  return profile;
}
