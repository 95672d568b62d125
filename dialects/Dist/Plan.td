#ifndef DIVISI_DIALECTS_DIST_PLAN
#define DIVISI_DIALECTS_DIST_PLAN

include "dialects/Dist/DistBase.td"
include "dialects/Dist/Documentation.td"

def Dist_PlanOp : Op<Dist_Dialect, "plan", [NoTerminator, SingleBlock, NoRegionArguments]>, Documented {
  let summary = "the decisions of a planner: what the plan file holds";
  let description = documentation;
  let semantics = [{
    `planned module = decisions(module)`: the decisions hold in their order, first rematerialization, then padding, then
    the places of states and inputs and the splits of operations. What they do not name is replicated (states and
    inputs) or follows from its neighbours (operations). In names `*` stands for a number; of the lines that a name
    matches the one with the fewest open parts decides.}];
  let tensors = [{
    None. `format`: the version of this text. `target`: what the program is compiled for (cpu or cuda). `model`: a hash of
    the training step that the plan was made for. `mesh`: the device mesh of one stage. `body`: the decisions. Operations
    are named by their identity (`graph.node`).}];
  let constraints = [{
    1. The body has one block without arguments.
    2. The block holds dist.remat, dist.pad, dist.pad_result, dist.place and dist.split only (checked when a plan file
       is read).
    3. The mesh has no axis "stage" (checked when a plan file is read).
    4. `format` is the one that this version of the compiler reads (checked by the parser).
    5. `target` and `model` are those of the program that the plan is applied to (checked then).}];
  let example = [{
    dist.plan format 3 target "cpu" model "sha256:0123456789abcdef0123456789abcdef" mesh <"data" = 2, "model" = 2> {
      dist.remat "/h.0/ln_1/Norm" to "/h.0/mlp/Add"
      dist.pad "fc1.weight" dim 0 parts 2
      dist.place "h.*.fc1.weight" : [model, _]
      dist.split "/h.*/fc1/Gemm:0" {m = ["data"], n = ["model"]}
      dist.split @train "/h.0/fc1/Gemm:0" {m = ["data"]}
    } }];
  let insertedBy = [{
    plan at the head of the module; `divisi compile --emit=plan` writes it alone, and `--plan FILE` reads it back, as it
    is or edited}];
  let removedBy = "partition";
  let arguments = (ins I64Attr:$format, StrAttr:$target, StrAttr:$model, Dist_MeshAttr:$mesh);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<PlanFormat>($format) `target` $target `model` $model `mesh` $mesh attr-dict-with-keyword $body";
}

class Dist_DecisionOp<string mnemonic, string line> : Op<Dist_Dialect, mnemonic, [HasParent<"PlanOp">]>, Documented {
  string common = [{
    1. The operation is in a dist.plan.}];
  string operation = "`function` and `node`: the operation in the function with this identity (`graph.node`)";
  let description = documentation;
  let example = [{
    dist.plan format 3 target "cpu" model "sha256:0123456789abcdef0123456789abcdef" mesh <"data" = 2, "model" = 2> {
      }] # line # [{
    } }];
  let insertedBy = "plan";
  let removedBy = "partition, with the plan that it is in";
}

