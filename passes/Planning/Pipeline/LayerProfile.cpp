#include "passes/Planning/Pipeline/LayerProfile.h"

#include "passes/Planning/Nesting.h"
#include "passes/Planning/Pipeline/GraphText.h"
#include "passes/Planning/Pipeline/LayerOrder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <charconv>
#include <filesystem>

using namespace divisi;
using namespace divisi::planning;
using llvm::StringRef;

namespace {

constexpr size_t mostFileBytes = 1 << 28;
constexpr size_t mostShown = 64;

struct Figure {
  StringRef key;
  double LayerProfile::Layer::*member;
  double most;
  StringRef expectation;
};

constexpr StringRef milliseconds = "expected a number of milliseconds from 0 to 1e12";
constexpr StringRef numberOfBytes = "expected a number of bytes from 0 to 1e18";
constexpr Figure figures[] = {
    {"forward_ms", &LayerProfile::Layer::forwardMs, mostMs, milliseconds},
    {"backward_ms", &LayerProfile::Layer::backwardMs, mostMs, milliseconds},
    {"activation_bytes", &LayerProfile::Layer::activationBytes, mostBytes, numberOfBytes},
    {"parameter_bytes", &LayerProfile::Layer::parameterBytes, mostBytes, numberOfBytes},
};

/// Reads a profile. Each step returns whether it succeeded; the first that fails sets the error.
class Reader {
public:
  explicit Reader(StringRef file) : file(file) {}

  /// The error of the first step that failed.
  llvm::Error takeError() const { return llvm::createStringError(error); }

  bool fail(const std::string &what) {
    error = file.str() + ": " + what;
    return false;
  }

  bool read(StringRef text, LayerProfile &profile) {
    if (nestsTooDeep(text, mostJsonNesting))
      return fail("nested too deep for a profile");
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
    if (!value) {
      std::string message = llvm::toString(value.takeError());
      llvm::replace(message, '\n', ' ');
      return fail("not JSON: " + message);
    }
    const llvm::json::Object *root = value->getAsObject();
    if (!root)
      return fail("expected an object with the key layers");
    if (auto key = unknownKey(*root, {"layers"}))
      return fail(shownName(*key) + ": unknown key, expected layers");
    const llvm::json::Array *array = root->getArray("layers");
    if (!array || array->empty() || array->size() > LayerProfile::mostLayers)
      return fail("layers: expected an array of 1 to " + std::to_string(LayerProfile::mostLayers) + " layers");
    for (const llvm::json::Value &entry : *array)
      if (!readLayer(entry))
        return false;
    for (size_t i = 0; i < layers.size(); ++i)
      if (!readInputs(i, (*array)[i].getAsObject()->get("inputs")))
        return false;
    std::optional<size_t> cycle = sortLayers(layers, profile);
    return !cycle || failAt(*cycle, "inputs", "go round in a cycle");
  }

private:
  /// The alphabetically first unknown key (objects are unordered); null if all are known.
  static std::optional<StringRef> unknownKey(const llvm::json::Object &object, llvm::ArrayRef<StringRef> known) {
    std::optional<StringRef> least;
    for (const auto &entry : object)
      if (StringRef key = entry.first; !llvm::is_contained(known, key) && (!least || key < *least))
        least = key;
    return least;
  }

  bool failAt(size_t layer, StringRef key, const std::string &what) {
    std::string name = layer < layers.size() ? " ('" + shownName(layers[layer].name) + "')" : "";
    return fail("layer " + std::to_string(layer) + name + ": " + (key.empty() ? "" : key.str() + ": ") + what);
  }

