#include "compiler/Manifest.h"

#include "compiler/Profile/Expectation.h"
#include "compiler/ProgramMeaning.h"

#include "dialects/Dist/StageAxes.h"
#include "dialects/Dist/Sync.h"
#include "dialects/Dist/Tasks.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/Arguments.h"
#include "dialects/Graph/Graph.h"
#include "dialects/Graph/WhenNeeded.h"
#include "divisi/abi.h"
#include "passes/Pipelining/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <set>

using namespace mlir;
using namespace divisi;
namespace json = llvm::json;
namespace names = divisi::graph::names;

StringRef compiler::typeName(Type element) {
  if (element.isBF16())
    return "BF16";
  if (isa<FloatType>(element))
    return element.isF64() ? "F64" : element.isF16() ? "F16" : "F32";
  if (element.isInteger(1))
    return "BOOL";
  unsigned width = element.getIntOrFloatBitWidth();
  if (element.isUnsignedInteger())
    return width == 8 ? "U8" : width == 16 ? "U16" : width == 32 ? "U32" : "U64";
  return width == 8 ? "I8" : width == 16 ? "I16" : width == 32 ? "I32" : "I64";
}

/// The dtype, shape, bytes and offset of a value.
static json::Object tensorJson(Type type, IntegerAttr offset) {
  auto tensor = cast<RankedTensorType>(type);
  json::Array shape;
  for (int64_t size : tensor.getShape())
    shape.push_back(size);
  return json::Object{{"dtype", compiler::typeName(tensor.getElementType())},
                      {"shape", std::move(shape)},
                      {"offset", offset ? offset.getInt() : 0},
                      {"bytes", graph::bytesOf(type)}};
}

/// How `--init` initialises a parameter: PyTorch's defaults for linear layers and norms.
static json::Object initial(StringRef name, ArrayRef<int64_t> shape) {
  if (shape.size() >= 2) {
    double fanIn = 1;
    for (int64_t size : shape.drop_front())
      fanIn *= (double)size;
    return json::Object{{"kind", "uniform"}, {"scale", 1 / std::sqrt(std::max(1.0, fanIn))}};
  }
  return json::Object{{"kind", "constant"}, {"scale", name.ends_with("bias") ? 0.0 : 1.0}};
}

/// The mesh of a partitioned function; empty for one device.
static dist::Mesh meshOf(func::FuncOp task) {
  auto attr = task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned);
  return attr ? dist::toMesh(attr) : dist::Mesh();
}

/// Adds the global tensor of which an argument is a shard: its shape, and the axes of each dimension.
static json::Object withSplit(json::Object entry, func::FuncOp task, unsigned argument) {
  auto global = task.getArgAttrOfType<TypeAttr>(argument, dist::names::global);
  auto unpadded = task.getArgAttrOfType<DenseI64ArrayAttr>(argument, names::unpadded);
  if (!global && !unpadded)
    return entry;
  auto type = cast<RankedTensorType>(global ? global.getValue() : task.getArgumentTypes()[argument]);
  dist::Sharding sharding = dist::toSharding(type, meshOf(task));
  json::Array shape, split;
  if (unpadded)
    entry["padded_shape"] = json::Array(type.getShape());
  for (auto [size, axes] : llvm::zip(unpadded ? unpadded.asArrayRef() : type.getShape(), sharding.dims)) {
    shape.push_back(size);
    json::Array list;
    for (int axis : axes)
      list.push_back(axis);
    split.push_back(std::move(list));
  }
  entry["global_shape"] = std::move(shape);
  entry["split"] = std::move(split);
  return entry;
}

/// The shape that a state has in the model, however it is padded and split.
static ArrayRef<int64_t> modelShape(DictionaryAttr attrs, func::FuncOp task, unsigned argument) {
  if (auto shape = attrs.getAs<DenseI64ArrayAttr>("shape"))
    return shape;
  if (auto unpadded = task.getArgAttrOfType<DenseI64ArrayAttr>(argument, names::unpadded))
    return unpadded;
  auto global = task.getArgAttrOfType<TypeAttr>(argument, dist::names::global);
  return cast<RankedTensorType>(global ? global.getValue() : task.getArgumentTypes()[argument]).getShape();
}

