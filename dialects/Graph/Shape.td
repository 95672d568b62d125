#ifndef DIVISI_DIALECTS_GRAPH_SHAPE
#define DIVISI_DIALECTS_GRAPH_SHAPE

include "dialects/Graph/GraphBase.td"

def Graph_ConstantOp : Graph_Op<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>, CostInterface]> {
  let summary = "a constant tensor";
  let semantics = "`result[i..] = value[i..]`.";
  let tensors = "`result`: the type of `value`. `value`: the elements.";
  let constraints = [{
    1. The result has the type of `value`.}];
  let example = [{
    %c = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>}];
  let insertedBy = "the importer (Constant, initializers that do not train), folding, gradients and decompositions";
  let removedBy = [{
    form-kernels where all elements are equal, which copies it into each exec.kernel; others stay, and code generation
    writes them into the program}];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    ::divisi::graph::Form getForm() { return ::divisi::graph::Form::constant; }
    ::mlir::Value makeLocal(::divisi::dist::LocalContext &context);
    void growResult(unsigned result, ::mlir::RankedTensorType type);
  }];
}

def Graph_IotaOp : Graph_Op<"iota", [CostInterface]> {
  let summary = "the index along a dimension";
  let semantics = "`result[i..] = i[dim]`, converted to the element type.";
  let tensors = "`result`: any shape, numbers. `dim`: the dimension whose index is written.";
  let constraints = [{
    1. `dim` is a dimension of the result.}];
  let example = [{
    %i = graph.iota {dim = 1 : i64} : tensor<4x6xi64>}];
  let insertedBy = [{
    the importer (Range, EyeLike, OneHot, Trilu, Attention, Hardmax, losses), decompositions of cross_entropy and
    attention, partition (a device's piece) and expand-top-k}];
  let arguments = (ins I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ ::mlir::Value makeLocal(::divisi::dist::LocalContext &context); }];
}

def Graph_BroadcastOp : Graph_Op<"broadcast", [CostInterface]> {
  let summary = "repeats a tensor along new or unit dimensions";
  let semantics = "`result[i..] = x[j..]` with `j[d] = i[dims[d]]`, or 0 where dimension d of x has the size 1.";
  let tensors = [{
    `x` and `result`: one element type. `dims`: dimension d of x becomes dimension `dims[d]` of the result; along the
    dimensions that it does not name the result repeats x.}];
  let constraints = [{
    1. `dims` has an entry for each dimension of x.
    2. `dims` are dimensions of the result and increase.
    3. Each dimension of x has the size of the result's, or 1.
    4. The result has x's element type.}];
  let example = [{
    %y = graph.broadcast %x {dims = array<i64: 1, 2>} : (tensor<6x1xf32>) -> tensor<4x6x5xf32>}];
  let insertedBy = "the importer (Expand, and wherever ONNX broadcasts), gradients of reductions, and decompositions";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_ReshapeOp : Graph_Op<"reshape", [CostInterface]> {
  let summary = "the same elements in row-major order under another shape";
  let semantics = [{
    `result[i..] = x[j..]`, where i.. and j.. have the same row-major number. With `barrier` (also of the same shape) it
    is never folded: what is computed from the result stays apart from what is computed from x.}];
  let tensors = "`x` and `result`: any shapes, one element type. `barrier`: it is not folded.";
  let constraints = [{
    1. `x` and `result` have the same number of elements.
    2. The result has x's element type.}];
  let example = [{
    %y = graph.reshape %x : (tensor<8x6xf32>) -> tensor<4x12xf32>}];
  let insertedBy = [{
    the importer (Reshape, Flatten, Squeeze, Unsqueeze), gradients, decompositions, split-reductions, and with `barrier`
    by rematerialize}];
  let removedBy = [{
    folding, and form-kernels, which drops barriers and moves it into an exec.kernel unless it is a view of a whole
    buffer; a view stays, and assign-buffers gives it the place of x}];
  let arguments = (ins AnyRankedTensor:$x, UnitAttr:$barrier);
  let results = (outs AnyRankedTensor:$result);
  let extraClassDeclaration = [{ ::divisi::graph::Form getForm() { return ::divisi::graph::Form::view; } }];
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_TransposeOp : Graph_InferredOp<"transpose", [CostInterface]> {
  let summary = "result dimension i is operand dimension permutation[i]";
  let semantics = "`result[i..] = x[j..]` with `j[permutation[d]] = i[d]`.";
  let tensors = "`x` and `result`: one element type. `permutation`: for each dimension of the result, the dimension of x.";
  let constraints = [{
    1. `permutation` names each dimension of x once.
    2. The result has the permuted shape and x's element type.}];
  let example = [{
    %y = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x6xf32>) -> tensor<2x6x4xf32>}];
  let insertedBy = [{
    the importer (Transpose, Einsum, Attention), channels-last, form-attention, its own gradient and decompositions of
    attention}];
  let removedBy = "folding, channels-last, form-attention, and form-kernels, which moves it into an exec.kernel";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
  let hasFolder = 1;
}

// x lies in a larger tensor, element i of a dimension at start + i * step.
class Graph_WindowOp<string mnemonic, string inner, string outer, string starts>
    : Graph_Op<mnemonic, [CostInterface, AllElementTypesMatch<["x", "result"]>]> {
  let constraints = [{
    1. `x` and `result` have one rank, and `}] # starts # [{` and `steps` have an entry for each dimension.
    2. No step is 0.
    3. In each dimension `}] # starts # [{ + i * steps` is an index of `}] # outer # [{` for each index i of `}] # inner # [{`.
    4. `x` and `result` have one element type.}];
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_SliceOp : Graph_WindowOp<"slice", "result", "x", "starts"> {
  let summary = "result[i] = x[start + i * step] in every dimension; steps may be negative";
  let semantics = "`result[i..] = x[starts + i * steps]` in each dimension.";
  let tensors = [{
    `x` and `result`: one rank and element type. `starts`: the index of the first element. `steps`: between elements;
    negative ones reverse.}];
  let example = [{
    %y = graph.slice %x {starts = array<i64: 0, 3, 1>, steps = array<i64: 1, -1, 2>} : (tensor<2x4x6xf32>) -> tensor<2x4x3xf32>}];
  let insertedBy = [{
    the importer (Slice, Split, CenterCropPad), gradients of graph.pad and graph.concat, and by partition (borders of
    convolutions)}];
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps);
  let extraClassDeclaration = "bool readsPart() { return true; }";
  let hasFolder = 1;
}

def Graph_PadOp : Graph_WindowOp<"pad", "x", "result", "low"> {
  let summary = "places x at low + i * step in a larger tensor of `value`";
  let semantics = [{
    `result[low + i * steps] = x[i..]` in each dimension, and `value` elsewhere. With value 0 it is the gradient of
    graph.slice.}];
  let tensors = [{
    `x` and `result`: one rank and element type. `low`: where the first element of x goes. `steps`: between elements.
    `value`: that of the other elements.}];
  let example = [{
    %y = graph.pad %x {low = array<i64: 0, 0, 1>, steps = array<i64: 1, 1, 2>, value = 0.0 : f64} : (tensor<2x4x6xf32>)
      -> tensor<2x4x13xf32>}];
  let insertedBy = [{
    the importer (Pad, CenterCropPad, Attention), the gradient of graph.slice, plan (padding) and partition (borders of
    convolutions)}];
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$steps, F64Attr:$value);
}

def Graph_ConcatOp : Graph_InferredOp<"concat", [CostInterface]> {
  let summary = "joins tensors along a dimension";
  let semantics = [{
    `result[a.., o_k + i, c..] = inputs_k[a.., i, c..]`, where o_k is the sum of the sizes of the inputs before the
    k-th.}];
  let tensors = "`inputs`: [a.., n_k, c..] of one element type. `result`: [a.., sum of n_k, c..]. `dim`: that of n_k.";
  let constraints = [{
    1. There is at least one input.
    2. `dim` is a dimension of the inputs.
    3. The inputs have one rank and element type.
    4. They differ in no dimension but `dim`.
    5. The result is [a.., sum of n_k, c..] of their element type.}];
  let example = [{
    %z = graph.concat %x, %y {dim = 1 : i64} : (tensor<2x4x6xf32>, tensor<2x3x6xf32>) -> tensor<2x7x6xf32>}];
  let insertedBy = [{
    the importer (Concat, ConcatFromSequence, Attention, RotaryEmbedding) and by partition (borders of convolutions)}];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
}

#endif
