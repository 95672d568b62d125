#include "compiler/TrainingState.h"

#include "dialects/Graph/Graph.h"
#include "dialects/Graph/WhenNeeded.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
namespace json = llvm::json;

TrainingState::TrainingState(ModuleOp module, const TrainingBindings &bindings, ArrayRef<Weight> weights) {
  bytesAndUpdates.emplace(bindings.info.size(), bindings.updates);
  std::map<std::pair<StringRef, StringRef>, const Weight *> moments;
  for (const TrainingBindings::State &state : bindings.states)
    moments[{state.of, state.moment}] = &state.value;
  llvm::StringMap<const Weight *> byName;
  for (const Weight &weight : weights)
    byName[weight.name] = &weight;
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto state = function.getArgAttrOfType<DictionaryAttr>(i, graph::names::state);
      if (!state)
        continue;
      auto text = [&](StringRef key) {
        auto attr = state.getAs<StringAttr>(key);
        return attr ? attr.getValue() : StringRef();
      };
      std::string name = text("name").str();
      if (entries.count(name))
        continue; // of another task
      json::Object entry;
      auto initialise = [&](const std::string &initializer) {
        if (auto initial = bindings.initials.find(initializer); initial != bindings.initials.end())
          entry["init"] =
              json::Object{{"kind", initial->second.kind}, {"scale", initial->second.scale}, {"mean", initial->second.mean}};
      };
      auto store = [&](const Weight &value) {
        entry["stored"] = true;
        values.push_back(value);
        values.back().name = name;
      };
      auto moment = moments.find({text("of"), text("moment")});
      auto parameter = byName.find(text("of"));
      if (text("role") == "step" && !bindings.count.empty()) {
        entry["training_info"] = bindings.count;
        if (!bindings.countShape.empty())
          entry["model_shape"] = json::Array(bindings.countShape);
      } else if (moment != moments.end()) {
        entry["training_info"] = moment->second->name;
        initialise(moment->second->name);
        store(*moment->second);
      } else if (text("moment") == graph::averageMoment && bindings.updates > 0 && parameter != byName.end()) {
        store(*parameter->second); // the first update starts the average only if none was counted before
      } else if (text("of").empty()) {
        if (bindings.weights.count(name))
          entry["training_info"] = name;
        initialise(name);
      }
      if (!entry.empty())
        entries[name] = std::move(entry);
    }
}

void TrainingState::describe(json::Object &state) const {
  if (auto entry = entries.find(state.getString("name")->str()); entry != entries.end())
    for (const auto &[key, value] : entry->second)
      state[key] = value;
}

std::optional<json::Object> TrainingState::describe() const {
  if (!bytesAndUpdates)
    return std::nullopt;
  return json::Object{{"bytes", bytesAndUpdates->first}, {"updates", bytesAndUpdates->second}};
}
