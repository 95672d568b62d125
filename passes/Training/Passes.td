#ifndef DIVISI_PASSES_TRAINING
#define DIVISI_PASSES_TRAINING

include "mlir/Pass/PassBase.td"

def MakeEvaluatePass : Pass<"make-evaluate", "::mlir::ModuleOp"> {
  let summary = "Adds @evaluate: the forward function over the training state, as an evaluation computes it";
  let description = [{
    Input: @loss as the importer writes it. Output: @evaluate beside it, in which operations with the evaluation interface are
    replaced (batch_norm by its running statistics, dropout by its operand), with the loss and, for a classification, the
    numbers of correct answers and of answers that count, and with the metrics that are asked for. Of the model's outputs, those
    that are to be predicted are results that are computed on demand (`graph.result` of the kind `prediction`, with the names
    of the inputs that they depend on). Fails when there is no @loss, or without what a metric is made of.
  }];
  let options = [
    ListOption<"metrics", "metrics", "std::string", "topK (the class is among the K first), perplexity, f1, iou and auc of classes; mae, the mean of |output - label|">,
    Option<"output", "output", "std::string", "", "for mae: the output's name, if several have the label's shape">,
    Option<"label", "label", "std::string", "", "for mae: the label's name">,
    ListOption<"predictions", "predictions", "std::string", "names of outputs with a row for each of the batch">,
    Option<"averages", "averages", "bool", "false", "the averages of the weights (make-train's ema) take the weights' place if the scalar `averaged` is not 0">
  ];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def MakeTrainPass : Pass<"make-train", "::mlir::ModuleOp"> {
  let summary = "Replaces @loss by @train: forward, backward and update over explicit state";
  let description = [{
    Input: @loss. Output: @train. Its arguments are the state (parameters, buffers, optimizer state, step and seed), the inputs
    and the run-time scalars. Its results are the renewed state (`graph.renews`), the loss, and what is computed on demand
    (`graph.result` with `when`: accuracy, gradient norms). With `loss-scaling`, state of the role `scaling` holds the factor
    of the loss, and every renewed state is a select that keeps the old state if a gradient was not finite. With `noise-scale`,
    the square of the gradients' global norm is reported in every step (before clipping), for measure-noise. Fails when no
    parameter is trainable or when the loss depends on none.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"sgd\"", "sgd, adam, adamw, adagrad, rmsprop, lion, lamb, lars, adafactor or muon; those of ONNX files: onnx-momentum, onnx-adagrad or onnx-adam">,
    Option<"momentum", "momentum", "double", "0", "momentum of sgd, rmsprop, lars and muon">,
    Option<"nesterov", "nesterov", "bool", "false", "Nesterov's momentum">,
    Option<"alpha", "alpha", "double", "0.99", "decay of rmsprop's moving averages">,
    Option<"centered", "centered", "bool", "false", "rmsprop divides by the gradient's estimated standard deviation">,
    Option<"beta1", "beta1", "double", "0.9", "decay of the first moment">,
    Option<"beta2", "beta2", "double", "0.999", "decay of the second moment">,
    Option<"eps", "eps", "double", "1e-8", "added to the denominator">,
    Option<"trustCoefficient", "trust-coefficient", "double", "1e-3", "factor of lars's trust ratio">,
    Option<"beta2Decay", "beta2-decay", "double", "0.8", "adafactor: the weight of the squares of step t is t^-X">,
    Option<"matchRms", "match-rms", "bool", "false", "muon: changes as large as those of adamw">,
    Option<"gradientFactor", "gradient-factor", "double", "1", "onnx-momentum: factor of the gradient in all updates but the first">,
    Option<"decayFactor", "decay-factor", "double", "0", "onnx-adagrad: X: the learning rate is divided by 1 + X * updates before">,
    Option<"decayPost", "decay-post", "double", "0", "onnx-adam: share of the new parameter that is taken away">,
    Option<"countsThis", "counts-this", "bool", "false", "the number of updates that ONNX's optimizers get counts the present one, too">,
    ListOption<"byAdamw", "adamw", "std::string", "patterns of parameters that adamw updates in place of muon">,
    Option<"ema", "ema", "double", "0", "share of the average of the weights that stays in each step; 0: there is none">,
    Option<"weightDecay", "weight-decay", "double", "0", "decoupled for adamw, lion, lamb, adafactor and muon, else L2">,
    ListOption<"noDecay", "no-decay", "std::string", "patterns of parameters without weight decay and trust ratio">,
    ListOption<"lrFactors", "lr-factor", "std::string", "PATTERN=FACTOR: factors of the learning rate of parameters">,
    Option<"clipNorm", "clip-norm", "double", "0", "largest global norm of the gradients; 0: no limit">,
    Option<"noiseScale", "noise-scale", "bool", "false", "report the square of the gradients' global norm">,
    Option<"lossScaling", "loss-scaling", "bool", "false", "dynamic loss scaling: a step with a gradient that is not finite is skipped">,
    Option<"markGradients", "mark-gradients", "bool", "false", "graph.accumulate between backward pass and update, for stages that work on the whole batch">,
    Option<"describeRules", "describe-rules", "bool", "false", "optimizer state says how it is used, for asynchronous pipelines that predict weights">
  ];
}

def GroupBatchNormPass : Pass<"group-batch-norm", "::mlir::ModuleOp"> {
  let summary = "Batch normalization with statistics of groups of the batch";
  let description = [{
    Input: @loss. Every graph.batch_norm gets `groups`: devices among which the batch is sharded into as many groups need not
    exchange statistics in the forward and backward pass. This changes the numbers, so it is done only when a user asks for it
    (--batch-norm-stats=local). Fails when the batch does not divide into the groups, and
    where the samples do not lie along the first dimension (a view of [positions, samples, channels] as rows).
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
  let options = [Option<"groups", "groups", "int64_t", "1", "parts of the batch">];
}

def FormAttentionPass : Pass<"form-attention", "::mlir::ModuleOp"> {
  let summary = "Replaces the matmuls and the softmax that exporters write for attention by graph.attention";
  let description = [{
    Input: @loss in f32, for a program that computes attention in 16 bits. A softmax over the last dimension between two
    matmuls, with constant factors and masks that are added or selected, becomes graph.attention on operands of the type `type`,
    each [batch, sequence, heads, depth]. A causal mask that is computed from indices alone becomes `causal`; other masks become
    a bias, if they depend on no parameter. The head's depth must be a multiple of 8 and at most 128. If the softmax is `safe`,
    a causal mask beside another one becomes a part of the bias, and queries whose keys are all masked by -infinity get zeros
    (and a bias of zero, so that nothing is NaN). A call costs some microseconds for each head: heads with fewer than `least-scores`
    scores are left alone.

    ```mlir
    %s = graph.matmul %q, %k {transpose_rhs} : (tensor<8x12x128x64xf32>, tensor<8x12x128x64xf32>) -> tensor<8x12x128x128xf32>
    %p = graph.softmax %s {dim = 3 : i64} : (tensor<8x12x128x128xf32>) -> tensor<8x12x128x128xf32>
    %o = graph.matmul %p, %v : (tensor<8x12x128x128xf32>, tensor<8x12x128x64xf32>) -> tensor<8x12x128x64xf32>
    // becomes, with transposes and casts around it
    %o, %s = graph.attention %q, %k, %v {scale = 1.0 : f64} : ...
    ```
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
  let options = [Option<"type", "type", "std::string", "\"bf16\"", "bf16 or f16">,
                 Option<"leastScores", "least-scores", "int64_t", "0", "of a head, below which attention stays as it is">];
}

def ReducePrecisionPass : Pass<"reduce-precision", "::mlir::ModuleOp"> {
  let summary = "Rounds what contractions read and write to a smaller float type";
  let description = [{
    Input: @loss in f32. Every contraction (linear in each operand, with a contracted factor) gets operands rounded to `type`,
    accumulates in f32, and its result is rounded. The gradients follow, because the roundings are casts, which have a gradient.
    Parameters stay f32 (master weights); their rounded copies are the working weights.

    ```mlir
    %h = graph.matmul %x, %w : ...
    // becomes
    %0 = graph.cast %x : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %1 = graph.cast %0 : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    ...
    %h = graph.matmul %1, %3 : ...
    ```
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
  let options = [Option<"type", "type", "std::string", "\"bf16\"", "bf16 or f16">];
}

def UseTf32Pass : Pass<"use-tf32", "::mlir::ModuleOp"> {
  let summary = "Contractions in f32 may round their operands to TF32";
  let description = [{
    Marks every contraction in f32 with `tf32`: GPUs multiply these 19-bit numbers many times faster. CPUs ignore the mark.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def KeepGeluPass : Pass<"keep-gelu", "::mlir::ModuleOp"> {
  let summary = "Keeps the tanh approximation of gelu and its gradient as one operation each";
  let description = [{
    fuse-epilogues looks for these operations behind matmuls. Those that it does not fuse are decomposed afterwards.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def NarrowContractionsPass : Pass<"narrow-contractions", "::mlir::ModuleOp"> {
  let summary = "Contractions whose operands were rounded to 16 bits read the 16-bit values";
  let description = [{
    Runs after reduce-precision and make-train, for devices whose libraries multiply 16-bit numbers. A contraction whose operands
    are casts from a 16-bit type to f32 reads the casts' operands, and its result has their type. It still accumulates in f32.
    A result that was added to others before it was rounded is now rounded before the addition.

    ```mlir
    %3 = graph.cast %1 : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %4 = graph.cast %2 : (tensor<4x2xbf16>) -> tensor<4x2xf32>
    %5 = graph.matmul %3, %4 : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
    %6 = graph.cast %5 : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    // becomes
    %6 = graph.matmul %1, %2 : (tensor<8x4xbf16>, tensor<4x2xbf16>) -> tensor<8x2xbf16>
    ```
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

#endif
