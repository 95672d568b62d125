#ifndef DIVISI_DIALECTS_GRAPH_NORMALIZATION
#define DIVISI_DIALECTS_GRAPH_NORMALIZATION

include "dialects/Graph/GraphBase.td"

def Graph_SoftmaxOp : Graph_Composite<"softmax", [AllTypesMatch<["x", "result"]>]> {
  let summary = "exp(x - max) / sum exp(x - max) along a dimension";
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_LogSoftmaxOp : Graph_Composite<"log_softmax", [AllTypesMatch<["x", "result"]>]> {
  let summary = "logarithm of softmax along a dimension";
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_LayerNormOp : Graph_Composite<"layer_norm", [AllTypesMatch<["x", "result"]>]> {
  let summary = "(x - mean) * rstd * scale + bias over the dimensions from `dim` on";
  let description = [{
    Ba, Kiros and Hinton, arXiv 1607.06450; the variance is the biased one. scale and bias have x's shape from `dim` on.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$bias, I64Attr:$dim, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_RmsNormOp : Graph_Composite<"rms_norm", [AllTypesMatch<["x", "result"]>]> {
  let summary = "x / sqrt(mean(x^2) + epsilon) * scale over the dimensions from `dim` on";
  let description = [{ Zhang and Sennrich, arXiv 1910.07467. }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, I64Attr:$dim, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_BatchNormOp : Graph_Composite<"batch_norm", [AllTypesMatch<["x", "result"]>,
                                                       DeclareOpInterfaceMethods<EvaluationInterface>]> {
  let summary = "normalization by the batch's statistics along every dimension but `dim`";
  let description = [{
    Ioffe and Szegedy, arXiv 1502.03167. `mean` and `variance` (biased) are the batch's, for the running statistics. `running`
    (mean and variance, or nothing) is what an evaluation normalizes by; training does not read it. With `groups` the batch is
    normalized in so many equal parts, each by its own statistics; `mean` and `variance` are then the means of theirs.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$bias,
                       Variadic<AnyRankedTensor>:$running, I64Attr:$dim, F64Attr:$epsilon,
                       OptionalAttr<I64Attr>:$groups);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$mean, AnyRankedTensor:$variance);
}

#endif
