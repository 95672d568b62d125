#ifndef DIVISI_PASSES_LAYOUT
#define DIVISI_PASSES_LAYOUT

include "mlir/Pass/PassBase.td"

def ChannelsLastPass : Pass<"channels-last", "::mlir::ModuleOp"> {
  let summary = "Makes convolutions work on channels-last tensors and keeps tensors so between them";
  let description = [{
    Input: @loss, before differentiation (so that the gradients have the same layout). Every graph.conv gets `channels_last` and a
    transpose before and after it. Transposes then move down through operations that have the layout interface, until they meet
    their inverse. A transpose of the first input and one before a flattening remain. The CPU's convolution library reads
    channels-last tensors directly, where it would copy others, and statistics per channel vectorize. For GPUs it is done where
    tensor cores compute, whose kernels would transpose other images before and after each convolution, and nearly all elements
    have a number of channels that 8 divides; transposed convolutions (graph.conv_input_grad) and concatenations are turned as well.
  }];
  let options = [
    Option<"forGpu", "for-gpu", "bool", "false", "convolutions and transposed ones of 16 bits, and of fp32 with narrow">,
    Option<"narrow", "narrow", "bool", "false", "fp32 is computed in fewer bits">,
  ];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def BatchFirstPass : Pass<"batch-first", "::mlir::ModuleOp"> {
  let summary = "Keeps the batch in front where reshapes merge it behind another dimension";
  let description = [{
    Input: @loss, before differentiation (so that gradients have the same order). A reshape from [steps, batch, ..] to
    [steps * batch, ..], as exporters write it for nn.MultiheadAttention, has the batch as the minor part of a dimension, which
    no split over devices or microbatches reaches. The reshape then counts [batch, steps], and so do the operations that follow
    and treat all indices of the dimension alike (by their sharding rules), until a reshape takes the dimension apart again.
    What does not depend on the inputs and is repeated for each sample (learned queries) has the batch where it is repeated.
    Transposes are left only where the order is needed; those around attention meet their inverse.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

#endif
