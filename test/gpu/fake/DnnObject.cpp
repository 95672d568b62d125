// The objects of cuDNN's backend API.
#include "test/gpu/fake/DnnObject.h"

#include <algorithm>
#include <set>

using namespace fake;

namespace {
constexpr int64_t any = 64;

/// Alpha, beta, the description, w, x and y.
std::vector<Rule> convolutionRules(int first) {
  return {{first, FloatType, 1, 1},
          {first + 1, FloatType, 1, 1},
          {first + 2, ObjectTypeType, 1, 1, {ConvolutionHow}},
          {first + 3, ObjectTypeType, 1, 1, {TensorObject}},
          {first + 4, ObjectTypeType, 1, 1, {TensorObject}},
          {first + 5, ObjectTypeType, 1, 1, {TensorObject}}};
}

std::string problemOfWindows(const Object &o) {
  auto rank = (size_t)o.one<int64_t>(106);
  for (int name : {102, 103, 104, 105})
    for (int64_t value : o.all<int64_t>(name))
      if (o.all<int64_t>(name).size() != rank || value < (name < 104 ? 1 : 0))
        return "strides, dilations or padding that is negative or of another dimension";
  return o.one<int>(101) != 1 ? "a convolution that is no cross-correlation" : "";
}

std::string buildConvolution(Object &o, int first) {
  const Object &how = *o.object(first + 2);
  int precision = how.one<int>(100);
  auto factor = [&](int name) { return precision == Double ? o.one<double>(name) : o.one<float>(name); };
  if ((o.types.at(first) == DoubleType) != (precision == Double) || o.types.at(first) != o.types.at(first + 1))
    return "factors of another type than the sums";
  if (factor(first) != 1 || factor(first + 1) != 0)
    return "a convolution that is scaled or added";
  Tensor w = o.object(first + 3)->tensor, x = o.object(first + 4)->tensor, y = o.object(first + 5)->tensor;
  if (precision != (x.type == Double ? Double : Float))
    return "a convolution that is not added up in single precision, or in double precision";
  o.operation = {o.type, 0, -1, {x, w}, y};
  if (o.type == ConvolutionInputGrad)
    o.operation.inputs = {w, y}, o.operation.result = x;
  else if (o.type == ConvolutionFilterGrad)
    o.operation.inputs = {x, y}, o.operation.result = w;
  o.operation.windows = {how.all<int64_t>(105), how.all<int64_t>(104), how.all<int64_t>(103), how.all<int64_t>(102)};
  return problemOf(o.operation);
}
} // namespace

const std::map<int, std::vector<Rule>> &fake::rules() {
  static const std::map<int, std::vector<Rule>> all = {
      {PointwiseHow, {{0, PointwiseType, 1, 1}, {1, DataTypeType, 1, 1}, {9, IntType, 0, 1}}},
      {ConvolutionHow,
       {{100, DataTypeType, 1, 1},
        {101, ConvolutionType, 1, 1},
        {102, IntType, 2, 3},
        {103, IntType, 2, 3},
        {104, IntType, 2, 3},
        {105, IntType, 2, 3},
        {106, IntType, 1, 1}}},
      {Engine, {}},
      {EngineConfig, {}},
      {ConvolutionForward, convolutionRules(700)},
      {ConvolutionInputGrad, convolutionRules(706)},
      {ConvolutionFilterGrad, convolutionRules(712)},
      {Heuristic, {{200, HeuristicType, 1, 1}, {201, ObjectTypeType, 1, 1, {OperationGraph}}}},
      {Plan, {{400, HandleType, 1, 1}, {401, ObjectTypeType, 1, 1, {EngineConfig}}}},
      {PointwiseOperation,
       {{750, ObjectTypeType, 1, 1, {PointwiseHow}},
        {751, ObjectTypeType, 1, 1, {TensorObject}},
        {752, ObjectTypeType, 0, 1, {TensorObject}},
        {753, ObjectTypeType, 1, 1, {TensorObject}},
        {758, ObjectTypeType, 0, 1, {TensorObject}}}},
      {OperationGraph,
       {{800, HandleType, 1, 1},
        {801,
         ObjectTypeType,
         1,
         any,
         {PointwiseOperation, MatmulOperation, ReductionOperation, ReshapeOperation, ConvolutionForward,
          ConvolutionInputGrad, ConvolutionFilterGrad}}}},
      {VariablePack, {{1000, IntType, 1, any}, {1001, PointerType, 1, any}, {1003, PointerType, 0, 1}}},
      {TensorObject,
       {{900, IntType, 1, 1},
        {901, DataTypeType, 1, 1},
        {902, IntType, 1, 8},
        {903, IntType, 1, 8},
        {906, IntType, 1, 1},
        {907, BoolType, 0, 1},
        {908, BoolType, 0, 1}}},
      {MatmulHow, {{1500, DataTypeType, 1, 1}}},
      {MatmulOperation,
       {{1520, ObjectTypeType, 1, 1, {TensorObject}},
        {1521, ObjectTypeType, 1, 1, {TensorObject}},
        {1522, ObjectTypeType, 1, 1, {TensorObject}},
        {1523, ObjectTypeType, 1, 1, {MatmulHow}}}},
      {ReductionHow, {{1600, ReductionType, 1, 1}, {1601, DataTypeType, 1, 1}}},
      {ReductionOperation,
       {{1610, ObjectTypeType, 1, 1, {TensorObject}},
        {1611, ObjectTypeType, 1, 1, {TensorObject}},
        {1612, ObjectTypeType, 1, 1, {ReductionHow}}}},
      {ReshapeOperation, {{2200, ObjectTypeType, 1, 1, {TensorObject}}, {2201, ObjectTypeType, 1, 1, {TensorObject}}}},
  };
  return all;
}

