#ifndef DIVISI_DIALECTS_GRAPH_ATTENTION
#define DIVISI_DIALECTS_GRAPH_ATTENTION

include "dialects/Graph/GraphBase.td"

// Libraries have it for numbers of 16 bits; others are decomposed.
class Graph_AttentionOp_<string mnemonic>
    : Graph_Op<mnemonic, [CostInterface, DeclareOpInterfaceMethods<DecomposeInterface>]> {
  string attention = [{
    1. `q` and `k` have four dimensions, `q` of floats.
    2. `k` has q's batch, heads and depth.
    3. `v` has k's type and `result` q's; `k` has q's element type.
    4. `stats` is [batch, heads, queries] in f32 (f64 for f64).
    5. `bias` has four dimensions, the last of them keys, and the element type of `stats`; each other dimension is 1 or that of the
       scores.}];
  let removedBy = "decompose, or for numbers of 16 bits form-kernels, which makes an exec.call of it";
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_AttentionOp : Graph_AttentionOp_<"attention"> {
  let summary = "softmax(scale * q k^T + bias) v for each head, without its scores in memory";
  let semantics = [{
    With the scores `S[b, h, s, t] = scale * sum over d of q[b, s, h, d] * k[b, t, h, d] + bias[b, h, s, t]`, and with
    `causal` `S[b, h, s, t] = -infinity` where `t > s`: `stats[b, h, s] = ln(sum over t of e^S[b, h, s, t])` and
    `result[b, s, h, d] = sum over t of e^(S[b, h, s, t] - stats[b, h, s]) * v[b, t, h, d]`. The gradient recomputes the
    scores from `stats` (Dao et al., arXiv 2205.14135). Scores, sums, bias and stats are in f32 (f64 for f64); the
    weights are rounded to v's type.}];
  let tensors = [{
    `q` and `result`: [batch, queries, heads, depth], floats. `k` and `v`: [batch, keys, heads, depth]. `bias`: [batch
    or 1, heads or 1, queries or 1, keys]; no gradient flows into it. `stats`: [batch, heads, queries]; no gradient
    flows out of it. `scale`: a factor of the scores. `causal`: a query sees the keys up to its own index.}];
  let constraints = attention;
  let example = [{
    %o, %s = graph.attention %q, %k, %v {causal, scale = 1.250000e-01 : f64} : (tensor<8x128x12x64xbf16>, tensor<8x128x12x64xbf16>,
      tensor<8x128x12x64xbf16>) -> (tensor<8x128x12x64xbf16>, tensor<8x12x128xf32>)}];
  let insertedBy = "form-attention, in 16 bits";
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v, Optional<AnyRankedTensor>:$bias,
                       F64Attr:$scale, UnitAttr:$causal);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$stats);
  let extraClassDeclaration = [{
    int64_t getFlopsPerPoint() { return getCausal() ? 2 : 4; }
    int64_t getModelFlops() { return ::divisi::graph::flopsFromRule(*this) / getFlopsPerPoint() * 4; }
    ::divisi::graph::Form getForm() { return ::divisi::graph::Form::attention; }
    ::divisi::graph::Workspace getLibraryWorkspace() { return {.fixed = 1024}; }
    ::mlir::Value makeLocal(::divisi::dist::LocalContext &context);
  }];
}

def Graph_AttentionGradOp : Graph_AttentionOp_<"attention_grad"> {
  let summary = "gradients of graph.attention with respect to q, k and v";
  let semantics = [{
    With graph.attention's scores S and its weights `P = e^(S - stats)`: `dS[b, h, s, t] = scale * P[b, h, s, t] * sum
    over d of gradient[b, s, h, d] * (v[b, t, h, d] - result[b, s, h, d])`, `dq[b, s, h, d] = sum over t of dS[b, h, s,
    t] * k[b, t, h, d]`, `dk[b, t, h, d] = sum over s of dS[b, h, s, t] * q[b, s, h, d]` and `dv[b, t, h, d] = sum over
    s of P[b, h, s, t] * gradient[b, s, h, d]`.}];
  let tensors = [{
    `q`, `k`, `v`, `bias`, `scale` and `causal` are those of graph.attention, `result` and `stats` its results.
    `gradient`: that of `result`, [batch, queries, heads, depth]. `dq`, `dk` and `dv`: like `q`, `k` and `v`.}];
  let constraints = attention # [{
    6. `gradient` and `dq` have q's type, `dk` k's and `dv` v's.}];
  let example = [{
    %dq, %dk, %dv = graph.attention_grad %q, %k, %v, %o, %s, %g {scale = 0.5 : f64} : (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>,
      tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x4x6xf32>, tensor<2x6x4x8xf32>)
      -> (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>)}];
  let insertedBy = "make-train (the gradient of graph.attention)";
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v, Optional<AnyRankedTensor>:$bias,
                       AnyRankedTensor:$result, AnyRankedTensor:$stats, AnyRankedTensor:$gradient, F64Attr:$scale,
                       UnitAttr:$causal);
  let results = (outs AnyRankedTensor:$dq, AnyRankedTensor:$dk, AnyRankedTensor:$dv);
  let extraClassDeclaration = [{
    bool hasGradient() { return false; }
    int64_t getFlopsPerPoint() { return getCausal() ? 5 : 10; }
    int64_t getModelFlops() { return ::divisi::graph::flopsFromRule(*this) / getFlopsPerPoint() * 8; }
    ::divisi::graph::Form getForm() { return ::divisi::graph::Form::attention; }
    ::divisi::graph::Workspace getLibraryWorkspace();
    ::mlir::Value makeLocal(::divisi::dist::LocalContext &context);
  }];
}

#endif
