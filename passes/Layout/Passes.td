#ifndef DIVISI_PASSES_LAYOUT
#define DIVISI_PASSES_LAYOUT

include "mlir/Pass/PassBase.td"

def ChannelsLastPass : Pass<"channels-last", "::mlir::ModuleOp"> {
  let summary = "Makes convolutions work on channels-last tensors and keeps tensors so between them";
  let description = [{
    Input: @loss, before differentiation (so that the gradients have the same layout). Every graph.conv gets `channels_last` and a
    transpose before and after it. Transposes then move down through operations that have the layout interface, until they meet
    their inverse. A transpose of the first input and one before a flattening remain. The CPU's convolution library reads
    channels-last tensors directly, where it would copy others, and statistics per channel vectorize.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

#endif
