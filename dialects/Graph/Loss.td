#ifndef DIVISI_DIALECTS_GRAPH_LOSS
#define DIVISI_DIALECTS_GRAPH_LOSS

include "dialects/Graph/GraphBase.td"

def Graph_CrossEntropyOp : Graph_Composite<"cross_entropy", [DeclareOpInterfaceMethods<AccuracyInterface>]> {
  let summary = "negative log-likelihood of integer labels under softmax(logits), for each label";
  let description = [{
    logits: [batch, classes, d..], labels: [batch, d..]. The result has the labels' shape and is zero where a label is out of
    [0, classes), which is how ignored labels and padded rows drop out. Weights, means and sums are ordinary
    operations around it.
  }];
  let arguments = (ins AnyRankedTensor:$logits, RankedTensorOf<[I64]>:$labels);
  let results = (outs AnyRankedTensor:$result);
}

#endif
