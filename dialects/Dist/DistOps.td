#ifndef DIVISI_DIALECTS_DIST_OPS
#define DIVISI_DIALECTS_DIST_OPS

include "dialects/Dist/DistBase.td"
include "dialects/Dist/Documentation.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Dist_Op<string mnemonic, list<Trait> traits = []>
    : Op<Dist_Dialect, mnemonic, !listconcat([Pure], traits)>, Documented {
  let description = documentation;
}

def Dist_ReshardOp : Dist_Op<"reshard"> {
  let summary = "the same value under another sharding: the only place where communication comes from";
  let semantics = "`result = input` as a global tensor: what each device has of it changes.";
  let tensors = [{
    `input` and `result`: tensors of one shape and element type, each with a sharding of its own or replicated.}];
  let constraints = [{
    1. `input` and `result` have one shape and element type.
    2. The operation is in a planned function, which has a mesh (`dist.mesh`).
    3. Both shardings are of axes of that mesh, and their sizes divide the dimensions.
    4. The result is pending only over axes over which the input is pending, by the same reduction.}];
  let example = [{
    func.func @f(%x: tensor<8x4xf32, #dist.shard<"data", _>>) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
      %y = dist.reshard %x : tensor<8x4xf32, #dist.shard<"data", _>> -> tensor<8x4xf32>
      return
    } }];
  let insertedBy = "plan and split-microbatches";
  let removedBy = "partition, which writes the collectives that `planReshard` lists";
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

// Collectives, on local types. A group is the devices that differ along `axes` (major to minor). In the equations an index
// stands for a device's number in its group, from 0 to n - 1. `operation` is the example's.
class Dist_Collective<string mnemonic, string operation> : Dist_Op<mnemonic> {
  string group = [{ `axes`: those along which the devices of a group differ, major to minor.}];
  string common = [{
    1. The operation is in a partitioned function, which has a mesh (`dist.partitioned`).
    2. `axes` are axes of that mesh, each named once, at least one.}];
  let example = [{
    func.func @f(%x: tensor<8x4xf32>) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
      %y = }] # operation # [{
      return
    } }];
  let insertedBy = "partition";
  let removedBy = "form-kernels, which makes an exec.call of it";
  let hasVerifier = 1;
}

