#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fake {

/// cudnnHandle_t.
struct DnnHandle {
  void *stream = nullptr;
};

enum DataType { Float = 0, Double = 1, Half = 2, Int32 = 4, Brain = 9, Boolean = 11 }; // cudnnDataType_t
enum ObjectType { // cudnnBackendDescriptorType_t
  PointwiseHow = 0,
  ConvolutionHow = 1,
  Engine = 2,
  EngineConfig = 3,
  Heuristic = 4,
  Plan = 5,
  ConvolutionForward = 10,
  ConvolutionFilterGrad = 11,
  ConvolutionInputGrad = 12,
  PointwiseOperation = 13,
  OperationGraph = 15,
  VariablePack = 16,
  TensorObject = 17,
  MatmulHow = 18,
  MatmulOperation = 19,
  ReductionHow = 21,
  ReductionOperation = 22,
  ReshapeOperation = 31,
};
enum PointwiseMode { // cudnnPointwiseMode_t
  Add = 0,
  Multiply = 1,
  Divide = 6,
  Subtract = 9,
  Exp = 13,
  Log = 15,
  Identity = 21,
  GreaterOrEqual = 303,
  Index = 501,
  Select = 601,
};
enum ReductionMode { Sum = 0, Maximum = 3 }; // cudnnReduceTensorOp_t
enum Note { TensorCore = 0, NoFixedOrder = 4 }; // cudnnBackendNumericalNote_t

struct Tensor {
  int64_t id = 0, alignment = 0;
  int type = Float;
  std::vector<int64_t> dims, strides;
  bool isVirtual = false, byValue = false;

  bool operator==(const Tensor &) const = default;
  int64_t elements() const;
  /// The bytes from the first to the last element in memory, including both.
  int64_t bytes() const;
  /// The offset of an element, which is given by its row-major number.
  int64_t offset(int64_t element) const;
};

/// How windows move, by spatial dimension.
struct Windows {
  std::vector<int64_t> low, high, strides, dilations;
};

struct Operation {
  int type = 0, mode = 0;
  int64_t axis = -1;
  std::vector<Tensor> inputs; ///< x, b, t as far as there are; of a convolution two of x, w, y, in this order
  Tensor result;
  Windows windows = {};

  bool isConvolution() const { return type >= ConvolutionForward && type <= ConvolutionInputGrad; }
  const Tensor &x() const { return type == ConvolutionInputGrad ? result : inputs[0]; }
  const Tensor &w() const {
    return type == ConvolutionFilterGrad ? result : inputs[type == ConvolutionForward ? 1 : 0];
  }
  const Tensor &y() const { return type == ConvolutionForward ? result : inputs[1]; }
};

/// What computes a graph, and what is said of its numbers.
struct EngineOfGraph {
  std::vector<int> notes;
  int64_t workspaceBytes = 0;
  bool has(int note) const;
};

struct Graph {
  std::vector<Operation> operations;
  /// Those that are not virtual.
  std::map<int64_t, Tensor> bound;
  EngineOfGraph engine; ///< of a configuration and a plan

  const Operation *convolution() const { return operations[0].isConvolution() ? &operations[0] : nullptr; }
};

/// An error text; empty if it is valid.
std::string problemOf(const Tensor &tensor);
std::string problemOf(const Operation &operation);
std::string problemOf(const Graph &graph);
/// Why the engines do not support a valid graph; empty if they do.
std::string obstacleOf(const Graph &graph);
/// The engines for a graph, the fastest first; those that heuristics know, or the others.
std::vector<EngineOfGraph> enginesOf(const Graph &graph, bool fallback);

/// Computes all operations, in order, by their definitions. Values are rounded to their tensors' types. An engine of
/// tensor cores multiplies fp32 in TF32.
void interpret(const Graph &graph, const std::map<int64_t, void *> &memory, const std::map<int64_t, double> &numbers);

} // namespace fake
