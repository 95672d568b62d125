#ifndef DIVISI_DIALECTS_GRAPH_CONTRACTION
#define DIVISI_DIALECTS_GRAPH_CONTRACTION

include "dialects/Graph/Attributes.td"

def Graph_MatmulOp : Graph_InferredOp<"matmul", [CostInterface]> {
  let summary = "matmul with any number of leading batch dimensions";
  let semantics = [{
    `result[b.., i, j] = sum over p of lhs[b.., i, p] * rhs[b.., p, j]`. Numbers of 16 bits are summed in f32 and the
    sum is rounded; other numbers are summed in their own type.}];
  let tensors = [{
    `lhs`: [b.., m, k], or [b.., k, m] with `transpose_lhs`. `rhs`: [b.., k, n], or [b.., n, k] with `transpose_rhs`.
    `result`: [b.., m, n]. All have one element type, floats. Batch dimensions are equal: broadcasting is explicit
    (graph.broadcast). `tf32`: a device may round operands in f32 to TF32 first.}];
  let constraints = [{
    1. `lhs` and `rhs` have one rank, at least 2.
    2. They have one element type.
    3. Their batch dimensions are equal.
    4. Their contracted dimensions (k) have one size.
    5. The result is [b.., m, n] of that element type.}];
  let example = [{
    %h = graph.matmul %x, %w {transpose_rhs} : (tensor<256x784xf32>, tensor<1024x784xf32>) -> tensor<256x1024xf32>}];
  let insertedBy = [{
    the importer (MatMul, Gemm, Einsum, Attention), its own gradient and decompositions of attention; use-tf32 adds
    `tf32`}];
  let removedBy = [{
    form-attention and fuse-epilogues where it is part of what they look for, and form-kernels, which makes an exec.call
    of it}];
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs,
                       UnitAttr:$tf32);
  let results = (outs AnyRankedTensor:$result);
  let extraClassDeclaration = inferred # [{
    int64_t getFlopsPerPoint() { return 2; }
    ::divisi::graph::Form getForm() { return ::divisi::graph::Form::product; }
    ::divisi::graph::Workspace getLibraryWorkspace();
  }];
}

def Graph_MatmulEpilogueOp
    : Graph_Op<"matmul_epilogue", [CostInterface, DeclareOpInterfaceMethods<DecomposeInterface>]> {
  let summary = "matmul with its epilogue, as GPUs' libraries compute both in one call";
  let semantics = [{
    With `x[i, j] = sum over p of lhs[i, p] * rhs[p, j]`, summed in f32 (f64 for f64), by `epilogue`:

    - bias: `result[i, j] = x[i, j] + operand[j]`;
    - relu, gelu: `result[i, j] = f(z[i, j])` with `z[i, j] = x[i, j] + operand[j]`, where f is graph.relu, or
      graph.gelu with `tanh`; of gelu, `second` is z, which its gradient needs;
    - gelu_grad: `result[i, j] = x[i, j] * f'(z[i, j])`, where f is that gelu and `operand` is z;
    - sum_lhs: `result = x` and `second[i] = sum over p of lhs[i, p]`;
    - sum_rhs: `result = x` and `second[j] = sum over p of rhs[p, j]`.}];
  let tensors = [{
    `lhs`, `rhs`, `transpose_lhs`, `transpose_rhs` and `tf32` as for graph.matmul, for matrices of floats. `result`: [m,
    n]. `operand`: [n] for bias, relu and gelu, [m, n] for gelu_grad. `second`: [m, n] for gelu, [m] for sum_lhs, [n]
    for sum_rhs. All have lhs's element type. `epilogue`: one of those above.}];
  let constraints = [{
    1. `lhs` and `rhs` are matrices, `lhs` of floats.
    2. They have one element type, and their contracted dimensions one size.
    3. `result` is [m, n] of that element type.
    4. `operand` has the type above; bias and gelu_grad need it, relu and gelu may lack it, the sums have none.
    5. `second` has the type above; the sums need it, gelu may lack it, the others have none.}];
  let example = [{
    %y, %saved = graph.matmul_epilogue gelu %x, %w, %bias {transpose_rhs} : (tensor<256x64xbf16>, tensor<128x64xbf16>, tensor<128xbf16>)
      -> (tensor<256x128xbf16>, tensor<256x128xbf16>)}];
  let insertedBy = "fuse-epilogues, for GPUs, in a step that is already partitioned";
  let removedBy = "decompose for f64, and form-kernels, which makes an exec.call of it";
  let arguments = (ins Graph_EpilogueAttr:$epilogue, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs,
                       Optional<AnyRankedTensor>:$operand, UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs, UnitAttr:$tf32);
  let results = (outs AnyRankedTensor:$result, Optional<AnyRankedTensor>:$second);
  let assemblyFormat = "$epilogue operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool hasGradient() { return false; }
    int64_t getFlopsPerPoint() { return 2; }
    ::divisi::graph::Form getForm() { return ::divisi::graph::Form::product; }
    ::divisi::graph::Workspace getLibraryWorkspace();
    bool sumsOperand() { return getEpilogue() == Epilogue::sum_lhs || getEpilogue() == Epilogue::sum_rhs; }
  }];
}

