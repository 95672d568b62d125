#include "passes/Planning/Pipeline/StageFile.h"

#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Nesting.h"
#include "passes/Planning/Pipeline/LayerProfile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace divisi::planning;
using llvm::StringRef;

llvm::Expected<FoundStages> FoundStages::parse(StringRef text, StringRef file) {
  auto fail = [&](const llvm::Twine &what) {
    return llvm::createStringError(file + ": " + what + ": expected what divisi plan --objective pipedream --json prints");
  };
  if (nestsTooDeep(text, mostJsonNesting))
    return fail("nested too deep");
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return fail("this is not JSON");
  }
  const llvm::json::Object *root = value->getAsObject();
  const llvm::json::Array *stages = root ? root->getArray("stages") : nullptr;
  if (!stages || stages->empty() || stages->size() > (size_t)Cluster::mostDevices)
    return fail("there are no stages");
  FoundStages found;
  int64_t behind = -1, devices = 0; // the last layer of the stage before
  for (const llvm::json::Value &entry : *stages) {
    std::string which = "stages[" + std::to_string(found.first.size()) + "]";
    const llvm::json::Object *stage = entry.getAsObject();
    const llvm::json::Array *layers = stage ? stage->getArray("layers") : nullptr;
    const llvm::json::Array *positions = stage ? stage->getArray("positions") : nullptr;
    auto replicas = stage ? stage->getInteger("replicas") : std::nullopt;
    if (!layers || layers->empty() || !positions || positions->size() != layers->size() || !replicas || *replicas < 1 ||
        *replicas > Cluster::mostDevices)
      return fail(which);
    int64_t first = 0, last = 0;
    std::string name;
    for (auto [layer, position] : llvm::zip(*layers, *positions)) {
      auto text = layer.getAsString();
      auto at = position.getAsInteger();
      if (!text || !at || *at < 0 || *at >= (int64_t)LayerProfile::mostLayers)
        return fail(which);
      if (name.empty() || *at < first)
        name = text->str(), first = *at;
      last = std::max(last, *at);
    }
    if (first <= behind) {
      const llvm::json::Array *begins = stage->getArray("begins_at");
      if (!begins || begins->size() < 2 || !llvm::all_of(*begins, [](auto &layer) { return layer.getAsString(); }))
        return fail(which + ": its layers lie between those of the stage before, without begins_at");
      name = llvm::join(llvm::map_range(*begins, [](auto &layer) { return *layer.getAsString(); }), joinsCuts);
    }
    if ((devices += *replicas) > Cluster::mostDevices)
      return fail("more than " + llvm::Twine(Cluster::mostDevices) + " devices");
    behind = std::max(behind, last);
    found.first.push_back(std::move(name));
    found.replicas.push_back(*replicas);
  }
  return found;
}

llvm::Expected<FoundStages> FoundStages::read(const std::string &file) {
  auto text = readLayerText(file);
  return text ? parse((*text)->getBuffer(), file) : llvm::Expected<FoundStages>(text.takeError());
}
