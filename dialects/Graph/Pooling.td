#ifndef DIVISI_DIALECTS_GRAPH_POOLING
#define DIVISI_DIALECTS_GRAPH_POOLING

include "dialects/Graph/GraphBase.td"

// Pooling windows over the dimensions of x: one entry per dimension of x in each attribute (1, 1, 1, 0 where it does not
// pool), so that no operation here knows a layout. `small` and `large` name the tensor with an element for each window and
// the one that windows are over.
class Graph_PoolOp<string mnemonic, string large, string small, list<Trait> traits>
    : Graph_Op<mnemonic, !listconcat([CostInterface], traits)> {
  string attributes = [{
    `window`: elements of a window, `strides`: between windows, `dilations`: between the elements of a window, `pads_low`: elements
    before the first of `}] # large # [{`; each has an entry for each dimension, and 1, 1, 1 and 0 where nothing is pooled.}];
  string common = [{
    1. `}] # large # "` and `" # small # [{` have one rank.
    2. `window`, `strides`, `dilations` and `pads_low` have an entry for each dimension.
    3. Entries of `window`, `strides` and `dilations` are positive, those of `pads_low` are not negative; none is larger than 2^30.
    4. `}] # small # [{` has no empty dimension, and its last window begins inside of `}] # large # "`.";
  string windows = [{ {window = array<i64: 1, 1, 3, 2>, strides = array<i64: 1, 1, 2, 2>, dilations = array<i64: 1, 1, 1, 1>,
      pads_low = array<i64: 0, 0, 1, 0>} }];
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  code reduction = [{
    ::divisi::graph::Form getForm() { return ::divisi::graph::Form::reduction; }
    /// By dimension: the elements of x or, of a gradient, the windows that are visited for each element of the result.
    ::llvm::SmallVector<int64_t> getVisited();
    int64_t getFlops();
  }];
  let extraClassDeclaration = reduction;
}

def Graph_MaxPoolOp : Graph_PoolOp<"max_pool", "x", "result", [AllElementTypesMatch<["x", "result"]>]> {
  let summary = "maximum of each window, and the row-major position of the first maximum within its window";
  let semantics = [{
    `result[p..] = max over k.. in [0, window) of x[strides * p + dilations * k - pads_low]`, of the elements that x
    has. NaN is the maximum of a window that has one. `position[p..]` is
    the row-major number of the first such k.., and -1 if x has no element there.}];
  let tensors = "`x`: [d..], numbers. `result`: [p..] of x's element type. `position`: [p..] of i32." # attributes;
  let constraints = common # [{
    5. `result` and `position` have one shape.
    6. `result` has x's element type.}];
  let example = [{
    %y, %at = graph.max_pool %x}] # windows # [{
      : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>)}];
  let insertedBy = "the importer (MaxPool)";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low);
  let results = (outs AnyRankedTensor:$result, RankedTensorOf<[I32]>:$position);
}

def Graph_MaxPoolGradOp : Graph_PoolOp<"max_pool_grad", "result", "gradient", [AllElementTypesMatch<["gradient", "result"]>]> {
  let summary = "gradient of graph.max_pool: each window's gradient goes to its first maximum";
  let semantics = [{
    `result[q..] = sum over p.., k.. with strides * p + dilations * k - pads_low = q and position[p..] = number(k..) of
    gradient[p..]`, where number is the row-major number within a window.}];
  let tensors = [{
    `gradient`: [p..], that of graph.max_pool's `result`. `position`: [p..] of i32, its second result. `result`: [d..]
    of the gradient's element type.}] # attributes;
  let constraints = common # [{
    5. `gradient` and `position` have one shape.
    6. `result` has the gradient's element type.}];
  let example = [{
    %dx = graph.max_pool_grad %dy, %at}] # windows # [{
      : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>) -> tensor<2x4x8x8xf32>}];
  let insertedBy = "make-train (the gradient of graph.max_pool)";
  let arguments = (ins AnyRankedTensor:$gradient, RankedTensorOf<[I32]>:$position, DenseI64ArrayAttr:$window,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low);
  let results = (outs AnyRankedTensor:$result);
  let extraClassDeclaration = reduction # [{ bool hasGradient() { return false; } }];
}

def Graph_SumPoolOp : Graph_PoolOp<"sum_pool", "x", "result", [AllElementTypesMatch<["x", "result"]>]> {
  let summary = "sum of each window; elements outside of x count as zero";
  let semantics = [{
    `result[p..] = sum over k.. in [0, window) of x[strides * p + dilations * k - pads_low]`, where x is zero outside of
    its shape.}];
  let tensors = "`x`: [d..], numbers. `result`: [p..] of x's element type." # attributes;
  let constraints = common # [{
    5. `result` has x's element type.}];
  let example = [{
    %y = graph.sum_pool %x}] # windows # [{: (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>}];
  let insertedBy = "the importer (AveragePool, LpPool, LRN) and by the gradient of graph.sum_pool_grad";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_SumPoolGradOp : Graph_PoolOp<"sum_pool_grad", "result", "gradient", [AllElementTypesMatch<["gradient", "result"]>]> {
  let summary = "gradient of graph.sum_pool: each element gets the sum of the gradients of the windows that hold it";
  let semantics = [{
    `result[q..] = sum over p.., k.. with strides * p + dilations * k - pads_low = q of gradient[p..]`.}];
  let tensors = [{
    `gradient`: [p..], that of graph.sum_pool's `result`. `result`: [d..] of the gradient's element type.}] # attributes;
  let constraints = common # [{
    5. `result` has the gradient's element type.}];
  let example = [{
    %dx = graph.sum_pool_grad %dy}] # windows # [{: (tensor<2x4x4x4xf32>) -> tensor<2x4x8x8xf32>}];
  let insertedBy = "make-train (the gradient of graph.sum_pool)";
  let arguments = (ins AnyRankedTensor:$gradient, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low);
  let results = (outs AnyRankedTensor:$result);
}

#endif