def Dist_AllReduceOp : Dist_Collective<"all_reduce",
    "dist.all_reduce sum over [\"data\"] %x : (tensor<8x4xf32>) -> tensor<8x4xf32>"> {
  let summary = "combines each operand over the group; several operands travel together (a bucket)";
  let semantics = [{
    `results_r = inputs_0 o inputs_1 o .. o inputs_(n-1)` for each device r, where o is `kind`, for each operand.}];
  let tensors = [{
    `inputs` and `results`: as many, of the same types, all of one element type. `kind`: sum, max or min.}] # group;
  let constraints = common # [{
    3. There are as many results as operands, at least one.
    4. Each result has its operand's type, and all have one element type.}];
  let insertedBy = "partition; bucket-collectives joins several to one";
  let removedBy = [{
    split-microbatches along time, where it becomes graph.accumulate, and form-kernels, which makes an exec.call of it}];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, Dist_ReductionAttr:$kind, StrArrayAttr:$axes);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "`` $kind `over` $axes $inputs attr-dict `:` functional-type($inputs, $results)";
}
def Dist_AllGatherOp : Dist_Collective<"all_gather",
    "dist.all_gather %x dim 0 over [\"data\"] : tensor<8x4xf32> -> tensor<16x4xf32>"> {
  let summary = "joins the pieces of a dimension";
  let semantics = [{
    `result_r[a.., k * s + i, c..] = input_k[a.., i, c..]` for each device r, where s is the size of `dim` in the input.}];
  let tensors = [{
    `input`: [a.., s, c..] of any element type. `result`: [a.., n * s, c..] of that type. `dim`: that of s.}] # group;
  let constraints = common # [{
    3. `dim` is a dimension of the input.
    4. The result is [a.., n * s, c..] of the input's element type.}];
  let removedBy = [{
    split-microbatches along time; bucket-collectives, which joins several to dist.all_gathers; and form-kernels, which makes
    an exec.call of it}];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$dim, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `dim` $dim `over` $axes attr-dict `:` type($input) `->` type($result)";
}
def Dist_ReduceScatterOp : Dist_Collective<"reduce_scatter",
    "dist.reduce_scatter sum dim 0 over [\"data\"] %x : tensor<8x4xf32> -> tensor<4x4xf32>"> {
  let summary = "combines over the group; each device keeps its piece of a dimension";
  let semantics = [{
    `result_r[a.., i, c..] = x[a.., r * s + i, c..]` with `x = input_0 o input_1 o .. o input_(n-1)`, where o is `kind`
    and s the size of `dim` in the result.}];
  let tensors = [{
    `input`: [a.., n * s, c..], numbers. `result`: [a.., s, c..] of its element type. `kind`: sum, max or min. `dim`:
    that of s.}] # group;
  let constraints = common # [{
    3. `dim` is a dimension of the input.
    4. The result is [a.., s, c..] of the input's element type.
    5. The size of `dim` is divisible by the number of devices in the group.}];
  let removedBy = [{
    bucket-collectives, which joins several to dist.reduce_scatters, and form-kernels, which makes an exec.call of it}];
  let arguments = (ins AnyRankedTensor:$input, Dist_ReductionAttr:$kind, I64Attr:$dim, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`` $kind `dim` $dim `over` $axes $input attr-dict `:` type($input) `->` type($result)";
}
def Dist_AllToAllOp : Dist_Collective<"all_to_all",
    "dist.all_to_all %x dim 0 to 1 over [\"data\"] : tensor<8x4xf32> -> tensor<16x2xf32>"> {
  let summary = "joins the pieces of one dimension and splits another";
  let semantics = [{
    `result_r[.., k * s + i, .., j, ..] = input_k[.., i, .., r * t + j, ..]`, where s is the size of `gather_dim` in the
    input and t that of `split_dim` in the result.}];
  let tensors = [{
    `input`: any element type. `result`: the same shape and type but for `gather_dim`, which is n times as large, and
    `split_dim`, which is divided by n.}] # group;
  let constraints = common # [{
    3. `gather_dim` and `split_dim` are two different dimensions of the input.
    4. The result has that shape and the input's element type.
    5. The size of `split_dim` is divisible by the number of devices in the group.}];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$gather_dim, I64Attr:$split_dim, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `dim` $gather_dim `to` $split_dim `over` $axes attr-dict `:` type($input) `->` type($result)
  }];
}
def Dist_PermuteOp : Dist_Collective<"permute", "dist.permute %x by 1 over [\"data\"] : tensor<8x4xf32> -> tensor<8x4xf32>"> {
  let summary = "device i of the group gets what device i - shift had, zeros if there is none";
  let semantics = "`result_r = input_(r - shift)`, and 0 if `r - shift` is not in [0, n).";
  let tensors = "`input` and `result`: one type. `shift`: how far pieces go, also backward." # group;
  let constraints = common # [{
    3. The result has the input's type.}];
  let insertedBy = "partition (borders of convolutions)";
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$shift, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `by` $shift `over` $axes attr-dict `:` type($input) `->` type($result)";
}

// Pipelines.

