#include "compiler/TrainingState.h"

#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
namespace json = llvm::json;

TrainingState::TrainingState(ModuleOp module, const TrainingBindings &bindings) {
  bytesAndUpdates.emplace(bindings.info.size(), bindings.updates);
  std::map<std::pair<StringRef, StringRef>, const Weight *> moments;
  for (const TrainingBindings::State &state : bindings.states)
    moments[{state.of, state.moment}] = &state.value;
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
      if (auto initial = bindings.initials.find(name); initial != bindings.initials.end() && text("of").empty()) {
        const auto &[kind, scale, mean] = initial->second;
        entries[name]["init"] = json::Object{{"kind", kind}, {"scale", scale}, {"mean", mean}};
      }
      if (text("role") == "step" && !bindings.count.empty()) {
        entries[name]["training_info"] = bindings.count;
        if (!bindings.countShape.empty())
          entries[name]["model_shape"] = json::Array(bindings.countShape);
      } else if (bindings.weights.count(name)) {
        entries[name]["training_info"] = name;
      } else if (auto moment = moments.find({text("of"), text("moment")}); moment != moments.end()) {
        if (auto [it, isNew] = entries.try_emplace(name, json::Object{{"training_info", moment->second->name}}); isNew) {
          values.push_back(*moment->second);
          values.back().name = name;
        }
      }
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
