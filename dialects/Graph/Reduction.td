#ifndef DIVISI_DIALECTS_GRAPH_REDUCTION
#define DIVISI_DIALECTS_GRAPH_REDUCTION

include "dialects/Graph/GraphBase.td"

class Graph_Reduction<string mnemonic, string text, string equation, string from>
    : Graph_InferredOp<mnemonic, [CostInterface]> {
  let summary = text;
  let semantics = "`result[i..] = " # equation # "`, where j runs over the dimensions `dims`, which the result lacks.";
  let tensors = [{
    `x`: any shape, numbers. `result`: x's shape without `dims`, of its element type. `dims`: what is reduced.}];
  let constraints = [{
    1. `dims` are dimensions of x, each named once.
    2. The result has x's shape without `dims` and its element type.}];
  let example = [{
    %y = graph.}] # mnemonic # [{ %x {dims = array<i64: 0, 2>} : (tensor<4x6x5xf32>) -> tensor<6xf32>}];
  let insertedBy = from;
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs AnyRankedTensor:$result);
  let extraClassDeclaration = inferred # [{ ::divisi::graph::Form getForm() { return ::divisi::graph::Form::reduction; } }];
}
def Graph_ReduceSumOp : Graph_Reduction<"reduce_sum", "sum over dims, which the result lacks",
    "sum over j.. of x[i.., j..]", [{the importer (ReduceSum and its kin, losses, Einsum), gradients (of graph.broadcast and of
    parameters), decompositions, make-train (norms of gradients) and split-reductions}]> {
  let removedBy = "fuse-epilogues where a matmul computes it, and form-kernels, which moves it into an exec.kernel";
}
def Graph_ReduceMaxOp : Graph_Reduction<"reduce_max", "maximum over dims, which the result lacks; NaN if any is",
    "max over j.. of x[i.., j..]", [{the importer (ReduceMax, ReduceLogSumExp, GlobalMaxPool, checks of indices), decompositions of
    softmax, cross_entropy and attention, split-reductions and expand-top-k}]>;
def Graph_ReduceMinOp : Graph_Reduction<"reduce_min", "minimum over dims, which the result lacks; NaN if any is",
    "min over j.. of x[i.., j..]", "the importer (ReduceMin), gradients of extrema and split-reductions">;
def Graph_ReduceProdOp : Graph_Reduction<"reduce_prod", "product over dims, which the result lacks",
    "product over j.. of x[i.., j..]", "the importer (ReduceProd) and by its own gradient">;

def Graph_AccumulateOp : Graph_InferredOp<"accumulate", [CostInterface]> {
  let summary = "sum over the microbatches of a step";
  let semantics = [{
    `result[i..] = sum over microbatches m of x_m[i..]`, or with the attribute `combine` their maximum or minimum. In a
    function with `graph.microbatches`, what depends on the scalar `microbatch` is computed once for each microbatch,
    and the rest once a step; this operation is the way from the former to the latter. In an asynchronous schedule a
    step has one microbatch, and `result = x`.}];
  let tensors = [{
    `x` and `result`: one type, numbers. The discardable attribute `combine` is max or min; without it, the sum is
    meant.}];
  let constraints = [{
    1. The result has x's type.}];
  let example = [{
    %sum = graph.accumulate %x : (tensor<4x6xf32>) -> tensor<4x6xf32>}];
  let insertedBy = "split-microbatches, and by make-train for asynchronous schedules";
  let removedBy = "split-tasks";
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$result);
  let extraClassDeclaration = inferred # [{ ::divisi::graph::Form getForm() { return ::divisi::graph::Form::call; } }];
}

class Graph_ArgReduction<string mnemonic, string text, string extremum, string from>
    : Graph_InferredOp<mnemonic, [CostInterface]> {
  let summary = text;
  let semantics = "`result[a.., c..] = min {i: x[a.., i, c..] = " # extremum # " over j of x[a.., j, c..]}`, with `last` the "
                  "largest such i. If there is a NaN, the result is the index of the first one.";
  let tensors = [{
    `x`: [a.., n, c..], numbers. `result`: [a.., c..] of i64. `dim`: that of n, which i and j count. `last`: the last of
    equal elements counts.}];
  let constraints = [{
    1. `dim` is a dimension of x.
    2. The result has x's shape without `dim` and the element type i64.}];
  let example = [{
    %i = graph.}] # mnemonic # [{ %x {dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4xi64>}];
  let insertedBy = from;
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$dim, UnitAttr:$last);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let extraClassDeclaration = inferred # [{ ::divisi::graph::Form getForm() { return ::divisi::graph::Form::scan; } }];
}
def Graph_ArgMaxOp : Graph_ArgReduction<"argmax", "index of the maximum along a dimension", "max",
    "the importer (ArgMax, Hardmax), and make-train and make-evaluate (accuracy)">;
def Graph_ArgMinOp : Graph_ArgReduction<"argmin", "index of the minimum along a dimension", "min", "the importer (ArgMin)">;

#endif
