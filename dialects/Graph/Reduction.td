#ifndef DIVISI_DIALECTS_GRAPH_REDUCTION
#define DIVISI_DIALECTS_GRAPH_REDUCTION

include "dialects/Graph/GraphBase.td"

class Graph_Reduction<string mnemonic, string text> : Graph_InferredOp<mnemonic, [CostInterface]> {
  let summary = text;
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs AnyRankedTensor:$result);
}
def Graph_ReduceSumOp : Graph_Reduction<"reduce_sum", "sum over dims, which the result lacks">;
def Graph_ReduceMaxOp : Graph_Reduction<"reduce_max", "maximum over dims, which the result lacks">;
def Graph_ReduceMinOp : Graph_Reduction<"reduce_min", "minimum over dims, which the result lacks">;
def Graph_ReduceProdOp : Graph_Reduction<"reduce_prod", "product over dims, which the result lacks">;

def Graph_AccumulateOp : Graph_InferredOp<"accumulate", [CostInterface]> {
  let summary = "sum over the microbatches of a step";
  let description = [{
    In a function with `graph.microbatches`, what depends on the scalar `microbatch` is computed once for each, and the rest once a
    step; this is the way from the former to the latter. Inserted by split-microbatches, or by make-train for asynchronous schedules (where
    it sums one minibatch), removed by split-tasks.
  }];
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$result);
}

class Graph_ArgReduction<string mnemonic, string text> : Graph_InferredOp<mnemonic, [CostInterface]> {
  let summary = text;
  let description = [{ Of equal values the first counts, with `last` the last. The result lacks the dimension. }];
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$dim, UnitAttr:$last);
  let results = (outs RankedTensorOf<[I64]>:$result);
}
def Graph_ArgMaxOp : Graph_ArgReduction<"argmax", "index of the maximum along a dimension">;
def Graph_ArgMinOp : Graph_ArgReduction<"argmin", "index of the minimum along a dimension">;

#endif
