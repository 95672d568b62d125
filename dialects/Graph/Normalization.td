#ifndef DIVISI_DIALECTS_GRAPH_NORMALIZATION
#define DIVISI_DIALECTS_GRAPH_NORMALIZATION

include "dialects/Graph/GraphBase.td"

class Graph_Normalization<string mnemonic, list<Trait> traits = []>
    : Graph_Composite<mnemonic, !listconcat([AllTypesMatch<["x", "result"]>], traits)> {
  string common = [{
    1. `dim` is a dimension of x.
    2. x has floats.}];
}

class Graph_SoftmaxFamily<string mnemonic, string equation> : Graph_Normalization<mnemonic> {
  let semantics = "`result[a.., i, c..] = " # equation # "`, where m is the largest x[a.., j, c..].";
  let tensors = "`x` and `result`: [a.., n, c..] of one element type, floats. `dim`: that of n, which i and j count.";
  let constraints = common # [{
    3. The result has x's type.}];
  let example = [{
    %y = graph.}] # mnemonic # [{ %x {dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>}];
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_SoftmaxOp : Graph_SoftmaxFamily<"softmax", "e^(x[a.., i, c..] - m) / sum over j of e^(x[a.., j, c..] - m)"> {
  let summary = "exp(x - max) / sum exp(x - max) along a dimension";
  let tensors = [{
    `x` and `result`: [a.., n, c..] of one element type, floats. `dim`: that of n, which i and j count. `safe`: where all
    x[a.., j, c..] are -infinity, the result and the gradient are zero, not NaN (as those of PyTorch's
    scaled_dot_product_attention).}];
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$dim, UnitAttr:$safe);
  let insertedBy = "the importer (Softmax, Attention)";
  let removedBy = "form-attention where it is part of attention, else decompose";
}

def Graph_LogSoftmaxOp
    : Graph_SoftmaxFamily<"log_softmax", "x[a.., i, c..] - m - ln(sum over j of e^(x[a.., j, c..] - m))"> {
  let summary = "logarithm of softmax along a dimension";
  let insertedBy = "the importer (LogSoftmax, SoftmaxCrossEntropyLoss)";
}

def Graph_LayerNormOp : Graph_Normalization<"layer_norm"> {
  let summary = "(x - mean) * rstd * scale + bias over the dimensions from `dim` on";
  let semantics = [{
    `result[a.., d..] = (x[a.., d..] - mean[a..]) / sqrt(variance[a..] + epsilon) * scale[d..] + bias[d..]`, where
    `mean[a..] = sum over d.. of x[a.., d..] / n`, `variance[a..] = sum over d.. of (x[a.., d..] - mean[a..])^2 / n` and
    n is the number of the elements d.. (Ba, Kiros and Hinton, arXiv 1607.06450).}];
  let tensors = [{
    `x` and `result`: [a.., d..] of one element type, floats. `scale` and `bias`: [d..] of that element type. `dim`: the
    first of the dimensions d. `epsilon`: added to the variance.}];
  let constraints = common # [{
    3. `scale` and `bias` have x's element type and its shape from `dim` on.
    4. The result has x's type.}];
  let example = [{
    %y = graph.layer_norm %x, %s, %b {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
      -> tensor<4x6xf32>}];
  let insertedBy = "the importer (LayerNormalization, GroupNormalization, InstanceNormalization)";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$bias, I64Attr:$dim, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_RmsNormOp : Graph_Normalization<"rms_norm"> {
  let summary = "x / sqrt(mean(x^2) + epsilon) * scale over the dimensions from `dim` on";
  let semantics = [{
    `result[a.., d..] = x[a.., d..] / sqrt(sum over d.. of x[a.., d..]^2 / n + epsilon) * scale[d..]`, where n is the
    number of the elements d.. (Zhang and Sennrich, arXiv 1910.07467).}];
  let tensors = [{
    `x` and `result`: [a.., d..] of one element type, floats. `scale`: [d..] of that element type. `dim`: the first of
    the dimensions d. `epsilon`: added to the mean.}];
  let constraints = common # [{
    3. `scale` has x's element type and its shape from `dim` on.
    4. The result has x's type.}];
  let example = [{
    %y = graph.rms_norm %x, %s {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>}];
  let insertedBy = "the importer (RMSNormalization, and what Raise finds of its parts)";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, I64Attr:$dim, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$result);
}

def Graph_BatchNormOp : Graph_Normalization<"batch_norm", [DeclareOpInterfaceMethods<EvaluationInterface>]> {
  let summary = "normalization by the batch's statistics along every dimension but `dim`";
  let semantics = [{
    `result[a.., c, d..] = (x[a.., c, d..] - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c]`, where
    `mean[c] = sum over a.., d.. of x[a.., c, d..] / n`, `variance[c] = sum over a.., d.. of (x[a.., c, d..] -
    mean[c])^2 / n` and n is the number of the elements a.., d.. (Ioffe and Szegedy, arXiv 1502.03167). With `groups`,
    equal parts of the batch are normalized each by its own statistics; the results `mean` and `variance` are then the
    means of theirs. With `sample`, the result `variance` is that of a sample, n / (n - 1) times the one that normalizes, for n > 1. An evaluation normalizes by `running`.}];
  let tensors = [{
    `x` and `result`: [a.., channels, d..] of one element type, floats. `scale`, `bias`, `mean` and `variance`:
    [channels] of that element type. `running`: mean and variance [channels] for an evaluation, or nothing; training
    does not read it. `mean` and `variance` are for the running statistics, and no gradient flows out of them. `dim`:
    that of the channels. `epsilon`: added to the variance. `groups`: the number of parts of the first dimension, 1 if
    it is left out. `sample`: of PyTorch's files.}];
  let constraints = common # [{
    3. `scale`, `bias`, `mean`, `variance` and `running` have x's element type and the shape [channels].
    4. `running` has two tensors or none.
    5. `groups` is at least 1; with more than one, `dim` is not 0 and `groups` divides the first dimension of x.
    6. The result has x's type.}];
  let example = [{
    %y, %mean, %variance = graph.batch_norm %x, %s, %b {dim = 1 : i64, epsilon = 1.0e-5 : f64}
      : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)}];
  let insertedBy = "the importer (BatchNormalization); group-batch-norm adds `groups`";
  let removedBy = "make-evaluate in @evaluate where it has `running`, else decompose";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$bias,
                       Variadic<AnyRankedTensor>:$running, I64Attr:$dim, F64Attr:$epsilon,
                       OptionalAttr<I64Attr>:$groups, UnitAttr:$sample);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$mean, AnyRankedTensor:$variance);
}

#endif