static json::Object state(DictionaryAttr attrs, func::FuncOp task, unsigned argument, IntegerAttr offset) {
  json::Object entry = tensorJson(task.getArgumentTypes()[argument], offset);
  StringRef name = attrs.getAs<StringAttr>("name").getValue(), role = attrs.getAs<StringAttr>("role").getValue();
  entry["name"] = name;
  entry["role"] = role;
  if (auto of = attrs.getAs<StringAttr>("of"))
    entry["of"] = of.getValue();
  if (auto moment = attrs.getAs<StringAttr>("moment"); moment && moment.getValue() == graph::averageMoment)
    entry["average"] = true;
  if (auto shape = attrs.getAs<DenseI64ArrayAttr>("shape"))
    entry["model_shape"] = json::Array(shape.asArrayRef());
  auto trainable = attrs.getAs<BoolAttr>("trainable");
  if (trainable)
    entry["trainable"] = trainable.getValue();
  if (role == "parameter" && (!trainable || trainable.getValue())) // a frozen parameter keeps the value of the file
    entry["init"] = initial(name, modelShape(attrs, task, argument));
  if (role == "buffer")
    entry["init"] = json::Object{{"kind", "constant"}, {"scale", name.ends_with("var") ? 1.0 : 0.0}};
  return entry;
}

/// A list of integers; dumps may spell it in two ways.
static json::Array integers(Attribute list) {
  json::Array numbers;
  if (auto dense = dyn_cast<DenseI64ArrayAttr>(list))
    numbers = json::Array(dense.asArrayRef());
  else if (auto array = dyn_cast<ArrayAttr>(list))
    for (auto number : array.getAsRange<IntegerAttr>())
      numbers.push_back(number.getInt());
  return numbers;
}

static json::Object input(func::FuncOp task, unsigned i, IntegerAttr offset) {
  json::Object entry = tensorJson(task.getArgumentTypes()[i], offset);
  entry["name"] = task.getArgAttrOfType<StringAttr>(i, names::input).getValue();
  if (task.getArgAttr(i, names::label))
    entry["label"] = true;
  if (auto count = task.getArgAttrOfType<IntegerAttr>(i, names::microbatches))
    entry["microbatches"] = count.getInt();
  if (auto padding = task.getArgAttrOfType<IntegerAttr>(i, "graph.padding"))
    entry["padding"] = padding.getInt();
  if (Attribute range = task.getArgAttr(i, "graph.range"))
    entry["range"] = integers(range);
  return entry;
}

/// An output of @evaluate that is computed on demand, with the names of the inputs that it depends on, or of the metrics for which it is.
static json::Object prediction(json::Object entry, DictionaryAttr report) {
  for (const char *key : {"inputs", "metrics"})
    if (auto list = report.getAs<ArrayAttr>(key)) {
      json::Array names;
      for (auto name : list.getAsRange<StringAttr>())
        names.push_back(name.getValue());
      entry[key] = std::move(names);
    }
  return entry;
}

/// The tables of the schedules, by function and stage: [task, microbatch, offset of its buffer slot]; of an
/// asynchronous schedule [task, minibatch, offset of the first slot, bytes of a slot, number of slots, dist::When].
static json::Object tablesOf(ModuleOp module) {
  llvm::StringMap<int64_t> numbers;
  json::Object tables;
  for (auto task : module.getOps<func::FuncOp>()) {
    numbers.try_emplace(task.getName(), numbers.size());
    if (!task.getName().contains('.'))
      tables[task.getName()] = json::Array{json::Array{json::Array{numbers.lookup(task.getName()), 0, 0}}};
  }
  for (auto schedule : module.getOps<dist::ScheduleOp>()) {
    json::Array rows;
    const bool turns = dist::StageAxes::of(*module.getOps<func::FuncOp>().begin()).takesTurns(); // all have the same
    auto slots = schedule->getAttrOfType<ArrayAttr>(exec::names::slots);
    for (auto [row, offsets] : llvm::enumerate(slots.getAsRange<DenseI64ArrayAttr>())) {
      json::Array entries;
      auto tasks = dist::tasksOf(schedule, row);
      size_t each = tasks.empty() ? 0 : offsets.size() / tasks.size();
      const int64_t replicas = dist::replicasOf(module, row);
      for (auto [i, task] : llvm::enumerate(tasks)) {
        json::Array entry{numbers.lookup(task.symbol), task.microbatch};
        for (int64_t number : offsets.asArrayRef().slice(i * each, each))
          entry.push_back(number);
        auto kind = dist::kindOf(task.symbol);
        if (schedule.isAsynchronous())
          entry.push_back((int64_t)dist::whenRuns(schedule, task));
        else if (turns && kind && !dist::isOnce(*kind))
          entry.push_back(task.microbatch % replicas);
        entries.push_back(std::move(entry));
      }
      rows.push_back(std::move(entries));
    }
    tables[schedule.getFunction()] = std::move(rows);
  }
  return tables;
}

