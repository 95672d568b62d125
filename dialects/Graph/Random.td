#ifndef DIVISI_DIALECTS_GRAPH_RANDOM
#define DIVISI_DIALECTS_GRAPH_RANDOM

include "dialects/Graph/GraphBase.td"

def Graph_RandomUniformOp
    : Graph_Op<"random_uniform", [CostInterface, DeclareOpInterfaceMethods<RandomnessInterface, ["setRandomness"]>]> {
  let summary = "uniform numbers in [0, 1) from a counter: a function of (seed, step, stream, global element index)";
  let semantics = [{
    `result[i..] = floor(mix(key + g * (offset + sum over d of i[d] * strides[d])) / 2^40) / 2^24` on unsigned 64-bit
    words, with `key = mix((mix((mix(seed + g) ^ step) + g) ^ stream) + g)`, the finalizer `mix` of SplitMix64 (Steele,
    Lea and Flood, OOPSLA 2014) and `g = 0x9e3779b97f4a7c15`. The number of an element does not depend on the plan:
    every rank that computes it gets the same value.}];
  let tensors = [{
    `seed` and `step`: i64 scalars, the randomness of the step. `offset`: an i64 scalar, the index of the first element
    in the whole tensor, 0 if it is left out. `result`: [d..], floats. `stream`: a number that keeps operations apart.
    `strides`: those of the whole tensor in elements, by default the row-major ones of the result; without them `offset`
    is not read. `keeps_seed`: the seed is the model's own, and make-train supplies the step alone.}];
  let constraints = [{
    1. `seed`, `step` and `offset` are scalars.
    2. `strides` has an entry for each dimension of the result.
    3. The result has floats.}];
  let example = [{
    %r = graph.random_uniform %seed, %step {stream = 1 : i64} : (tensor<i64>, tensor<i64>) -> tensor<4x6xf32>}];
  let insertedBy = [{
    the importer (random operators; seed and step are zero until make-train supplies them) and by the decomposition of
    graph.dropout; partition adds `offset` and `strides` where the result is sharded}];
  let arguments = (ins RankedTensorOf<[I64]>:$seed, RankedTensorOf<[I64]>:$step,
                       Optional<RankedTensorOf<[I64]>>:$offset, I64Attr:$stream,
                       OptionalAttr<DenseI64ArrayAttr>:$strides, UnitAttr:$keeps_seed);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getFlopsPerPoint() { return 20; }
    ::mlir::Value makeLocal(::divisi::dist::LocalContext &context);
    void growResult(unsigned result, ::mlir::RankedTensorType type);
  }];
}

def Graph_DropoutOp : Graph_Composite<"dropout", [AllTypesMatch<["x", "result"]>,
                                                 DeclareOpInterfaceMethods<EvaluationInterface>,
                                                 RandomnessInterface]> {
  let summary = "zero with probability `ratio`, else x / (1 - ratio)";
  let semantics = [{
    `result[i..] = r[i..] >= ratio ? x[i..] / (1 - ratio) : 0`, where r is graph.random_uniform of the randomness and
    the stream, in f32. Without randomness, and in an evaluation, `result = x`.}];
  let tensors = [{
    `x` and `result`: one type, floats. `randomness`: seed and step, i64 scalars, or nothing. `ratio`: the probability
    of a zero. `stream`: the number of the dropout in the model.}];
  let constraints = [{
    1. `randomness` has two tensors or none.
    2. `ratio` is at least 0 and less than 1.
    3. The result has x's type.}];
  let example = [{
    %y = graph.dropout %x, %seed, %step {ratio = 0.5 : f64, stream = 1 : i64} : (tensor<4x6xf32>, tensor<i64>, tensor<i64>)
      -> tensor<4x6xf32>}];
  let insertedBy = "the importer (Dropout), without randomness, which make-train adds";
  let removedBy = "make-evaluate in @evaluate, and decompose";
  let arguments = (ins AnyRankedTensor:$x, Variadic<RankedTensorOf<[I64]>>:$randomness, F64Attr:$ratio, I64Attr:$stream);
  let results = (outs AnyRankedTensor:$result);
}

#endif
