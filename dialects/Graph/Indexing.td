#ifndef DIVISI_DIALECTS_GRAPH_INDEXING
#define DIVISI_DIALECTS_GRAPH_INDEXING

include "dialects/Graph/Attributes.td"

// Indices are int64, not negative, and in range: the importer normalizes negative ones, the runtime checks inputs. Code
// generation clamps reads and drops writes that are out of range, so that no index can touch foreign memory.

def Graph_GatherOp : Graph_InferredOp<"gather", [CostInterface]> {
  let summary = "rows of x along a dimension (embedding look-up)";
  let description = [{
    result[a.., i.., b..] = x[a.., indices[i..], b..] where a runs over the dimensions before `dim` and b over those
    after it.
  }];
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let extraClassDeclaration = inferred # [{ ::mlir::Value makeLocal(::divisi::dist::LocalContext &context); }];
}

def Graph_ScatterAddOp : Graph_Op<"scatter_add", [CostInterface, AllTypesMatch<["x", "result"]>]> {
  let summary = "adds rows of updates to rows of x along a dimension: the gradient of graph.gather";
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, AnyRankedTensor:$updates, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ ::mlir::Value makeLocal(::divisi::dist::LocalContext &context); }];
}

def Graph_GatherElementsOp : Graph_InferredOp<"gather_elements", [CostInterface]> {
  let summary = "result[i] = x[i with i[dim] replaced by indices[i]]";
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_ScatterElementsOp : Graph_Op<"scatter_elements", [CostInterface, AllTypesMatch<["x", "result"]>]> {
  let summary = "x with the elements at indices (along a dimension) combined with updates, in index order";
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, AnyRankedTensor:$updates, I64Attr:$dim,
                       Graph_CombineAttr:$combine);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_GatherNdOp : Graph_InferredOp<"gather_nd", [CostInterface]> {
  let summary = "slices of x named by index vectors (the last dimension of indices)";
  let description = [{
    With b = `batch_dims` leading dimensions in common and k = the last size of indices: result[a.., i.., c..] =
    x[a.., indices[a.., i..][0..k), c..].
  }];
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, I64Attr:$batch_dims);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_ScatterNdOp : Graph_Op<"scatter_nd", [CostInterface, AllTypesMatch<["x", "result"]>]> {
  let summary = "x with the slices named by index vectors combined with updates, in index order";
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$indices, AnyRankedTensor:$updates, I64Attr:$batch_dims,
                       Graph_CombineAttr:$combine);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_CumsumOp : Graph_Op<"cumsum", [CostInterface, AllTypesMatch<["x", "result"]>]> {
  let summary = "running sum along a dimension";
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$dim, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_TopKOp : Graph_InferredOp<"top_k", [CostInterface]> {
  let summary = "the k largest (or smallest) along a dimension, sorted, and their indices";
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$k, I64Attr:$dim, UnitAttr:$smallest);
  let results = (outs AnyRankedTensor:$values, RankedTensorOf<[I64]>:$indices);
}

#endif