std::string fake::build(Object &o) {
  switch (o.type) {
  case PointwiseHow: {
    const std::set<int> modes = {Add, Multiply, Divide, Subtract, Exp, Log, Identity, GreaterOrEqual, Index, Select};
    return modes.count(o.one<int>(0)) ? "" : "an unknown pointwise mode";
  }
  case ReductionHow:
    return o.one<int>(1600) != Sum && o.one<int>(1600) != Maximum ? "an unknown reduction"
           : o.one<int>(1601) != Float                            ? "a reduction that is not in single precision"
                                                                  : "";
  case ConvolutionHow:
    return problemOfWindows(o);
  case ConvolutionForward:
    return buildConvolution(o, 700);
  case ConvolutionInputGrad:
    return buildConvolution(o, 706);
  case ConvolutionFilterGrad:
    return buildConvolution(o, 712);
  case MatmulHow:
    return o.one<int>(1500) != Float ? "a product that is not added up in single precision" : "";
  case TensorObject:
    o.tensor = {o.one<int64_t>(906), o.one<int64_t>(900),   o.one<int>(901),      o.all<int64_t>(902),
                o.all<int64_t>(903), o.one<char>(907) != 0, o.one<char>(908) != 0};
    return problemOf(o.tensor);
  case PointwiseOperation:
    o.operation = {o.type, o.object(750)->one<int>(0), o.object(750)->one<int64_t>(9, -1), {}, {}};
    for (int name : {751, 752, 758})
      if (auto *input = o.object(name))
        o.operation.inputs.push_back(input->tensor);
    o.operation.result = o.object(753)->tensor;
    return problemOf(o.operation);
  case MatmulOperation:
    o.operation = {o.type, 0, -1, {o.object(1520)->tensor, o.object(1521)->tensor}, o.object(1522)->tensor};
    return problemOf(o.operation);
  case ReductionOperation:
    o.operation = {o.type, o.object(1612)->one<int>(1600), -1, {o.object(1610)->tensor}, o.object(1611)->tensor};
    return problemOf(o.operation);
  case ReshapeOperation:
    o.operation = {o.type, 0, -1, {o.object(2200)->tensor}, o.object(2201)->tensor};
    return problemOf(o.operation);
  case OperationGraph:
    for (auto &operation : o.objects.at(801)) {
      o.graph.operations.push_back(operation->operation);
      auto bind = [&](const Tensor &t) {
        if (!t.isVirtual)
          o.graph.bound[t.id] = t;
      };
      std::for_each(operation->operation.inputs.begin(), operation->operation.inputs.end(), bind);
      bind(operation->operation.result);
    }
    return problemOf(o.graph);
  case Heuristic:
    o.graph = o.object(201)->graph;
    return o.one<int>(200) == 3 || o.one<int>(200) == 2 ? obstacleOf(o.graph) : "an unknown mode of heuristics";
  case Plan:
    o.graph = o.object(401)->graph;
    return "";
  case VariablePack: {
    auto ids = o.all<int64_t>(1000);
    if (std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size() || ids.size() != o.all<void *>(1001).size())
      return "tensors that occur twice, or another number of addresses";
    return "";
  }
  default:
    return "configurations come from heuristics";
  }
}
