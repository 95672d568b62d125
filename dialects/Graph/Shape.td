#ifndef DIVISI_DIALECTS_GRAPH_SHAPE
#define DIVISI_DIALECTS_GRAPH_SHAPE

include "dialects/Graph/GraphBase.td"

def Graph_ConstantOp : Graph_Op<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>, CostInterface]> {
  let summary = "a constant tensor";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    ::mlir::Value makeLocal(::divisi::dist::LocalContext &context);
    void growResult(unsigned result, ::mlir::RankedTensorType type);
  }];
}

def Graph_IotaOp : Graph_Op<"iota", [CostInterface]> {
  let summary = "the index along a dimension";
  let arguments = (ins I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ ::mlir::Value makeLocal(::divisi::dist::LocalContext &context); }];
}

def Graph_BroadcastOp : Graph_Op<"broadcast", [CostInterface]> {
  let summary = "repeats a tensor along new or unit dimensions";
  let description = [{
    Operand dimension i becomes result dimension `dims[i]`; operand dimensions of size 1 are repeated, and so are result
    dimensions that no operand dimension names.
  }];
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_ReshapeOp : Graph_Op<"reshape", [CostInterface]> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    With `barrier` (also of the same shape) it is never folded: what is computed from the result stays apart from what is
    computed from the operand.
  }];
  let arguments = (ins AnyRankedTensor:$x, UnitAttr:$barrier);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_TransposeOp : Graph_InferredOp<"transpose", [CostInterface]> {
  let summary = "result dimension i is operand dimension permutation[i]";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
  let hasFolder = 1;
}

def Graph_SliceOp : Graph_Op<"slice", [CostInterface]> {
  let summary = "result[i] = x[start + i * step] in every dimension; steps may be negative";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_PadOp : Graph_Op<"pad", [CostInterface]> {
  let summary = "places x at low + i * step in a larger tensor of `value`";
  let description = [{
    The rest of the result (before `low`, between the steps, after the last element) is `value`. With steps it is the
    gradient of graph.slice.
  }];
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$steps, F64Attr:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_ConcatOp : Graph_InferredOp<"concat", [CostInterface]> {
  let summary = "joins tensors along a dimension";
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
}

#endif
