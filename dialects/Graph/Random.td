#ifndef DIVISI_DIALECTS_GRAPH_RANDOM
#define DIVISI_DIALECTS_GRAPH_RANDOM

include "dialects/Graph/GraphBase.td"

def Graph_RandomUniformOp : Graph_Op<"random_uniform", [CostInterface]> {
  let summary = "uniform numbers in [0, 1) from a counter: a function of (seed, step, stream, global element index)";
  let description = [{
    The counter-based generator makes the numbers independent of the plan: whoever computes an element gets the same value.
    The step's randomness is two int64 scalars. A device's piece has the row-major `strides` of the whole tensor and the
    index of its first element there (`offset`, an int64 scalar).
  }];
  let arguments = (ins RankedTensorOf<[I64]>:$seed, RankedTensorOf<[I64]>:$step,
                       Optional<RankedTensorOf<[I64]>>:$offset, I64Attr:$stream,
                       OptionalAttr<DenseI64ArrayAttr>:$strides);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getFlopsPerPoint() { return 20; }
    ::mlir::Value makeLocal(::divisi::dist::LocalContext &context);
    void growResult(unsigned result, ::mlir::RankedTensorType type);
  }];
}

def Graph_DropoutOp : Graph_Composite<"dropout", [AllTypesMatch<["x", "result"]>,
                                                 DeclareOpInterfaceMethods<EvaluationInterface>,
                                                 RandomnessInterface]> {
  let summary = "zero with probability `ratio`, else x / (1 - ratio)";
  let description = [{
    The importer inserts it with `stream` numbering the dropouts of the model, and without randomness; the training step
    supplies it (seed and step), the evaluation replaces the operation by its operand.
  }];
  let arguments = (ins AnyRankedTensor:$x, Variadic<RankedTensorOf<[I64]>>:$randomness, F64Attr:$ratio, I64Attr:$stream);
  let results = (outs AnyRankedTensor:$result);
}

#endif
