#ifndef DIVISI_DIALECTS_GRAPH_POOLING
#define DIVISI_DIALECTS_GRAPH_POOLING

include "dialects/Graph/GraphBase.td"

// Pooling windows over the dimensions of x: one entry per dimension of x in each attribute (1, 1, 1, 0 where it does not
// pool), so that no operation here knows a layout.
class Graph_PoolOp<string mnemonic> : Graph_Op<mnemonic, [CostInterface]> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_MaxPoolOp : Graph_PoolOp<"max_pool"> {
  let summary = "maximum of each window, and the row-major position of the first maximum within its window";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low);
  let results = (outs AnyRankedTensor:$result, RankedTensorOf<[I32]>:$position);
}

def Graph_MaxPoolGradOp : Graph_PoolOp<"max_pool_grad"> {
  let summary = "gradient of graph.max_pool: each window's gradient goes to its first maximum";
  let arguments = (ins AnyRankedTensor:$gradient, RankedTensorOf<[I32]>:$position, DenseI64ArrayAttr:$window,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low);
  let results = (outs AnyRankedTensor:$result);
  let extraClassDeclaration = [{ bool hasGradient() { return false; } }];
}

def Graph_SumPoolOp : Graph_PoolOp<"sum_pool"> {
  let summary = "sum of each window; elements outside of x count as zero";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_SumPoolGradOp : Graph_PoolOp<"sum_pool_grad"> {
  let summary = "gradient of graph.sum_pool: each element gets the sum of the gradients of the windows that hold it";
  let arguments = (ins AnyRankedTensor:$gradient, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low);
  let results = (outs AnyRankedTensor:$result);
}

#endif