// Convolutions over s spatial dimensions. `shapes` says what the three tensors are.
class Graph_ConvOp_<string mnemonic, string shapes, string sample> : Graph_Op<mnemonic, [CostInterface]> {
  let tensors = shapes # [{
    An image is [batch, channels, d..], with `channels_last` [batch, d.., channels]; a filter is always [output
    channels, input channels / groups, d..], with 1 to 3 spatial dimensions d. All have one element type, floats.
    `strides`, `dilations`, `pads_low` and `pads_high` have an entry for each spatial dimension. `groups`: channels are
    divided into as many groups, each of which is convolved alone. `tf32` as for graph.matmul.}];
  let constraints = [{
    With the input x, the output y and the filter f:

    1. x, y and f have one element type.
    2. They have one rank, from 3 to 5.
    3. `strides`, `dilations`, `pads_low` and `pads_high` have an entry for each spatial dimension.
    4. `groups` is at least 1, and the channels of x and y are divisible by it.
    5. f is [channels of y, channels of x / groups, ..].
    6. x and y have one batch size.
    7. Strides and dilations are positive.
    8. Strides, dilations, pads and the sizes of f are at most 2^30 in magnitude.
    9. In each spatial dimension y has `(x + pads_low + pads_high - dilation * (f - 1) - 1) / stride + 1` elements,
       rounded down, and none where the window does not fit.}];
  let example = [{
    %2 = graph.}] # mnemonic # [{ %0, %1 {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
      pads_high = array<i64: 1, 1>, groups = 1 : i64} : }] # sample;
  let removedBy = "form-kernels, which makes an exec.call of it";
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  code flops = [{
    int64_t getFlopsPerPoint() { return 2; }
    ::divisi::graph::Form getForm() { return ::divisi::graph::Form::product; }
    int64_t getFlops();
    ::divisi::graph::Workspace getLibraryWorkspace();
    ::mlir::Value makeLocal(::divisi::dist::LocalContext &context);
  }];
  let extraClassDeclaration = flops;
}

def Graph_ConvOp : Graph_ConvOp_<"conv", "`x`: the input, an image. `filter`: a filter. `result`: the output, an image.",
    "(tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x16x16xf32>"> {
  let summary = "convolution (cross-correlation)";
  let semantics = [{
    `result[b, o, p..] = sum over i, r.. of x[b, i, strides * p + dilations * r - pads_low] * filter[o, i, r..]`, where
    i runs over the input channels of o's group, and x is zero outside of its shape.}];
  let insertedBy = [{
    the importer (Conv) and by gradients of graph.conv_input_grad and graph.conv_filter_grad; channels-last adds
    `channels_last`, use-tf32 `tf32`}];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$filter, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low, DenseI64ArrayAttr:$pads_high,
                       I64Attr:$groups, UnitAttr:$channels_last, UnitAttr:$tf32);
}
def Graph_ConvInputGradOp : Graph_ConvOp_<"conv_input_grad",
    "`gradient`: that of the output, an image. `filter`: a filter. `result`: the gradient of the input, an image.",
    "(tensor<8x16x16x16xf32>, tensor<16x3x3x3xf32>) -> tensor<8x3x32x32xf32>"> {
  let summary = "gradient of graph.conv with respect to x; also transposed convolution";
  let semantics = [{
    `result[b, i, q..] = sum over o, p.., r.. with strides * p + dilations * r - pads_low = q of gradient[b, o, p..] *
    filter[o, i, r..]`, where o runs over the output channels of i's group.}];
  let insertedBy = [{
    the importer (ConvTranspose), make-train (the gradient of graph.conv) and by the gradient of graph.conv_filter_grad}];
  let arguments = (ins AnyRankedTensor:$gradient, AnyRankedTensor:$filter, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low, DenseI64ArrayAttr:$pads_high,
                       I64Attr:$groups, UnitAttr:$channels_last, UnitAttr:$tf32);
}
def Graph_ConvFilterGradOp : Graph_ConvOp_<"conv_filter_grad",
    "`x`: the input, an image. `gradient`: that of the output, an image. `result`: the gradient of the filter.",
    "(tensor<8x3x32x32xf32>, tensor<8x16x16x16xf32>) -> tensor<16x3x3x3xf32>"> {
  let summary = "gradient of graph.conv with respect to the filter";
  let semantics = [{
    `result[o, i, r..] = sum over b, p.. of x[b, i, strides * p + dilations * r - pads_low] * gradient[b, o, p..]`,
    where i counts the input channels of o's group, and x is zero outside of its shape.}];
  let insertedBy = "make-train (the gradients of graph.conv and graph.conv_input_grad)";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$gradient, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low, DenseI64ArrayAttr:$pads_high,
                       I64Attr:$groups, UnitAttr:$channels_last, UnitAttr:$tf32);
}

#endif