/// Describes a collective or message of a task.
static json::Object collective(exec::CallOp call, const dist::Mesh &mesh) {
  json::Object entry{{"id", (int64_t)*call.getId()}, {"name", call.getLabel().value_or("")}};
  ArrayAttr names = call.getAxes();
  if (!names) // a message
    return entry;
  json::Array axes;
  for (auto name : names.getAsRange<StringAttr>())
    axes.push_back(*mesh.find(name.getValue()));
  entry["axes"] = std::move(axes);
  return entry;
}

/// The updates of dedicated servers: the task of each, what workers send for it, and the names of the state that it renews.
static json::Array updatesOf(ModuleOp module) {
  json::Array updates;
  for (auto [number, task] : llvm::enumerate(module.getOps<func::FuncOp>())) {
    json::Array pushed, renewed;
    for (unsigned i = 0; i < task.getNumArguments(); ++i)
      if (auto how = task.getArgAttrOfType<StringAttr>(i, dist::names::pushed)) {
        json::Object entry = tensorJson(task.getArgumentTypes()[i], task.getArgAttrOfType<IntegerAttr>(i, exec::names::offset));
        entry["combine"] = how.getValue();
        pushed.push_back(std::move(entry));
      }
    if (dist::functionOf(task.getName()) != "train" || dist::kindOf(task.getName()) != dist::TaskKind::finish)
      continue;
    for (unsigned i = 0; i < task.getNumResults(); ++i)
      if (auto name = task.getResultAttrOfType<StringAttr>(i, names::renews))
        renewed.push_back(name.getValue());
    updates.push_back(json::Object{{"task", (int64_t)number}, {"pushed", std::move(pushed)}, {"renews", std::move(renewed)}});
  }
  return updates;
}

/// How replicas are kept in step (Sync).
static json::Object synchronisation(const dist::Sync &sync, const dist::Mesh &mesh, json::Array updates) {
  json::Object entry{{"mode", dist::Sync::nameOf(sync.mode)}, {"axis", *mesh.find(dist::replicaAxis)}};
  if (sync.mode == dist::Sync::Mode::gossip)
    entry["topology"] = dist::Sync::nameOf(sync.topology);
  if (sync.asynchronous)
    entry["asynchronous"] = true;
  if (sync.mode == dist::Sync::Mode::local)
    entry["every"] = sync.every;
  if (sync.servers > 0)
    entry["updates"] = std::move(updates);
  if (sync.maxStaleness)
    entry["max_staleness"] = *sync.maxStaleness;
  if (sync.averageState)
    entry["average_state"] = true;
  if (sync.overlap)
    entry["overlap"] = true;
  if (sync.outer != dist::Sync::Outer::mean)
    entry["outer"] = json::Object{
        {"optimizer", dist::Sync::nameOf(sync.outer)}, {"lr", sync.outerRate}, {"momentum", sync.outerMomentum}};
  return entry;
}

int64_t compiler::ranksOf(ModuleOp module, const dist::Sync &sync) {
  for (auto task : module.getOps<func::FuncOp>()) // all have the same mesh
    if (auto attr = task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned)) {
      dist::Mesh mesh = dist::toMesh(attr);
      auto stages = mesh.find(dist::stageAxis);
      return dist::StageAxes::of(task).devicesBefore(stages ? mesh.axes[*stages].size : 1, mesh) + sync.serverRanks(mesh);
    }
  return 1;
}

