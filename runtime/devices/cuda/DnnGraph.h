//===- DnnGraph.h - graphs of operations for cuDNN --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_DNNGRAPH_H
#define DIVISI_RUNTIME_DEVICES_CUDA_DNNGRAPH_H

#include "runtime/core/Accelerator.h"
#include "runtime/devices/cuda/DnnBackend.h"

#include <array>
#include <list>
#include <memory>
#include <vector>

namespace divisi::runtime::cuda {

/// The device for which plans are made: that of a handle, or one that a descriptor describes and that need not exist.
struct PlanTarget {
  void *handle = nullptr;
  const Descriptor *device = nullptr;
};

/// A graph that can be run.
class GraphPlan {
public:
  /// Adds the graph to the stream of the handle for which it was planned. `memory`: addresses of the tensors in memory,
  /// in the order of their creation. `workspace` has `workspaceBytes`.
  void execute(void *handle, const std::vector<void *> &memory, void *workspace);
  size_t workspaceBytes = 0;

private:
  friend class OperationGraph;
  explicit GraphPlan(const GraphFunctions &dnn) : dnn(dnn) {}

  const GraphFunctions &dnn;
  std::list<Descriptor> descriptors; ///< the last one is the plan
  std::vector<int64_t> memoryIds, numberIds;
  std::vector<float> numbers;
};

/// Which of cuDNN's engines may compute a graph: all, unless something is said. None may add up in fewer bits than F32.
struct EngineChoice {
  bool exact = false;    ///< no operand is rounded: F32 is not multiplied as TF32
  bool ordered = false;  ///< sums in a fixed order are preferred
  size_t mostWorkspace = SIZE_MAX;
};

/// Operations on four-dimensional tensors, computed in F32. Methods throw std::runtime_error for operations that cuDNN
/// refuses.
class OperationGraph {
public:
  using Dims = std::array<int64_t, 4>;
  struct Tensor {
    Element element;
    Dims dims, strides; ///< in elements
    void *object;       ///< the graph's descriptor
  };
  enum class Pointwise { // cudnnPointwiseMode_t
    Add = 0,
    Multiply = 1,
    Divide = 6,
    Subtract = 9,
    Exp = 13,
    Log = 15,
    GreaterOrEqual = 303,
    Index = 501,
    Select = 601,
  };
  enum class Reduction { Add = 0, Max = 3 }; // cudnnReduceTensorOp_t

  explicit OperationGraph(const GraphFunctions &dnn) : dnn(dnn), made(new GraphPlan(dnn)) {}

  /// A tensor whose address, a multiple of 16, is given when the graph runs.
  Tensor memory(Element element, const Dims &dims, const Dims &strides);
  Tensor memory(Element element, const Dims &dims) { return memory(element, dims, packed(dims)); }
  Tensor number(float value);

  /// Matmuls over the last two dimensions.
  void matmul(const Tensor &a, const Tensor &b, const Tensor &result);
  Tensor matmul(const Tensor &a, const Tensor &b);
  /// An operation on one or two operands; the second one is broadcast along dimensions of size 1.
  void pointwise(Pointwise mode, const Tensor &x, const Tensor *y, const Tensor &result);
  Tensor pointwise(Pointwise mode, const Tensor &x, const Tensor *y = nullptr, Element element = Element::F32);
  /// The index of each element of x along a dimension.
  Tensor index(const Tensor &x, int64_t dimension);
  /// The elements of x where `condition` is true, else those of y.
  Tensor select(const Tensor &condition, const Tensor &x, const Tensor &y);
  /// Reduces the last dimension to size 1.
  Tensor reduce(Reduction mode, const Tensor &x);
  /// x with the last two dimensions exchanged.
  Tensor transpose(const Tensor &x, Element element);

  /// The image or filter of a convolution, with one to three spatial dimensions, in memory: its descriptor.
  void *image(Element element, const std::vector<int64_t> &sizes, const std::vector<int64_t> &strides);
  struct Convolution {
    ConvKind kind;
    Element element;                                   ///< F64: it is computed in F64
    std::vector<int64_t> low, high, strides, dilations; ///< low, high: padding with zeros
  };
  /// The operation that computes y, x or w, by its kind, from the others.
  void convolution(const Convolution &how, void *x, void *w, void *y);

  /// Makes a plan without running anything. The graph is empty afterwards. If cuDNN has no plan, the error says that
  /// `what` is impossible.
  std::unique_ptr<GraphPlan> plan(const PlanTarget &target, const char *what, const EngineChoice &choice = {});

  static Dims packed(const Dims &dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }
  static Dims exchanged(const Dims &dims) { return {dims[0], dims[1], dims[3], dims[2]}; }

private:
  void *describe(Element element, size_t rank, const int64_t *dims, const int64_t *strides, int flag);
  Tensor tensor(Element element, const Dims &dims, const Dims &strides, int flag);
  Tensor between(Element element, const Dims &dims);
  void pointwise(Pointwise mode, const Tensor &x, const Tensor *y, const Tensor *condition, const int64_t *axis,
                 const Tensor &result);
  Descriptor &add(int type);
  Descriptor &addOperation(int type);

  const GraphFunctions &dnn;
  std::unique_ptr<GraphPlan> made;
  std::vector<void *> operations;
  int64_t lastId = 0;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_DNNGRAPH_H
