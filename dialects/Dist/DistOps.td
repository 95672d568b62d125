#ifndef DIVISI_DIALECTS_DIST_OPS
#define DIVISI_DIALECTS_DIST_OPS

include "dialects/Dist/DistBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, !listconcat([Pure], traits)>;

def Dist_ReshardOp : Dist_Op<"reshard"> {
  let summary = "the same value under another sharding: the only place where communication comes from";
  let description = [{
    Inserted by apply-plan, removed by partition, which writes the collectives that `planReshard` lists.
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

// Collectives, on local types. A group is the devices that differ along `axes` (major to minor). Inserted by partition,
// removed by form-kernels, which makes them calls of the runtime.

def Dist_AllReduceOp : Dist_Op<"all_reduce"> {
  let summary = "combines each operand over the group; several operands travel together (a bucket)";
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, Dist_ReductionAttr:$kind, StrArrayAttr:$axes);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "`` $kind `over` $axes $inputs attr-dict `:` functional-type($inputs, $results)";
  let hasVerifier = 1;
}
def Dist_AllGatherOp : Dist_Op<"all_gather"> {
  let summary = "joins the pieces of a dimension";
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$dim, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `dim` $dim `over` $axes attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def Dist_ReduceScatterOp : Dist_Op<"reduce_scatter"> {
  let summary = "combines over the group; each device keeps its piece of a dimension";
  let arguments = (ins AnyRankedTensor:$input, Dist_ReductionAttr:$kind, I64Attr:$dim, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`` $kind `dim` $dim `over` $axes $input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def Dist_AllToAllOp : Dist_Op<"all_to_all"> {
  let summary = "joins the pieces of one dimension and splits another";
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$gather_dim, I64Attr:$split_dim, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `dim` $gather_dim `to` $split_dim `over` $axes attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}
def Dist_PermuteOp : Dist_Op<"permute"> {
  let summary = "device i of the group gets what device i - shift had, zeros if there is none";
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$shift, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `by` $shift `over` $axes attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

// Pipelines. Inserted by split-tasks, removed by form-kernels (messages) and assign-buffers (schedule).

class Dist_MessageOp<string mnemonic> : Op<Dist_Dialect, mnemonic>;

def Dist_SendOp : Dist_MessageOp<"send"> {
  let summary = "sends a value to the devices of another stage that have the same place there";
  let description = [{
    `stage` is the other side's index along the mesh's axis "stage"; `id` is equal on both sides. The messages of one id arrive in
    the order in which they are sent.
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$stage, I64Attr:$id);
  let assemblyFormat = "$input `to` $stage `id` $id attr-dict `:` type($input)";
}
def Dist_ReceiveOp : Dist_MessageOp<"receive"> {
  let summary = "receives what dist.send sends";
  let arguments = (ins I64Attr:$stage, I64Attr:$id);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`from` $stage `id` $id attr-dict `:` type($result)";
}

def Dist_ScheduleOp : Op<Dist_Dialect, "schedule"> {
  let summary = "what runs when in a step of a function that was split into tasks";
  let description = [{
    One row of tasks for each device of the pipeline; an entry is a task's name without the function's, and the microbatch. In an
    asynchronous schedule ("pipedream") each step brings a minibatch, and entries count from it: "0.backward -2" is for the one that came two
    steps before. An entry with a positive number also runs, in the first step, for all minibatches before that one.

    ```mlir
    dist.schedule "train" "1f1b" microbatches 2 [
      ["0.forward 0", "0.forward 1", "0.backward 0", "0.backward 1", "0.finish 0"],
      ["1.forward 0", "1.backward 0", "1.forward 1", "1.backward 1", "1.finish 0"]]
    ```
  }];
  let arguments = (ins StrAttr:$function, StrAttr:$kind, I64Attr:$microbatches, ArrayAttr:$rows);
  let extraClassDeclaration = [{ bool isAsynchronous() { return getKind() == "pipedream"; } }];
  let assemblyFormat = "$function $kind `microbatches` $microbatches $rows attr-dict";
  let hasVerifier = 1;
}

#endif
