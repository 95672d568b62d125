#include "runtime/devices/cuda/DnnGraph.h"

#include <algorithm>
#include <cassert>
#include <optional>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
// Values of cuDNN's enumerations (cudnn_graph.h).
// cudnnBackendDescriptorType_t
constexpr int pointwiseObject = 0, convolutionObject = 1, engineObject = 2, configObject = 3, heuristicObject = 4,
              planObject = 5, forwardOperation = 10, filterGradOperation = 11, inputGradOperation = 12,
              pointwiseOperation = 13, graphObject = 15, variablesObject = 16, tensorObject = 17, matmulObject = 18, matmulOperation = 19,
              reductionObject = 21, reductionOperation = 22, reshapeOperation = 31;
// cudnnBackendAttributeName_t
constexpr int pointwiseMode = 0, pointwisePrecision = 1, pointwiseAxis = 9;
constexpr int convolutionPrecision = 100, convolutionMode = 101, convolutionDilations = 102, convolutionStrides = 103,
              convolutionHigh = 104, convolutionLow = 105, convolutionRank = 106;
constexpr int heuristicMode = 200, heuristicGraph = 201, heuristicResults = 202, heuristicDevice = 204;
constexpr int configEngine = 300, engineNotes = 1303;
constexpr int planHandle = 400, planConfig = 401, planWorkspace = 402, planDevice = 407;
constexpr int pointwiseHow = 750, pointwiseX = 751, pointwiseB = 752, pointwiseY = 753, pointwiseT = 758;
constexpr int graphHandle = 800, graphOperations = 801;
constexpr int tensorAlignment = 900, tensorElement = 901, tensorDims = 902, tensorStrides = 903, tensorId = 906,
              tensorVirtual = 907, tensorByValue = 908;
constexpr int variableIds = 1000, variablePointers = 1001, variableWorkspace = 1003;
constexpr int matmulPrecision = 1500, matmulA = 1520, matmulB = 1521, matmulC = 1522, matmulHow = 1523;
constexpr int reductionMode = 1600, reductionPrecision = 1601, reductionX = 1610, reductionY = 1611,
              reductionHow = 1612;
constexpr int reshapeX = 2200, reshapeY = 2201;

constexpr int heuristics[] = {3, 2};                                                   // cudnnBackendHeurMode_t: A, fallback
constexpr int tensorCore = 0, roundsInputs = 1, reducedPrecision = 2, noFixedOrder = 4; // cudnnBackendNumericalNote_t
constexpr int mostConfigs = 16, mostNotes = 32, notSupported = 3000;
constexpr int64_t alignedBytes = 16;
constexpr int crossCorrelation = 1; // cudnnConvolutionMode_t

using Dims = OperationGraph::Dims;

/// The attributes of a convolution's operation.
struct ConvolutionNames {
  int operation, alpha, beta, how, w, x, y;
};
constexpr ConvolutionNames convolutionNames[] = { // by ConvKind
    {forwardOperation, 700, 701, 702, 703, 704, 705},
    {inputGradOperation, 706, 707, 708, 709, 710, 711},
    {filterGradOperation, 712, 713, 714, 715, 716, 717},
};

/// What is said of the numbers of a configuration's engine.
std::vector<int> notesOf(const GraphFunctions &dnn, void *config, const char *what) {
  Descriptor engine(dnn, engineObject);
  void *object = engine.get();
  int64_t count = 0;
  dnn.check(dnn.get(config, configEngine, Descriptor::objectType, 1, &count, &object), what);
  std::vector<int> notes(mostNotes);
  dnn.check(dnn.get(object, engineNotes, Descriptor::noteType, mostNotes, &count, notes.data()), what);
  notes.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, mostNotes)));
  return notes;
}
} // namespace

void GraphPlan::execute(void *handle, const std::vector<void *> &memory, void *workspace) {
  assert(memory.size() == memoryIds.size());
  std::vector<int64_t> ids = memoryIds;
  ids.insert(ids.end(), numberIds.begin(), numberIds.end());
  std::vector<void *> pointers = memory;
  for (float &number : numbers)
    pointers.push_back(&number);
  auto count = static_cast<int64_t>(ids.size());
  Descriptor variables(dnn, variablesObject);
  variables.set(variableIds, Descriptor::integerType, count, ids.data());
  variables.set(variablePointers, Descriptor::pointerType, count, pointers.data());
  variables.set(variableWorkspace, Descriptor::pointerType, 1, &workspace);
  variables.finish("bind a graph's tensors");
  dnn.check(dnn.execute(handle, descriptors.back().get(), variables.get()), "run a graph");
}

Descriptor &OperationGraph::add(int type) { return made->descriptors.emplace_back(dnn, type); }

Descriptor &OperationGraph::addOperation(int type) {
  Descriptor &operation = add(type);
  operations.push_back(operation.get());
  return operation;
}

