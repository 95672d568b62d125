#ifndef DIVISI_DIALECTS_DIST_PLAN
#define DIVISI_DIALECTS_DIST_PLAN

include "dialects/Dist/DistBase.td"

def Dist_PlanOp : Op<Dist_Dialect, "plan", [NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "the decisions of a planner: what the plan file holds";
  let description = [{
    Inserted by the pass plan at the head of the module, removed by partition; `divisi compile --emit=plan` writes it alone, and
    `--plan FILE` gives it back, as it is or edited. What it does not name follows by propagation. `format` is the version of this
    text, `target` what the program is compiled for (cpu or cuda), `model` a hash of the training step that it was made for. Operations
    are named by their identity (`graph.node`).

    ```mlir
    dist.plan format 2 target "cpu" model "sha256:0123456789abcdef0123456789abcdef" mesh <"data" = 2, "model" = 2> {
      dist.remat "/h.0/ln_1/Norm" to "/h.0/mlp/Add"
      dist.pad "fc1.weight" dim 0 parts 2
      dist.place "fc1.weight" : tensor<54x37xf32, #dist.shard<"model", _>>
      dist.split @train "/fc1/Gemm:0" {m = ["data"], n = ["model"]}
    }
    ```
  }];
  let arguments = (ins I64Attr:$format, StrAttr:$target, StrAttr:$model, Dist_MeshAttr:$mesh);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<PlanFormat>($format) `target` $target `model` $model `mesh` $mesh attr-dict-with-keyword $body";
}

class Dist_DecisionOp<string mnemonic> : Op<Dist_Dialect, mnemonic, [HasParent<"PlanOp">]>;

def Dist_RematOp : Dist_DecisionOp<"remat"> {
  let summary = "the forward part's values from one node to another are not kept: the backward part computes them again";
  let arguments = (ins StrAttr:$first, StrAttr:$last);
  let assemblyFormat = "$first `to` $last attr-dict";
}
def Dist_PadOp : Dist_DecisionOp<"pad"> {
  let summary = "a dimension of a state or an input grows until it divides into `parts`, and what depends on it";
  let arguments = (ins StrAttr:$name, I64Attr:$dim, I64Attr:$parts);
  let assemblyFormat = "$name `dim` $dim `parts` $parts attr-dict";
}
def Dist_PadResultOp : Dist_DecisionOp<"pad_result"> {
  let summary = "the same for a dimension of an operation's result, where no state or input depends on it";
  let description = [{
    Stands among `dist.pad` in the order in which dimensions are padded. The operation is named as by `dist.split`, in the module as
    the decisions before this one leave it.
    ```mlir
    dist.pad_result @train "/cell/Split:2" result 0 dim 1 parts 3
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$function, StrAttr:$node, I64Attr:$number, I64Attr:$dim, I64Attr:$parts);
  let assemblyFormat = "$function $node `result` $number `dim` $dim `parts` $parts attr-dict";
}
def Dist_PlaceOp : Dist_DecisionOp<"place"> {
  let summary = "how a state or an input lies";
  let arguments = (ins StrAttr:$name, TypeAttr:$type);
  let assemblyFormat = "$name attr-dict `:` $type";
}
def Dist_SplitOp : Dist_DecisionOp<"split"> {
  let summary = "what an operation splits, where it does not follow from the rest";
  let description = [{
    The operation is the one in the function with this identity.
  }];
  let arguments = (ins FlatSymbolRefAttr:$function, StrAttr:$node, DictionaryAttr:$factors);
  let assemblyFormat = "$function $node $factors attr-dict";
}

#endif