std::string compiler::writeManifest(ModuleOp module, StringRef model, const RunDefaults &defaults,
                                    const WeightsReference &weights, const Expectation *expectation,
                                    const TrainingState &training) {
  json::Array inputs, states, scalars, results, predictions, mesh, collectives, tasks;
  llvm::StringSet<> seen;
  std::set<int64_t> known;                                 // ids of collectives and transfers
  std::map<std::pair<int64_t, int64_t>, int64_t> messages; // by sending and receiving stage: the largest
  int64_t batch = 0;
  auto arenas = module->getAttrOfType<DenseI64ArrayAttr>(exec::names::arenas);
  for (auto task : module.getOps<func::FuncOp>()) {
    tasks.push_back(task.getName());
    std::string stage; // the stage of this arena, as part of a key
    auto located = [&](json::Object entry) {
      if (!stage.empty())
        entry["stage"] = dist::stageOf(task);
      return entry;
    };
    if (arenas)
      stage = std::to_string(dist::stageOf(task)) + " ";
    if (mesh.empty())
      for (const auto &axis : meshOf(task).axes)
        mesh.push_back(json::Object{{"name", axis.name}, {"size", axis.size}});
    for (auto call : task.getOps<exec::CallOp>()) {
      if (call.communicates() && known.insert(*call.getId()).second)
        collectives.push_back(collective(call, meshOf(task)));
      if (auto send = dyn_cast<dist::SendOp>(call.getPayload())) {
        int64_t &most = messages[{dist::stageOf(task), send.getStage()}];
        most = std::max(most, graph::bytesOf(send.getInput().getType()));
      }
    }
    for (unsigned i = 0; i < task.getNumArguments(); ++i) {
      Type type = task.getArgumentTypes()[i];
      auto offset = task.getArgAttrOfType<IntegerAttr>(i, exec::names::offset);
      if (auto attrs = task.getArgAttrOfType<DictionaryAttr>(i, names::state)) {
        if (seen.insert(stage + "state " + attrs.getAs<StringAttr>("name").str()).second) {
          json::Object entry = withSplit(state(attrs, task, i, offset), task, i);
          training.describe(entry);
          states.push_back(located(std::move(entry)));
        }
      } else if (auto name = task.getArgAttrOfType<StringAttr>(i, names::input)) {
        auto global = task.getArgAttrOfType<TypeAttr>(i, dist::names::global);
        auto shape = cast<RankedTensorType>(global ? global.getValue() : type).getShape();
        if (!seen.insert(stage + "input " + name.str()).second)
          continue;
        inputs.push_back(located(withSplit(input(task, i, offset), task, i)));
        if (batch == 0 && !shape.empty())
          batch = shape[0] * (task.getArgAttr(i, names::microbatches) ? shape[1] : 1);
      } else if (auto name = task.getArgAttrOfType<StringAttr>(i, names::scalar)) {
        if (!seen.insert(stage + "scalar " + name.str()).second)
          continue;
        json::Object entry = tensorJson(type, offset);
        entry["name"] = name.getValue();
        scalars.push_back(located(std::move(entry)));
      }
    }
    for (unsigned i = 0; i < task.getNumResults(); ++i) {
      auto report = task.getResultAttrOfType<DictionaryAttr>(i, names::result);
      if (!report)
        continue;
      json::Object entry =
          tensorJson(task.getResultTypes()[i], task.getResultAttrOfType<IntegerAttr>(i, exec::names::offset));
      if (auto name = report.getAs<StringAttr>("name"))
        entry["name"] = name.getValue();
      StringRef kind = report.getAs<StringAttr>("kind").getValue();
      if (kind == "prediction") {
        predictions.push_back(located(prediction(std::move(entry), report)));
        continue;
      }
      entry["kind"] = kind;
      entry["function"] = task.getName().split('.').first;
      if (Attribute range = report.get("range"))
        entry["range"] = integers(range);
      if (auto shares = report.getAs<IntegerAttr>("shares"))
        entry["shares"] = shares.getInt();
      if (auto when = report.getAs<IntegerAttr>("when"))
        entry["when"] = when.getInt();
      results.push_back(located(std::move(entry)));
    }
  }
  if (auto order =
          // checkpoints have the model's order
      module->getAttrOfType<ArrayAttr>(pipelining::stateOrder)) {
    llvm::StringMap<size_t> position;
    for (auto name : order.getAsRange<StringAttr>())
      position.try_emplace(name.getValue(), position.size());
    auto positionOf = [&](const json::Value &entry) {
      return position.lookup(*entry.getAsObject()->getString("name"));
    };
    llvm::stable_sort(states,
                      [&](const json::Value &a, const json::Value &b) { return positionOf(a) < positionOf(b); });
  }
  json::Object manifest{{"abi", DIVISI_ABI_VERSION},
                        {"model", model},
                        {"batch", batch},
                        {"tables", tablesOf(module)},
                        {"tasks", std::move(tasks)},
                        {"inputs", std::move(inputs)},
                        {"state", std::move(states)},
                        {"scalars", std::move(scalars)},
                        {"results", std::move(results)},
                        {"defaults", json::Object{{"lr", defaults.lr.value_or(0.01)},
                                                  {"lr_schedule", defaults.schedule.value_or("constant")},
                                                  {"warmup_steps", defaults.warmupSteps.value_or(0)}}}};
  if (!predictions.empty())
    manifest["predictions"] = std::move(predictions);
  if (json::Object meaning = meaningOf(module); !meaning.empty())
    manifest["program"] = std::move(meaning);
  if (arenas) {
    json::Array stages;
    for (int64_t bytes : arenas.asArrayRef())
      stages.push_back(json::Object{{"arena", bytes}});
    auto task = *module.getOps<func::FuncOp>().begin(); // all tasks have the same mesh
    if (dist::StageAxes axes = dist::StageAxes::of(task); !axes.empty())
      for (auto [stage, entry] : llvm::enumerate(stages)) {
        json::Array lacking;
        for (int axis : axes.lacking(stage, meshOf(task)))
          lacking.push_back(axis);
        (*entry.getAsObject())["lacking"] = std::move(lacking);
        if (auto turns = axes.turnsOf(stage, meshOf(task)))
          (*entry.getAsObject())["turns"] = *turns;
      }
    manifest["stages"] = std::move(stages);
  }
  if (!mesh.empty()) {
    manifest["mesh"] = std::move(mesh);
    manifest["collectives"] = std::move(collectives);
    json::Array pairs;
    for (auto [stages, bytes] : messages)
      pairs.push_back(json::Object{{"from", stages.first}, {"to", stages.second}, {"bytes", bytes}});
    manifest["messages"] = std::move(pairs);
    if (auto sync = dist::Sync::of(module); succeeded(sync) && sync->mode != dist::Sync::Mode::allReduce)
      manifest["sync"] = synchronisation(*sync, meshOf(*module.getOps<func::FuncOp>().begin()), updatesOf(module));
  }
  if (expectation) {
    json::Array calls;
    for (auto [call, microseconds, task] :
         llvm::zip(expectation->calls, expectation->microseconds, expectation->tasks)) {
      json::Object entry{{"kind", call.kind},
                         {"name", json::fixUTF8(call.name)},
                         {"key", call.key},
                         {"expected_us", microseconds},
                         {"task", task}};
      if (call.id >= 0)
        entry["id"] = call.id;
      calls.push_back(std::move(entry));
    }
    manifest["calls"] = std::move(calls);
    manifest["expected_us"] = expectation->step;
    if (manifest.get("mesh")) {
      json::Array links;
      for (const HostLinks::Link &link : {expectation->links.inside, expectation->links.across})
        links.push_back(json::Object{{"latency", link.latency}, {"bandwidth", link.bandwidth}});
      manifest["links"] = std::move(links);
    }
  }
  if (auto entry = training.describe())
    manifest["training_info"] = std::move(*entry);
  if (!weights.file.empty())
    manifest["weights"] = json::Object{{"file", weights.file}, {"hashes", weights.hashes}};
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(manifest));
  return text;
}

LogicalResult compiler::checkNames(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    for (BlockArgument argument : function.getArguments())
      if (StringRef name = graph::nameOfArgument(argument); name == "__metadata__")
        return function.emitError("the name '") << name << "' is reserved in safetensors files: rename this tensor";
    for (ArrayAttr list : {function.getAllArgAttrs(), function.getAllResultAttrs()}) {
      auto isWrong = [](StringAttr text) {
        return llvm::json::isUTF8(text.getValue()) ? WalkResult::advance() : WalkResult::interrupt();
      };
      if (list && list.walk(isWrong).wasInterrupted())
        return function.emitError("has a name that is not UTF-8");
    }
  }
  return success();
}