def Dist_TransferOp : Dist_Op<"transfer"> {
  let summary = "a value on its way to stages that have other mesh axes than its own, and shard it differently";
  let semantics = [{
    `result = input` as a global tensor: what the devices of other stages get of it. Each device gets every element of
    its shard once, from a device that has it.}];
  let tensors = [{
    `input`: the shard of a device of this operation's stage. `result`: that of a device of the stages that use it, and
    only these do. `dims`: for each dimension the axes along which the senders shard it, and those along which the
    receivers do, major to minor.}];
  let constraints = [{
    1. The operation is in a partitioned function, which has a mesh (`dist.partitioned`).
    2. `dims` has two lists of axes of that mesh for each dimension of the input; no axis stands twice on one side.
    3. Input and result have one element type, and are shards of one global shape.}];
  let example = [{
    func.func @f(%x: tensor<4x4xf32>) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
      %y = dist.transfer %x dims [[["data"], []], [[], []]] : tensor<4x4xf32> -> tensor<8x4xf32>
      return
    } }];
  let insertedBy = "partition";
  let removedBy = "split-tasks, which writes dist.send and dist.receive";
  let arguments = (ins AnyRankedTensor:$input, ArrayAttr:$dims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `dims` $dims attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

class Dist_MessageOp<string mnemonic> : Op<Dist_Dialect, mnemonic>, Documented {
  let description = documentation;
  string dims = [{ `dims`: as those of dist.transfer, if the stages shard the value differently.}];
  let constraints = [{
    1. The other stage has the operation of the other direction, of the same `id`, `dims` and type of the whole value
       (verified when buffers are assigned: split-tasks makes both).
    2. `dims` is that of a dist.transfer (constraints 1 and 2 there).}];
  let hasVerifier = 1;
  let insertedBy = "split-tasks";
  let removedBy = "form-kernels, which makes an exec.call of it";
}

def Dist_SendOp : Dist_MessageOp<"send"> {
  let summary = "sends a value to the devices of another stage";
  let semantics = [{
    `receive = input` as a global tensor: what the dist.receive of the same `id` returns on the devices of `stage`.
    Without `dims` a device sends all that it has to the device that has its place there. Messages of one id arrive in
    the order in which they are sent.}];
  let tensors = [{
    `input`: any type. `stage`: the receiver's index along the mesh's axis "stage". `id`: the message's number, equal on
    both sides.}] # dims;
  let example = [{
    dist.send %x to 1 id 0 : tensor<8x4xf32>}];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$stage, I64Attr:$id, OptionalAttr<ArrayAttr>:$dims);
  let assemblyFormat = "$input `to` $stage `id` $id (`dims` $dims^)? attr-dict `:` type($input)";
}
def Dist_ReceiveOp : Dist_MessageOp<"receive"> {
  let summary = "receives what dist.send sends";
  let semantics = [{
    `result = input` of the dist.send of the same `id` on the devices of `stage`, as a global tensor; the oldest that has
    not been received yet.}];
  let tensors = [{
    `result`: the type of what is sent. `stage`: the sender's index along the mesh's axis "stage". `id`: the message's
    number, equal on both sides.}] # dims;
  let example = [{
    %x = dist.receive from 0 id 0 : tensor<8x4xf32>}];
  let arguments = (ins I64Attr:$stage, I64Attr:$id, OptionalAttr<ArrayAttr>:$dims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`from` $stage `id` $id (`dims` $dims^)? attr-dict `:` type($result)";
}

def Dist_ScheduleOp : Op<Dist_Dialect, "schedule">, Documented {
  let summary = "what runs when in a step of a function that was split into tasks";
  let description = documentation;
  let semantics = [{
    `step of device d = rows[d][0]; rows[d][1]; ..`: the tasks of a row run one after the other, each for its
    microbatch. In an asynchronous schedule ("pipedream") each step brings a minibatch, and entries count from it:
    "0.backward -2" is for the one that came two steps before. An entry with a positive number also runs, in the first
    step, for all minibatches before that one. In "pipedream-2bw" a row runs for each microbatch of a step, the entries
    count microbatches from that one, and tasks that run once in a step run for the first (start, stash) or the last
    microbatch (finish) of a batch.}];
  let tensors = [{
    None. `function`: the function that was split. `kind`: the name of the schedule. `microbatches`: those of a step.
    `rows`: a list of entries for each device of the pipeline; an entry is a task's name without the function's, and a
    microbatch.}];
  let constraints = [{
    1. There is at least one microbatch.
    2. `rows` is a list of lists.
    3. An entry is a text of a task's name, a blank and a number, which is in [0, microbatches), in an asynchronous
       schedule in [-4096, 4096].}];
  let example = [{
    dist.schedule "train" "1f1b" microbatches 2 [
      ["0.forward 0", "0.forward 1", "0.backward 0", "0.backward 1", "0.finish 0"],
      ["1.forward 0", "1.backward 0", "1.forward 1", "1.backward 1", "1.finish 0"]]}];
  let insertedBy = "split-tasks";
  let removedBy = "code generation; the program's manifest has it";
  let arguments = (ins StrAttr:$function, StrAttr:$kind, I64Attr:$microbatches, ArrayAttr:$rows);
  let extraClassDeclaration = [{
    /// Whether batches are in flight between steps.
    bool isAsynchronous() { return getKind() == "pipedream" || isDoubleBuffered(); }
    /// Whether rows run for each microbatch.
    bool isDoubleBuffered() { return getKind() == "pipedream-2bw"; }
  }];
  let assemblyFormat = "$function $kind `microbatches` $microbatches $rows attr-dict";
  let hasVerifier = 1;
}

#endif
