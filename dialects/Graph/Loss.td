#ifndef DIVISI_DIALECTS_GRAPH_LOSS
#define DIVISI_DIALECTS_GRAPH_LOSS

include "dialects/Graph/GraphBase.td"

def Graph_CrossEntropyOp : Graph_Composite<"cross_entropy", [DeclareOpInterfaceMethods<AccuracyInterface>]> {
  let summary = "negative log-likelihood of integer labels under softmax(logits), for each label";
  let semantics = [{
    `result[b, d..] = ln(sum over c of e^logits[b, c, d..]) - logits[b, labels[b, d..], d..]`, and 0 where the label is
    not in [0, classes), which is how ignored labels and padded rows drop out. Weights, means and sums are operations
    around it.}];
  let tensors = [{
    `logits`: [batch, classes, d..], floats. `labels`: [batch, d..] of i64. `result`: [batch, d..] of the logits'
    element type.}];
  let constraints = [{
    1. `logits` has floats and at least two dimensions.
    2. `labels` and `result` are [batch, d..], `result` of the logits' element type.}];
  let example = [{
    %loss = graph.cross_entropy %logits, %labels : (tensor<32x10xf32>, tensor<32xi64>) -> tensor<32xf32>}];
  let insertedBy = [{
    the importer (SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss of a LogSoftmax, and the loss that
    --loss=cross_entropy adds)}];
  let arguments = (ins AnyRankedTensor:$logits, RankedTensorOf<[I64]>:$labels);
  let results = (outs AnyRankedTensor:$result);
}

#endif
