#ifndef DIVISI_DIALECTS_GRAPH_INDEXING
#define DIVISI_DIALECTS_GRAPH_INDEXING

include "dialects/Graph/Attributes.td"

// Indices are int64, not negative, and in range: the importer normalizes negative ones, the runtime checks inputs. Code
// generation clamps reads and drops writes that are out of range, so that no index can touch foreign memory.

class Graph_GatherFamily<string mnemonic> : Graph_InferredOp<mnemonic, [CostInterface]> {
  string range = " An index that is out of range reads the nearest element.";
  let results = (outs AnyRankedTensor:$result);
  code gathers = inferred # "bool readsPart() { return true; }";
  let extraClassDeclaration = gathers;
}
class Graph_ScatterFamily<string mnemonic>
    : Graph_Op<mnemonic, [CostInterface, AllTypesMatch<["x", "result"]>, AllElementTypesMatch<["x", "updates"]>]> {
  string range = " Updates whose index is out of range are dropped.";
  string inOrder = " Updates are applied in row-major order; `combine(old, new)` is new, old + new, old * new, max or min.";
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  code serial = [{ ::divisi::graph::Form getForm() { return ::divisi::graph::Form::serial; } }];
  let extraClassDeclaration = serial;
}

def Graph_GatherOp : Graph_GatherFamily<"gather"> {
  let summary = "slices of x along a dimension (embedding look-up)";
  let semantics = [{
    `result[a.., i.., c..] = x[a.., indices[i..], c..]`, where a runs over the dimensions before `dim`.}] # range;
  let tensors = [{
    `x`: [a.., n, c..] of any element type, `indices`: [i..] of i64, `result`: [a.., i.., c..]. `dim`: that of n.}];
  let constraints = [{
    1. `dim` is a dimension of x.
    2. The result is [a.., i.., c..] of x's element type.}];
  let example = [{
    %rows = graph.gather %table, %ids {dim = 0 : i64} : (tensor<50257x768xf32>, tensor<8x128xi64>) -> tensor<8x128x768xf32>}];
  let insertedBy = [{
    the importer (Gather, Compress, Pad, Resize, Attention, weights of losses), the gradient of graph.scatter_add,
    split-microbatches and partition (a device's piece)}];
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, I64Attr:$dim);
  let extraClassDeclaration = gathers # [{ ::mlir::Value makeLocal(::divisi::dist::LocalContext &context); }];
}

def Graph_ScatterAddOp : Graph_ScatterFamily<"scatter_add"> {
  let summary = "adds slices of updates to slices of x along a dimension: the gradient of graph.gather";
  let semantics = [{
    `result[a.., r, c..] = x[a.., r, c..] + sum over i.. with indices[i..] = r of updates[a.., i.., c..]`.}] # range;
  let tensors = [{
    `x` and `result`: [a.., n, c..], numbers. `indices`: [i..] of i64. `updates`: [a.., i.., c..] of x's element type.
    `dim`: that of n.}];
  let constraints = [{
    1. `dim` is a dimension of x.
    2. `updates` is [a.., i.., c..].
    3. The result has x's type, `updates` its element type.}];
  let example = [{
    %y = graph.scatter_add %x, %i, %u {dim = 0 : i64} : (tensor<4x6xf32>, tensor<3xi64>, tensor<3x6xf32>) -> tensor<4x6xf32>}];
  let insertedBy = "make-train (the gradient of graph.gather)";
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, AnyRankedTensor:$updates, I64Attr:$dim);
  let extraClassDeclaration = serial # [{ ::mlir::Value makeLocal(::divisi::dist::LocalContext &context); }];
}

def Graph_GatherElementsOp : Graph_GatherFamily<"gather_elements"> {
  let summary = "result[i] = x[i with i[dim] replaced by indices[i]]";
  let semantics = [{
    `result[a.., i, c..] = x[a.., indices[a.., i, c..], c..]`, where i is the index along `dim`.}] # range;
  let tensors = [{
    `x`: any shape and element type, `indices`: [a.., i, c..] of i64, of x's rank, `result`: its shape. `dim`: that of
    i.}];
  let constraints = [{
    1. `dim` is a dimension of x.
    2. `indices` has x's rank.
    3. But for `dim`, no dimension of `indices` is larger than x's.
    4. The result has the shape of `indices` and x's element type.}];
  let example = [{
    %y = graph.gather_elements %x, %i {dim = 1 : i64} : (tensor<4x6xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>}];
  let insertedBy = [{
    the importer (GatherElements, ReverseSequence, NegativeLogLikelihoodLoss) and by the gradient of
    graph.scatter_elements}];
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, I64Attr:$dim);
}

def Graph_ScatterElementsOp : Graph_ScatterFamily<"scatter_elements"> {
  let summary = "x with the elements at indices (along a dimension) combined with updates, in index order";
  let semantics = [{
    `result = x`, and then for each index, where i is the index along `dim`, `result[a.., indices[a.., i, c..], c..] =
    combine(result[a.., indices[a.., i, c..], c..], updates[a.., i, c..])`.}] # inOrder # range;
  let tensors = [{
    `x` and `result`: one type. `indices`: [a.., i, c..] of i64, of x's rank. `updates`: the shape of `indices` and x's
    element type. `dim`: the dimension that indices are of. `combine`: assign, add, mul, max or min.}];
  let constraints = [{
    1. `dim` is a dimension of x.
    2. `indices` and `updates` have one shape, of x's rank.
    3. But for `dim`, none of their dimensions is larger than x's.
    4. The result has x's type, `updates` its element type.}];
  let example = [{
    %y = graph.scatter_elements %x, %i, %u {dim = 1 : i64, combine = #graph<combine assign>}
      : (tensor<4x6xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x6xf32>}];
  let insertedBy = "the importer (ScatterElements) and by gradients of graph.gather_elements, graph.top_k and its own";
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, AnyRankedTensor:$updates, I64Attr:$dim,
                       Graph_CombineAttr:$combine);
}

def Graph_GatherNdOp : Graph_GatherFamily<"gather_nd"> {
  let summary = "slices of x at index vectors (the last dimension of indices)";
  let semantics = "`result[a.., i.., c..] = x[a.., indices[a.., i.., 0], .., indices[a.., i.., k - 1], c..]`." # range;
  let tensors = [{
    `x`: [a.., n0, .., c..] of any element type, `indices`: [a.., i.., k] of i64, `result`: [a.., i.., c..].
    `batch_dims`: the number of the dimensions a.}];
  let constraints = [{
    1. `batch_dims` is at least 0, less than the rank of `indices`, and at most that of x.
    2. `batch_dims` + k is at most x's rank.
    3. The first `batch_dims` dimensions of `x` and `indices` are equal.
    4. The result is [a.., i.., c..] of x's element type.}];
  let example = [{
    %y = graph.gather_nd %x, %i {batch_dims = 1 : i64} : (tensor<4x6xf32>, tensor<4x3x1xi64>) -> tensor<4x3xf32>}];
  let insertedBy = "the importer (GatherND) and by the gradient of graph.scatter_nd";
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, I64Attr:$batch_dims);
}

def Graph_ScatterNdOp : Graph_ScatterFamily<"scatter_nd"> {
  let summary = "x with the slices at index vectors combined with updates, in index order";
  let semantics = [{
    `result = x`, and then for each index `result[a.., indices[a.., i..], c..] = combine(result[a.., indices[a.., i..],
    c..], updates[a.., i.., c..])`.}] # inOrder # range;
  let tensors = [{
    `x` and `result`: [a.., n0, .., c..], one type. `indices`: [a.., i.., k] of i64. `updates`: [a.., i.., c..] of x's
    element type. `batch_dims`: the number of the dimensions a. `combine`: assign, add, mul, max or min.}];
  let constraints = [{
    1. `batch_dims` is at least 0, less than the rank of `indices`, and at most that of x.
    2. `batch_dims` + k is at most x's rank.
    3. The first `batch_dims` dimensions of `x` and `indices` are equal.
    4. `updates` is [a.., i.., c..].
    5. The result has x's type, `updates` its element type.}];
  let example = [{
    %y = graph.scatter_nd %x, %i, %u {batch_dims = 1 : i64, combine = #graph<combine add>}
      : (tensor<4x6xf32>, tensor<4x3x1xi64>, tensor<4x3xf32>) -> tensor<4x6xf32>}];
  let insertedBy = "the importer (ScatterND) and by gradients of graph.gather_nd and its own";
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, AnyRankedTensor:$updates, I64Attr:$batch_dims,
                       Graph_CombineAttr:$combine);
}

def Graph_CumsumOp : Graph_Op<"cumsum", [CostInterface, AllTypesMatch<["x", "result"]>]> {
  let summary = "running sum along a dimension";
  let semantics = [{
    `result[a.., i, c..] = sum over j <= i of x[a.., j, c..]`, with `exclusive` over `j < i`, with `reverse` over `j >=
    i`, with both over `j > i`.}];
  let tensors = [{
    `x` and `result`: one type, numbers. `dim`: the dimension that i and j count. `exclusive`, `reverse`: as above.}];
  let constraints = [{
    1. `dim` is a dimension of x.
    2. The result has x's type.}];
  let example = [{
    %y = graph.cumsum %x {dim = 1 : i64, exclusive} : (tensor<4x6xf32>) -> tensor<4x6xf32>}];
  let insertedBy = "the importer (CumSum) and by its own gradient";
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$dim, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ ::divisi::graph::Form getForm() { return ::divisi::graph::Form::serial; } }];
}

def Graph_TopKOp : Graph_InferredOp<"top_k", [CostInterface]> {
  let summary = "the k largest (or smallest) along a dimension, sorted, and their indices";
  let semantics = [{
    `values[a.., j, c..] = x[a.., indices[a.., j, c..], c..]`, where `indices[a.., j, c..]` is the index along `dim` of
    the j-th largest element, with `smallest` of the j-th smallest. Of equal elements the one with the smaller index
    comes first; a NaN is larger than every number.}];
  let tensors = [{
    `x`: [a.., n, c..], numbers. `values`: [a.., k, c..] of x's element type, `indices`: [a.., k, c..] of i64. `k`: how
    many. `dim`: that of n. `smallest`: the least come first.}];
  let constraints = [{
    1. `dim` is a dimension of x.
    2. `k` is at least 0 and at most n.
    3. `values` and `indices` are [a.., k, c..], of x's element type and of i64.}];
  let example = [{
    %v, %i = graph.top_k %x {k = 2 : i64, dim = 1 : i64} : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)}];
  let insertedBy = "the importer (TopK)";
  let removedBy = "expand-top-k for GPUs and at most 512 elements, else form-kernels, which makes an exec.call of it";
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$k, I64Attr:$dim, UnitAttr:$smallest);
  let results = (outs AnyRankedTensor:$values, RankedTensorOf<[I64]>:$indices);
  let extraClassDeclaration = inferred # [{ ::divisi::graph::Form getForm() { return ::divisi::graph::Form::call; } }];
}

#endif
