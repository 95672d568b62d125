// The backend API of the fake cuDNN: objects with attributes, checked when they are set and finalized, from which
// graphs are made, planned and run. DIVISI_FAKE_CUDNN_VERSION sets its version.
#include "test/gpu/fake/DnnObject.h"
#include "test/gpu/fake/Log.h"

#include <algorithm>
#include <cstring>

using namespace fake;

namespace {
constexpr int success = 0, badParam = 2000, notSupported = 3000, failed = 5000;

const Rule *ruleOf(int type, int name) {
  for (const Rule &rule : rules().at(type))
    if (rule.name == name)
      return &rule;
  return nullptr;
}

/// What callers hold: the library's objects own the objects that they are made of.
using Descriptor = std::shared_ptr<Object>;

std::string lastError;
int refuse(int code, const std::string &why) {
  lastError = why;
  record("refused: %s", why.c_str());
  return code;
}

size_t widthOf(int type) {
  return type == BoolType                                                                         ? 1
         : type == IntType || type == HandleType || type == PointerType || type == ObjectTypeType || type == DoubleType ? 8
                                                                                                                        : 4;
}
} // namespace

#define API extern "C" __attribute__((visibility("default")))

API size_t cudnnGetVersion() {
  const char *text = std::getenv("DIVISI_FAKE_CUDNN_VERSION");
  return text ? std::strtoull(text, nullptr, 10) : 91900;
}
API void cudnnGetLastErrorString(char *text, size_t bytes) {
  std::snprintf(text, bytes, "%s", lastError.c_str());
  lastError.clear();
}
API int cudnnBackendCreateDescriptor(int type, Descriptor **descriptor) {
  if (!rules().count(type))
    return refuse(notSupported, "an unknown object");
  *descriptor = new Descriptor(new Object{type});
  return success;
}
API int cudnnBackendDestroyDescriptor(Descriptor *descriptor) {
  delete descriptor;
  return success;
}
API int cudnnBackendSetAttribute(Descriptor *descriptor, int name, int type, int64_t count, const void *values) {
  Object &object = **descriptor;
  const Rule *rule = ruleOf(object.type, name);
  if (object.finished)
    return refuse(badParam, "an attribute of a finished object is set");
  bool isOfType = rule && (rule->type == type || (rule->type == FloatType && type == DoubleType));
  if (!isOfType || count < std::max<int64_t>(1, rule->least) || count > rule->most || !values)
    return refuse(badParam, "an attribute that an object does not have, or of another type or number");
  object.types[name] = type;
  object.values[name].assign((const char *)values, (const char *)values + widthOf(type) * (size_t)count);
  if (type != ObjectTypeType)
    return success;
  object.objects[name].clear();
  for (auto *part : object.all<Descriptor *>(name)) {
    if (!part || !(*part)->finished || std::count(rule->objects.begin(), rule->objects.end(), (*part)->type) == 0)
      return refuse(badParam, "an object of another kind, or one that is not finished");
    object.objects[name].push_back(*part);
  }
  return success;
}
API int cudnnBackendFinalize(Descriptor *descriptor) {
  Object &object = **descriptor;
  for (const Rule &rule : rules().at(object.type))
    if (rule.least > 0 && !object.values.count(rule.name))
      return refuse(badParam, "attribute " + std::to_string(rule.name) + " is missing");
  if (object.finished)
    return refuse(badParam, "an object is finished twice");
  if (std::string problem = build(object); !problem.empty())
    return refuse(object.type == Heuristic ? notSupported : badParam, problem);
  object.finished = true;
  return success;
}
API int cudnnBackendGetAttribute(Descriptor *descriptor, int name, int type, int64_t most, int64_t *count,
                                 void *values) {
  const Object &object = **descriptor;
  if (!object.finished || most < 1)
    return refuse(badParam, "an attribute of an object that is not finished");
  *count = 1;
  if (object.type == Plan && name == 402 && type == IntType) {
    std::memcpy(values, &object.graph.engine.workspaceBytes, 8);
    return success;
  }
  if (object.type == Engine && name == 1303 && type == NoteType) {
    const std::vector<int> &notes = object.graph.engine.notes;
    *count = (int64_t)notes.size();
    std::copy_n(notes.begin(), std::min<int64_t>(most, *count), (int *)values);
    return success;
  }
  /// What the library gives is filled into objects that the caller has made.
  auto fill = [&](int wanted, int64_t number, const Graph &graph) {
    Object &given = **((Descriptor **)values)[number];
    if (given.type != wanted || given.finished)
      return false;
    given.graph = graph;
    given.finished = true;
    return true;
  };
  if (object.type == EngineConfig && name == 300 && type == ObjectTypeType)
    return fill(Engine, 0, object.graph) ? success : refuse(badParam, "no object for an engine");
  if (object.type != Heuristic || name != 202 || type != ObjectTypeType)
    return refuse(notSupported, "an attribute that nobody can ask for");
  std::vector<EngineOfGraph> engines = enginesOf(object.graph, object.one<int>(200) == 2);
  *count = (int64_t)engines.size();
  for (int64_t i = 0; i < std::min(most, *count); ++i) {
    Graph graph = object.graph;
    graph.engine = engines[(size_t)i];
    if (!fill(EngineConfig, i, graph))
      return refuse(badParam, "no object for a configuration");
  }
  return success;
}
/// Whether an engine without a fixed order computes what another one could.
static bool isUnordered(const Graph &graph) {
  if (!graph.engine.has(NoFixedOrder))
    return false;
  for (bool fallback : {false, true})
    for (const EngineOfGraph &other : enginesOf(graph, fallback))
      if (!other.has(NoFixedOrder))
        return true;
  return false;
}
/// The work's line in the log.
static std::string nameOf(const Graph &graph) {
  const Operation *o = graph.convolution();
  if (!o)
    return "operations " + std::to_string(graph.operations.size());
  auto image = [](const Tensor &t) { return std::to_string(t.dims[0]) + "x" + std::to_string(t.dims[1]); };
  const char *kind = o->type == ConvolutionForward     ? "conv "
                     : o->type == ConvolutionInputGrad ? "conv_input_grad "
                                                       : "conv_filter_grad ";
  return kind + image(o->x()) + " -> " + image(o->y());
}
/// What makes a graph another one than those that were used before.
static std::string shapeOf(const Graph &graph) {
  std::string text = nameOf(graph) + " in " + std::to_string(graph.engine.workspaceBytes);
  if (const Operation *o = graph.convolution())
    for (const Tensor *t : {&o->x(), &o->w(), &o->y()})
      for (int64_t dim : t->dims)
        text += " " + std::to_string(dim);
  return text;
}
API int cudnnBackendExecute(DnnHandle *handle, Descriptor *plan, Descriptor *variables) {
  if (!handle || (*plan)->type != Plan || !(*plan)->finished || (*variables)->type != VariablePack ||
      !(*variables)->finished || handle != (*plan)->one<DnnHandle *>(400))
    return refuse(badParam, "no plan and tensors for this handle");
  Graph graph = (*plan)->graph;
  auto ids = (*variables)->all<int64_t>(1000);
  auto pointers = (*variables)->all<void *>(1001);
  std::map<int64_t, void *> memory;
  std::map<int64_t, double> numbers;
  for (size_t i = 0; i < ids.size(); ++i) {
    auto it = graph.bound.find(ids[i]);
    if (it == graph.bound.end() || !pointers[i])
      return refuse(badParam, "a tensor that the graph does not have, or without an address");
    const Tensor &tensor = it->second;
    bool onDevice = isOnDevice(pointers[i], tensor.byValue ? 1 : (size_t)tensor.bytes());
    if (tensor.byValue == onDevice || (!tensor.byValue && (uintptr_t)pointers[i] % (size_t)tensor.alignment != 0))
      return refuse(badParam, "a tensor on the wrong side, not within its memory, or not aligned");
    memory[ids[i]] = pointers[i];
    if (tensor.byValue)
      numbers[ids[i]] = *(const float *)pointers[i];
  }
  if (memory.size() != graph.bound.size())
    return refuse(badParam, "a tensor without an address");
  auto *workspace = (*variables)->one<char *>(1003);
  auto bytes = (size_t)graph.engine.workspaceBytes;
  if (bytes > 0 && ((uintptr_t)workspace % 256 != 0 || !isOnDevice(workspace, bytes)))
    return refuse(badParam, "a workspace that is too small or not aligned");
  for (auto &[id, tensor] : graph.bound)
    if (auto *at = (char *)memory[id]; at < workspace + bytes && workspace < at + tensor.bytes())
      return refuse(badParam, "a tensor within the workspace");
  if (isUnordered(graph))
    return refuse(badParam, "sums without a fixed order, although there is an engine that has one");
  noteFirstUse(shapeOf(graph));
  record("%s workspace %zu", nameOf(graph).c_str(), bytes);
  return enqueueOn(
      handle->stream,
      [=] {
        std::memset(workspace, 0xA5, bytes); // its contents are lost
        interpret(graph, memory, numbers);
        return success;
      },
      failed);
}