  bool readLayer(const llvm::json::Value &entry) {
    size_t index = layers.size();
    const llvm::json::Object *object = entry.getAsObject();
    if (!object)
      return failAt(index, "", "expected an object");
    std::optional<StringRef> name = object->getString("name");
    if (!name || name->empty())
      return failAt(index, "name", "expected text that is not empty");
    LayerProfile::Layer &layer = layers.emplace_back();
    layer.name = name->str();
    if (auto [known, added] = byName.try_emplace(*name, index); !added)
      return failAt(index, "name", "layer " + std::to_string(known->second) + " has the same");
    if (auto key =
            unknownKey(*object, {"name", "forward_ms", "backward_ms", "activation_bytes", "parameter_bytes", "inputs"}))
      return failAt(index, shownName(*key),
                    "unknown key, expected one of name, forward_ms, backward_ms, activation_bytes, parameter_bytes, "
                    "inputs");
    for (const Figure &figure : figures) {
      std::optional<double> number = object->getNumber(figure.key);
      if (!number || !(*number >= 0 && *number <= figure.most))
        return failAt(index, figure.key, figure.expectation.str());
      layer.*figure.member = *number + 0.0; // turns -0 into 0
    }
    return true;
  }

  bool readInputs(size_t index, const llvm::json::Value *value) {
    std::vector<int> &inputs = layers[index].inputs;
    if (!value) {
      if (index > 0)
        inputs.push_back(static_cast<int>(index) - 1);
      return true;
    }
    const llvm::json::Array *array = value->getAsArray();
    if (!array)
      return failAt(index, "inputs", "expected an array of names");
    for (const llvm::json::Value &entry : *array) {
      std::optional<StringRef> name = entry.getAsString();
      if (!name)
        return failAt(index, "inputs", "expected an array of names");
      auto found = byName.find(*name);
      if (found == byName.end())
        return failAt(index, "inputs", "no layer is named '" + shownName(*name) + "'");
      if (found->second == index)
        return failAt(index, "inputs", "a layer cannot be its own input");
      inputs.push_back(static_cast<int>(found->second));
    }
    llvm::sort(inputs);
    inputs.erase(llvm::unique(inputs), inputs.end());
    return true;
  }

  StringRef file;
  std::string error;
  std::vector<LayerProfile::Layer> layers; // in the order of the file
  llvm::StringMap<size_t> byName;
};

} // namespace

std::string planning::shownName(StringRef name) {
  std::string result;
  for (char c : name.take_front(mostShown))
    result += llvm::isPrint(c) ? c : '?';
  return result + (name.size() > mostShown ? "..." : "");
}

llvm::Expected<LayerProfile> planning::parseLayerProfile(StringRef text, StringRef file) {
  if (isPipeDreamGraph(text))
    return parsePipeDreamGraph(text, file);
  LayerProfile profile;
  Reader reader(file);
  if (!reader.read(text, profile))
    return reader.takeError();
  return profile;
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> planning::readLayerText(const std::string &file) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(file, code)) // opening a pipe would block until it has a writer
    return llvm::createStringError(file + ": cannot be read");
  if (std::filesystem::file_size(file, code) > mostFileBytes)
    return llvm::createStringError(file + ": expected at most " + std::to_string(mostFileBytes) + " bytes");
  auto buffer = llvm::MemoryBuffer::getFile(file);
  if (!buffer)
    return llvm::createStringError(file + ": " + buffer.getError().message());
  return std::move(*buffer);
}

llvm::Expected<LayerProfile> planning::readLayerProfile(const std::string &file) {
  auto text = readLayerText(file);
  return text ? parseLayerProfile((*text)->getBuffer(), file) : llvm::Expected<LayerProfile>(text.takeError());
}

void planning::writeLayerProfile(const LayerProfile &profile, llvm::raw_ostream &os) {
  os << "{\"layers\": [";
  for (auto [i, layer] : llvm::enumerate(profile.layers)) {
    os << (i ? ",\n  " : "\n  ") << "{\"name\": " << llvm::json::Value(llvm::json::fixUTF8(layer.name));
    for (const Figure &figure : figures) {
      char digits[32]; // the shortest digits that read as the same number
      auto end = std::to_chars(std::begin(digits), std::end(digits), layer.*figure.member).ptr;
      os << ", \"" << figure.key << "\": " << StringRef(digits, end - digits);
    }
    llvm::json::Array inputs;
    for (int input : layer.inputs)
      inputs.push_back(llvm::json::fixUTF8(profile.layers[input].name));
    os << ", \"inputs\": " << llvm::json::Value(std::move(inputs)) << "}";
  }
  os << "\n]}\n";
}
