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

enum DataType { Float = 0, Half = 2, Int32 = 4, Brain = 9, Boolean = 11 }; // cudnnDataType_t
enum ObjectType {                                                          // cudnnBackendDescriptorType_t
  PointwiseHow = 0,
  EngineConfig = 3,
  Heuristic = 4,
  Plan = 5,
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

struct Operation {
  int type = 0, mode = 0;
  int64_t axis = -1;
  std::vector<Tensor> inputs; ///< x, b, t as far as there are
  Tensor result;
};

struct Graph {
  std::vector<Operation> operations;
  /// Those that are not virtual.
  std::map<int64_t, Tensor> bound;
  int64_t workspaceBytes = 0;
};

/// An error text; empty if it is valid.
std::string problemOf(const Tensor &tensor);
std::string problemOf(const Operation &operation);
std::string problemOf(const Graph &graph);
/// Why the engines do not support a valid graph; empty if they do.
std::string obstacleOf(const Graph &graph);
int64_t workspaceOf(const Graph &graph);

/// Computes all operations, in order, by their definitions. Values are rounded to their tensors' types.
void interpret(const Graph &graph, const std::map<int64_t, void *> &memory, const std::map<int64_t, double> &numbers);

} // namespace fake
