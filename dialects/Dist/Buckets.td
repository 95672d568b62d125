#ifndef DIVISI_DIALECTS_DIST_BUCKETS
#define DIVISI_DIALECTS_DIST_BUCKETS

include "dialects/Dist/DistBase.td"
include "dialects/Dist/Documentation.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Collectives that work on a dimension of each operand, several together. (dist.all_reduce has any number of operands itself.)
class Dist_Bucket<string mnemonic, string operation> : Op<Dist_Dialect, mnemonic, [Pure]>, Documented {
  let description = documentation;
  string common = [{
    1. The operation is in a partitioned function, which has a mesh (`dist.partitioned`).
    2. `axes` are axes of that mesh, each named once, at least one.
    3. There are as many results and `dims` as operands, at least one, and all operands have one element type. Each of `dims` is a
       dimension of its operand.}];
  let example = [{
    func.func @f(%x: tensor<8x4xf32>, %y: tensor<8x8xf32>) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
      %a, %b = }] # operation # [{
      return
    } }];
  let insertedBy = "bucket-collectives";
  let removedBy = "form-kernels, which makes an exec.call of it";
  let hasVerifier = 1;
}

def Dist_AllGathersOp : Dist_Bucket<"all_gathers",
    "dist.all_gathers %x, %y dims [0, 1] over [\"data\"] : (tensor<8x4xf32>, tensor<8x8xf32>) -> (tensor<16x4xf32>, tensor<8x16xf32>)"> {
  let summary = "several dist.all_gather that travel together (a bucket)";
  let semantics = [{
    `results_i = all_gather(inputs_i)` along dimension `dims_i`, for each operand i (dist.all_gather).}];
  let tensors = [{
    `inputs`: [a.., s, c..] of any element type. `results`: [a.., n * s, c..] of that type, where n is the number of devices that
    differ along `axes` (major to minor). `dims`: that of s, for each input.}];
  let constraints = common # [{
    4. Each result is [a.., n * s, c..] of its input's element type.}];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, DenseI64ArrayAttr:$dims, StrArrayAttr:$axes);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "$inputs `dims` $dims `over` $axes attr-dict `:` functional-type($inputs, $results)";
}
def Dist_ReduceScattersOp : Dist_Bucket<"reduce_scatters",
    "dist.reduce_scatters sum dims [0, 1] over [\"data\"] %x, %y : (tensor<8x4xf32>, tensor<8x8xf32>) -> (tensor<4x4xf32>, tensor<8x4xf32>)"> {
  let summary = "several dist.reduce_scatter that travel together (a bucket)";
  let semantics = [{
    `results_i = reduce_scatter(inputs_i)` along dimension `dims_i` by `kind`, for each operand i (dist.reduce_scatter).}];
  let tensors = [{
    `inputs`: [a.., n * s, c..], numbers, where n is the number of devices that differ along `axes` (major to minor). `results`:
    [a.., s, c..] of their element type. `kind`: sum, max or min. `dims`: that of s, for each input.}];
  let constraints = common # [{
    4. Each result is [a.., s, c..] of its input's element type.
    5. The sizes of `dims` are divisible by the number of devices in the group.}];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, Dist_ReductionAttr:$kind, DenseI64ArrayAttr:$dims, StrArrayAttr:$axes);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "`` $kind `dims` $dims `over` $axes $inputs attr-dict `:` functional-type($inputs, $results)";
}

#endif
