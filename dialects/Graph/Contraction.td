#ifndef DIVISI_DIALECTS_GRAPH_CONTRACTION
#define DIVISI_DIALECTS_GRAPH_CONTRACTION

include "dialects/Graph/Attributes.td"

def Graph_MatmulOp : Graph_InferredOp<"matmul", [CostInterface]> {
  let summary = "matrix product with any number of leading batch dimensions";
  let description = [{
    (b.. m k), (b.. k n) -> (b.. m n); `transpose_lhs` and `transpose_rhs` swap the last two dimensions of an operand. Batch
    dimensions are equal (broadcasting is explicit). Products of 16 bits are summed in f32. With `tf32`
    a device may round operands in f32 to TF32 first.

    ```mlir
    %h = graph.matmul %x, %w {transpose_rhs} : (tensor<256x784xf32>, tensor<1024x784xf32>) -> tensor<256x1024xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs,
                       UnitAttr:$tf32);
  let results = (outs AnyRankedTensor:$result);
  let extraClassDeclaration = inferred # [{
    int64_t getFlopsPerPoint() { return 2; }
    int64_t getWorkspaceBytes();
  }];
}

def Graph_MatmulEpilogueOp
    : Graph_Op<"matmul_epilogue", [CostInterface, DeclareOpInterfaceMethods<DecomposeInterface>]> {
  let summary = "matrix product with what follows it, as GPUs' libraries compute both in one call";
  let description = [{
    x = op(lhs) op(rhs), summed in f32 (f64 for f64), and then, by `epilogue`:

    - bias, relu, gelu (its tanh approximation): result = f(x + `operand`), where the operand is a bias [n]; relu and gelu may be
      without one. A second result is what the gradient needs: of gelu its argument [m, n], of relu bits [m, n / 8] that
      say where it was positive (n is a multiple of 128), in the library's own order.
    - relu_grad, gelu_grad: result = x * f'(.), where `operand` is that second result. A second result is the sum [n] of the
      result's rows: the gradient of a bias.
    - sum_lhs, sum_rhs: result = x; the second result is op(lhs) summed along the contracted dimension [m], or op(rhs) [n].

    fuse-epilogues makes it, where a step is already divided. f64 is decomposed.

    ```mlir
    %y, %saved = graph.matmul_epilogue gelu %x, %w, %bias {transpose_rhs} : (tensor<256x64xbf16>, tensor<128x64xbf16>, tensor<128xbf16>)
      -> (tensor<256x128xbf16>, tensor<256x128xbf16>)
    ```
  }];
  let arguments = (ins Graph_EpilogueAttr:$epilogue, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs,
                       Optional<AnyRankedTensor>:$operand, UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs, UnitAttr:$tf32);
  let results = (outs AnyRankedTensor:$result, Optional<AnyRankedTensor>:$second);
  let assemblyFormat = "$epilogue operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool hasGradient() { return false; }
    int64_t getFlopsPerPoint() { return 2; }
    int64_t getWorkspaceBytes();
    bool isGradient() { return getEpilogue() == Epilogue::relu_grad || getEpilogue() == Epilogue::gelu_grad; }
    bool sumsOperand() { return getEpilogue() == Epilogue::sum_lhs || getEpilogue() == Epilogue::sum_rhs; }
  }];
}

// Convolutions over s spatial dimensions. x is [batch, channels, s..] or, with `channels_last`, [batch, s.., channels];
// the filter is always [out_channels, in_channels / groups, s..]. `tf32` as for graph.matmul.
class Graph_ConvOp_<string mnemonic, list<Trait> traits = []> : Graph_Op<mnemonic, !listconcat(traits, [CostInterface])> {
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  code flops = [{
    int64_t getFlopsPerPoint() { return 2; }
    int64_t getFlops();
    int64_t getWorkspaceBytes();
    ::mlir::Value makeLocal(::divisi::dist::LocalContext &context);
  }];
  let extraClassDeclaration = flops;
}

def Graph_ConvOp : Graph_ConvOp_<"conv"> {
  let summary = "convolution (cross-correlation)";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$filter, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low, DenseI64ArrayAttr:$pads_high,
                       I64Attr:$groups, UnitAttr:$channels_last, UnitAttr:$tf32);
}
def Graph_ConvInputGradOp : Graph_ConvOp_<"conv_input_grad"> {
  let summary = "gradient of graph.conv with respect to x; also transposed convolution";
  let arguments = (ins AnyRankedTensor:$gradient, AnyRankedTensor:$filter, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low, DenseI64ArrayAttr:$pads_high,
                       I64Attr:$groups, UnitAttr:$channels_last, UnitAttr:$tf32);
}
def Graph_ConvFilterGradOp : Graph_ConvOp_<"conv_filter_grad"> {
  let summary = "gradient of graph.conv with respect to the filter";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$gradient, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads_low, DenseI64ArrayAttr:$pads_high,
                       I64Attr:$groups, UnitAttr:$channels_last, UnitAttr:$tf32);
}

#endif