void *OperationGraph::describe(Element element, size_t rank, const int64_t *dims, const int64_t *strides, int flag) {
  Descriptor &tensor = add(tensorObject);
  tensor.setElement(tensorElement, element);
  tensor.set(tensorDims, Descriptor::integerType, static_cast<int64_t>(rank), dims);
  tensor.set(tensorStrides, Descriptor::integerType, static_cast<int64_t>(rank), strides);
  tensor.setInteger(tensorId, ++lastId);
  tensor.setInteger(tensorAlignment, alignedBytes);
  if (flag)
    tensor.setFlag(flag);
  tensor.finish("describe a tensor");
  return tensor.get();
}

OperationGraph::Tensor OperationGraph::tensor(Element element, const Dims &dims, const Dims &strides, int flag) {
  return {element, dims, strides, describe(element, dims.size(), dims.data(), strides.data(), flag)};
}

void *OperationGraph::image(Element element, const std::vector<int64_t> &sizes, const std::vector<int64_t> &strides) {
  void *object = describe(element, sizes.size(), sizes.data(), strides.data(), 0);
  made->memoryIds.push_back(lastId);
  return object;
}

void OperationGraph::convolution(const Convolution &c, void *x, void *w, void *y) {
  auto rank = static_cast<int64_t>(c.strides.size());
  Descriptor &how = add(convolutionObject);
  how.setElement(convolutionPrecision, c.element == Element::F64 ? Element::F64 : Element::F32);
  how.set(convolutionMode, Descriptor::convolutionType, 1, &crossCorrelation);
  how.setInteger(convolutionRank, rank);
  how.set(convolutionLow, Descriptor::integerType, rank, c.low.data());
  how.set(convolutionHigh, Descriptor::integerType, rank, c.high.data());
  how.set(convolutionStrides, Descriptor::integerType, rank, c.strides.data());
  how.set(convolutionDilations, Descriptor::integerType, rank, c.dilations.data());
  how.finish("describe a convolution");
  const ConvolutionNames &names = convolutionNames[static_cast<size_t>(c.kind)];
  Descriptor &operation = addOperation(names.operation);
  auto factor = [&](int name, double value) {
    auto single = static_cast<float>(value);
    if (c.element == Element::F64)
      operation.set(name, Descriptor::doubleType, 1, &value);
    else
      operation.set(name, Descriptor::floatType, 1, &single);
  };
  factor(names.alpha, 1);
  factor(names.beta, 0);
  operation.setObject(names.how, how.get());
  operation.setObject(names.w, w);
  operation.setObject(names.x, x);
  operation.setObject(names.y, y);
  operation.finish("add a convolution to a graph");
}

OperationGraph::Tensor OperationGraph::between(Element element, const Dims &dims) {
  return tensor(element, dims, packed(dims), tensorVirtual);
}

OperationGraph::Tensor OperationGraph::memory(Element element, const Dims &dims, const Dims &strides) {
  Tensor result = tensor(element, dims, strides, 0);
  made->memoryIds.push_back(lastId);
  return result;
}

OperationGraph::Tensor OperationGraph::number(float value) {
  Tensor result = tensor(Element::F32, {1, 1, 1, 1}, {1, 1, 1, 1}, tensorByValue);
  made->numberIds.push_back(lastId);
  made->numbers.push_back(value);
  return result;
}

void OperationGraph::matmul(const Tensor &a, const Tensor &b, const Tensor &result) {
  Descriptor &how = add(matmulObject);
  how.setElement(matmulPrecision, Element::F32);
  how.finish("describe a product");
  Descriptor &operation = addOperation(matmulOperation);
  operation.setObject(matmulA, a.object);
  operation.setObject(matmulB, b.object);
  operation.setObject(matmulC, result.object);
  operation.setObject(matmulHow, how.get());
  operation.finish("add a product to a graph");
}

OperationGraph::Tensor OperationGraph::matmul(const Tensor &a, const Tensor &b) {
  Tensor result = between(Element::F32, {a.dims[0], a.dims[1], a.dims[2], b.dims[3]});
  matmul(a, b, result);
  return result;
}

void OperationGraph::pointwise(Pointwise mode, const Tensor &x, const Tensor *y, const Tensor *condition,
                               const int64_t *axis, const Tensor &result) {
  Descriptor &how = add(pointwiseObject);
  how.set(pointwiseMode, Descriptor::pointwiseType, 1, &mode);
  how.setElement(pointwisePrecision, result.element == Element::Bool ? Element::Bool : Element::F32);
  if (axis)
    how.setInteger(pointwiseAxis, *axis);
  how.finish("describe a pointwise operation");
  Descriptor &operation = addOperation(pointwiseOperation);
  operation.setObject(pointwiseHow, how.get());
  operation.setObject(pointwiseX, x.object);
  if (y)
    operation.setObject(pointwiseB, y->object);
  if (condition)
    operation.setObject(pointwiseT, condition->object);
  operation.setObject(pointwiseY, result.object);
  operation.finish("add a pointwise operation to a graph");
}