def Dist_RematOp : Dist_DecisionOp<"remat", "dist.remat \"/h.0/ln_1/Norm\" to \"/h.0/mlp/Add\""> {
  let summary = "rematerialization: the values of a segment of the forward pass are recomputed in the backward pass";
  let semantics = [{
    `backward(values of segment) = backward(segment(its inputs))`: the backward pass reads what it recomputes instead of
    what the forward pass would have to keep (activation checkpointing).}];
  let tensors = "None. `first` and `last`: the nodes that the segment of the forward pass begins and ends with.";
  let constraints = common # [{
    2. @train has such a segment (checked when a plan is followed).}];
  let arguments = (ins StrAttr:$first, StrAttr:$last);
  let assemblyFormat = "$first `to` $last attr-dict";
}
def Dist_PadOp : Dist_DecisionOp<"pad", "dist.pad \"fc1.weight\" dim 0 parts 2"> {
  let summary = "a dimension of a state or an input is padded, and what depends on it";
  let semantics = [{
    `size' = ceil(size / parts) * parts` of dimension `dim`, and of each dimension that has the same factor.}];
  let tensors = [{
    None. `name`: that of the state or input. `dim`: the dimension that is padded. `parts`: what its size becomes
    divisible by.}];
  let constraints = common # [{
    2. There is a state or an input `name`, and it has a dimension `dim` that can be padded (checked when a plan is
       followed).
    3. `parts` is from 1 to 4096 (checked when a plan is followed).}];
  let arguments = (ins StrAttr:$name, I64Attr:$dim, I64Attr:$parts);
  let assemblyFormat = "$name `dim` $dim `parts` $parts attr-dict";
}
def Dist_PadResultOp : Dist_DecisionOp<"pad_result",
    "dist.pad_result @train \"/cell/Split:2\" result 0 dim 1 parts 3"> {
  let summary = "a dimension of an operation's result is padded, where no state or input depends on it";
  let semantics = [{
    `size' = ceil(size / parts) * parts` of dimension `dim`, and of each dimension that has the same factor. The
    operation is that of the module as the decisions before this one leave it: the order of dist.pad and dist.pad_result
    is that of the padding.}];
  let tensors = "None. " # operation # ". `number`: that of the result. `dim`: the dimension that is padded. `parts`: what its size becomes divisible by.";
  let constraints = common # [{
    2. There is such an operation, with such a result and dimension (checked when a plan is followed).
    3. `parts` is from 1 to 4096 (checked when a plan is followed).}];
  let arguments = (ins FlatSymbolRefAttr:$function, StrAttr:$node, I64Attr:$number, I64Attr:$dim, I64Attr:$parts);
  let assemblyFormat = "$function $node `result` $number `dim` $dim `parts` $parts attr-dict";
}
/// The names of axes, for each dimension.
def Dist_PlacementAttr : TypedArrayAttrBase<StrArrayAttr, "the axes of each dimension">;

def Dist_PlaceOp : Dist_DecisionOp<"place", "dist.place \"h.*.fc1.weight\" : [model, _]"> {
  let summary = "the sharding of states or inputs";
  let semantics = [{
    `axes(name, dimension) = dims[dimension]` in each function that has the state or input. One that no line names is
    replicated, and a moment of the optimizer lies as its parameter does.}];
  let tensors = "None. `name`: that of the state or input, or a pattern. `dims`: the axes of each dimension, `_` if it is whole.";
  let constraints = common # [{
    2. There is a state or an input that `name` matches, and no other place with that name; of two patterns with as many
       stars that match it, neither decides (checked when a plan is read).
    3. Each tensor that it decides for has as many dimensions as `dims`; the axes are of the plan's mesh, none is used
       twice, and their sizes divide the dimensions (checked when a plan is read).}];
  let arguments = (ins StrAttr:$name, Dist_PlacementAttr:$dims);
  let assemblyFormat = "$name attr-dict `:` custom<Placement>($dims)";
}
def Dist_SplitOp : Dist_DecisionOp<"split",
    "dist.split @train \"/h.*/fc1/Gemm:0\" {m = [\"data\"], n = [\"model\"]}"> {
  let summary = "the axes that split an operation's factors, where they do not follow from the rest";
  let semantics = [{
    `axes(factor) = factors[factor]` for each factor of the operation's sharding rule; factors that are not named are
    whole.}];
  let tensors = "None. " # operation # [{, or a pattern; without `function` those of every function. `factors`: for each
    factor that is split, its axes, major to minor.}];
  let constraints = common # [{
    2. There is such an operation, and `factors` names factors of its sharding rule and axes of the plan's mesh (checked
       when a plan is read).
    3. No other split has that function and name, and of two with as many open parts (stars, or no function) that match
       an operation, neither decides (checked when a plan is read).}];
  let arguments = (ins OptionalAttr<FlatSymbolRefAttr>:$function, StrAttr:$node, DictionaryAttr:$factors);
  let assemblyFormat = "($function^)? $node $factors attr-dict";
}

#endif
