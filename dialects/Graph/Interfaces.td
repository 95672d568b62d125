#ifndef DIVISI_DIALECTS_GRAPH_INTERFACES
#define DIVISI_DIALECTS_GRAPH_INTERFACES

include "mlir/IR/OpBase.td"

def GradientInterface : OpInterface<"GradientInterface"> {
  let cppNamespace = "::divisi::graph";
  let description = [{
    Facet 2 of an operation: its reverse-mode gradient, as graph operations.
  }];
  let methods = [
    InterfaceMethod<[{
      The gradient of a scalar with respect to each operand, given those with respect to the results (null where none
      flows in). The answer has one entry per operand; null means that none flows back.
    }], "::llvm::SmallVector<::mlir::Value>", "buildGradient",
      (ins "::divisi::graph::GraphBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$gradients)>,
    InterfaceMethod<"Whether there is one: not of operations that only passes behind autodiff make.", "bool", "hasGradient",
      (ins), "", [{ return true; }]>
  ];
}

def CostInterface : OpInterface<"CostInterface"> {
  let cppNamespace = "::divisi::graph";
  let description = [{
    Facet 4 of an operation: its arithmetic and its traffic on one device, and how they come about. Arithmetic and traffic
    follow from the factors of its sharding rule unless the operation says otherwise.
  }];
  let methods = [
    InterfaceMethod<"Floating-point operations per point of the iteration space (the product of all factors).",
      "int64_t", "getFlopsPerPoint", (ins), "", [{ return 1; }]>,
    InterfaceMethod<"Floating-point operations of the whole operation.",
      "int64_t", "getFlops", (ins), "", [{ return ::divisi::graph::flopsFromRule($_op); }]>,
    InterfaceMethod<"Floating-point operations that the model asks for, as MFU counts them: causal attention whole, "
                    "without rematerialization.",
      "int64_t", "getModelFlops", (ins), "", [{ return $_op.getFlops(); }]>,
    InterfaceMethod<"How a program computes the operation.",
      "::divisi::graph::Form", "getForm", (ins), "", [{ return ::divisi::graph::Form::elementwise; }]>,
    InterfaceMethod<"Whether it reads only as much of its first operand as its first result has: slices and gathers.",
      "bool", "readsPart", (ins), "", [{ return false; }]>,
    InterfaceMethod<"What a GPU's library may use beside operands and results while it computes the operation.",
      "::divisi::graph::Workspace", "getLibraryWorkspace", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"Bytes that it reads and writes: of all operands and results, each once; of a kernel, of what only slices and gathers read, "
                    "as many as they take.",
      "int64_t", "getBytes", (ins), "", [{ return ::divisi::graph::bytesOfTypes($_op); }]>
  ];
}

def DecomposeInterface : OpInterface<"DecomposeInterface"> {
  let cppNamespace = "::divisi::graph";
  let description = [{
    Facet 5 of a composite operation (softmax, layer_norm, cross_entropy): its lowering is simpler graph operations. After
    decomposition, common subexpressions of forward and backward merge, so that a gradient recomputes nothing.
  }];
  let methods = [
    InterfaceMethod<"The results, built from simpler operations; none if it has another lowering for its types.",
      "::llvm::SmallVector<::mlir::Value>", "decompose",
      (ins "::divisi::graph::GraphBuilder &":$builder)>
  ];
}

def EvaluationInterface : OpInterface<"EvaluationInterface"> {
  let cppNamespace = "::divisi::graph";
  let description = [{
    An operation that does something else when a model is evaluated than when it is trained (dropout, batch_norm).
  }];
  let methods = [
    InterfaceMethod<"The results in an evaluation; null keeps the operation.", "::llvm::SmallVector<::mlir::Value>",
      "buildEvaluation", (ins "::divisi::graph::GraphBuilder &":$builder)>
  ];
}

def RandomnessInterface : OpInterface<"RandomnessInterface"> {
  let cppNamespace = "::divisi::graph";
  let description = [{
    An operation that draws random numbers, which the training step supplies as two int64 scalars: seed and step.
  }];
  let methods = [
    InterfaceMethod<"Sets seed and step.", "void", "setRandomness", (ins "::mlir::ValueRange":$values), "", [{
        $_op.getRandomnessMutable().assign(values);
      }]>
  ];
}

def AccuracyInterface : OpInterface<"AccuracyInterface"> {
  let cppNamespace = "::divisi::graph";
  let description = [{
    A loss of classification, which knows what a correct answer is.
  }];
  let methods = [
    InterfaceMethod<"Two int64 scalars: the number of correct answers and of answers that count.",
      "std::pair<::mlir::Value, ::mlir::Value>", "buildAccuracy", (ins "::divisi::graph::GraphBuilder &":$builder)>
  ];
}

#endif