void OperationGraph::pointwise(Pointwise mode, const Tensor &x, const Tensor *y, const Tensor &result) {
  pointwise(mode, x, y, nullptr, nullptr, result);
}

OperationGraph::Tensor OperationGraph::pointwise(Pointwise mode, const Tensor &x, const Tensor *y, Element element) {
  Tensor result = between(element, x.dims);
  pointwise(mode, x, y, result);
  return result;
}

OperationGraph::Tensor OperationGraph::index(const Tensor &x, int64_t dimension) {
  Tensor result = between(Element::I32, x.dims);
  pointwise(Pointwise::Index, x, nullptr, nullptr, &dimension, result);
  return result;
}

OperationGraph::Tensor OperationGraph::select(const Tensor &condition, const Tensor &x, const Tensor &y) {
  Tensor result = between(x.element, x.dims);
  pointwise(Pointwise::Select, x, &y, &condition, nullptr, result);
  return result;
}

OperationGraph::Tensor OperationGraph::reduce(Reduction mode, const Tensor &x) {
  Tensor result = between(Element::F32, {x.dims[0], x.dims[1], x.dims[2], 1});
  Descriptor &how = add(reductionObject);
  how.set(reductionMode, Descriptor::reductionType, 1, &mode);
  how.setElement(reductionPrecision, Element::F32);
  how.finish("describe a reduction");
  Descriptor &operation = addOperation(reductionOperation);
  operation.setObject(reductionX, x.object);
  operation.setObject(reductionY, result.object);
  operation.setObject(reductionHow, how.get());
  operation.finish("add a reduction to a graph");
  return result;
}

OperationGraph::Tensor OperationGraph::transpose(const Tensor &x, Element element) {
  Tensor result = tensor(element, exchanged(x.dims), exchanged(x.strides), tensorVirtual);
  Descriptor &operation = addOperation(reshapeOperation);
  operation.setObject(reshapeX, x.object);
  operation.setObject(reshapeY, result.object);
  operation.finish("add a transposition to a graph");
  return result;
}

std::unique_ptr<GraphPlan> OperationGraph::plan(const PlanTarget &target, const char *what, const EngineChoice &choice) {
  Descriptor &graph = add(graphObject);
  if (target.handle)
    graph.set(graphHandle, Descriptor::handleType, 1, &target.handle);
  graph.set(graphOperations, Descriptor::objectType, static_cast<int64_t>(operations.size()), operations.data());
  graph.finish(what);

  int status = notSupported;
  std::optional<Descriptor> unordered;
  int64_t unorderedBytes = 0;
  auto done = [&](Descriptor &&plan, int64_t bytes) {
    made->workspaceBytes = static_cast<size_t>(bytes);
    made->descriptors.push_back(std::move(plan));
    return std::move(made);
  };
  for (int mode : heuristics) {
    Descriptor &heuristic = add(heuristicObject);
    heuristic.setObject(heuristicGraph, graph.get());
    heuristic.set(heuristicMode, Descriptor::heuristicType, 1, &mode);
    if (target.device)
      heuristic.setObject(heuristicDevice, target.device->get());
    if (int refused = dnn.finalize(heuristic.get()); refused != 0) {
      status = refused;
      continue;
    }
    std::vector<void *> configs; // to be filled in
    for (int i = 0; i < mostConfigs; ++i)
      configs.push_back(add(configObject).get());
    int64_t count = 0;
    dnn.check(dnn.get(heuristic.get(), heuristicResults, Descriptor::objectType, mostConfigs, &count, configs.data()),
              what);
    for (int64_t i = 0; i < std::min<int64_t>(count, mostConfigs); ++i) { // the fastest first
      void *config = configs[static_cast<size_t>(i)];
      std::vector<int> notes = notesOf(dnn, config, what);
      auto has = [&](int note) { return std::find(notes.begin(), notes.end(), note) != notes.end(); };
      bool later = choice.ordered && has(noFixedOrder);
      if (has(reducedPrecision) || (choice.exact && (has(tensorCore) || has(roundsInputs))) || (later && unordered))
        continue;
      Descriptor plan(dnn, planObject);
      if (target.handle)
        plan.set(planHandle, Descriptor::handleType, 1, &target.handle);
      if (target.device)
        plan.setObject(planDevice, target.device->get());
      plan.setObject(planConfig, config);
      if (int refused = dnn.finalize(plan.get()); refused != 0) {
        status = refused;
        continue;
      }
      int64_t bytes = 0, one = 0;
      dnn.check(dnn.get(plan.get(), planWorkspace, Descriptor::integerType, 1, &one, &bytes), what);
      if (static_cast<size_t>(bytes) > choice.mostWorkspace)
        continue;
      if (!later)
        return done(std::move(plan), bytes);
      unordered.emplace(std::move(plan));
      unorderedBytes = bytes;
    }
  }
  if (unordered)
    return done(std::move(*unordered), unorderedBytes);
  dnn.check(status, what);
  return nullptr;
}
