#ifndef DIVISI_DIALECTS_GRAPH_ATTENTION
#define DIVISI_DIALECTS_GRAPH_ATTENTION

include "dialects/Graph/GraphBase.td"

// Libraries have it for numbers of 16 bits; others are decomposed.
class Graph_AttentionOp_<string mnemonic>
    : Graph_Op<mnemonic, [CostInterface, DeclareOpInterfaceMethods<DecomposeInterface>]> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_AttentionOp : Graph_AttentionOp_<"attention"> {
  let summary = "softmax(scale * q k^T + bias) v for each head, without its scores in memory";
  let description = [{
    q: [batch, queries, heads, depth]; k and v: [batch, keys, heads, depth]; bias: [batch or 1, heads or 1, queries or 1, keys], of
    which no gradient is made. `causal`: a query sees the keys up to its own index. `stats`, [batch, heads, queries], is the
    logarithm of the sum of the scores' exponentials, from which the gradient computes the scores again (Dao et al., arXiv
    2205.14135). Scores, sums, bias and stats are in f32 (f64 for f64); what meets v is rounded to v's type.
    form-attention makes it, for devices whose libraries have it.

    ```mlir
    %o, %s = graph.attention %q, %k, %v {causal, scale = 1.250000e-01 : f64} : (tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>,
      tensor<8x128x12x64xbf16>) -> (tensor<8x128x12x64xbf16>, tensor<8x12x128xf32>)
    ```
  }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v, Optional<AnyRankedTensor>:$bias,
                       F64Attr:$scale, UnitAttr:$causal);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$stats);
  let extraClassDeclaration = [{
    int64_t getFlopsPerPoint() { return getCausal() ? 2 : 4; }
    int64_t getWorkspaceBytes() { return 1024; }
  }];
}

def Graph_AttentionGradOp : Graph_AttentionOp_<"attention_grad"> {
  let summary = "gradients of graph.attention with respect to q, k and v";
  let description = [{ `result` and `stats` are those of the operation, `gradient` that of its result. }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v, Optional<AnyRankedTensor>:$bias,
                       AnyRankedTensor:$result, AnyRankedTensor:$stats, AnyRankedTensor:$gradient, F64Attr:$scale,
                       UnitAttr:$causal);
  let results = (outs AnyRankedTensor:$dq, AnyRankedTensor:$dk, AnyRankedTensor:$dv);
  let extraClassDeclaration = [{
    bool hasGradient() { return false; }
    int64_t getFlopsPerPoint() { return getCausal() ? 5 : 10; }
    int64_t getWorkspaceBytes();
  }];
}

#endif
