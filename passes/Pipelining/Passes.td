#ifndef DIVISI_PASSES_PIPELINING
#define DIVISI_PASSES_PIPELINING

include "mlir/Pass/PassBase.td"

def SplitMicrobatchesPass : Pass<"split-microbatches", "::mlir::ModuleOp"> {
  let summary = "Splits the batch of a step over time";
  let description = [{
    Input: @train and @evaluate of simple operations (after decompose). The batch is split over a mesh whose axis is time, by the
    sharding rules and with the verifier of every other split, and partitioned. Output: functions with `graph.microbatches`, whose inputs
    have a first dimension of so many parts. What depends on the scalar `microbatch` is computed once for each part, the
    rest once a step; sums over the batch become graph.accumulate. A count of labels that the gradients are divided by is
    computed over the whole batch before. Fails, naming the node, where something else needs the whole batch at once.
    With `asynchronous` every step is one microbatch: nothing is split, and `microbatch` says how many updates a device is behind.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
  let options = [
    Option<"count", "count", "int64_t", "1", "microbatches of a step">,
    Option<"asynchronous", "asynchronous", "bool", "false", "of one: the functions are written as for several, with gradients that make-train marked">
  ];
}

def AssignStagesPass : Pass<"assign-stages", "::mlir::ModuleOp"> {
  let summary = "Gives every operation and argument its stage of a pipeline";
  let description = [{
    Input: functions with `graph.microbatches`, for one device or partitioned. Output: the same with `dist.stage` on operations and
    arguments. The model's nodes are cut, in their order, where the slowest stage with its messages is fastest, or before
    the nodes that are given. Before the plan of stages that have not all axes of a mesh alike, `mesh` and `axes` say so: functions then
    have `dist.stage_axes`, and a plan leaves stages whole along axes that they lack; behind the partitioner, operations that have a stage keep it. Gradients and updates are where their node and parameter are; values flow to later stages in
    the forward part and to earlier ones in the backward part.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
  let options = [
    Option<"stages", "stages", "int64_t", "1", "number of stages">,
    Option<"cuts", "cuts", "std::string", "", "the first node of every stage but the first: NODE;NODE">,
    Option<"mesh", "mesh", "std::string", "\"\"", "of a stage: data=2,model=4">,
    Option<"axes", "axes", "std::string", "\"\"", "of this mesh that stages have, where these differ: data+model,none">
  ];
}

def SplitTasksPass : Pass<"split-tasks", "::mlir::ModuleOp"> {
  let summary = "Cuts a function with microbatches into tasks by stage, and writes the schedule";
  let description = [{
    Input: functions with `graph.microbatches` and, for a pipeline, `dist.stage`. Output: tasks @train.STAGE.KIND: what runs once before the
    microbatches (start), for each of them (step; in a pipeline forward, backward, and weight where the gradients of weights
    are delayed), and once behind (finish). Values that cross stages are dist.send and dist.receive, those that tasks of a stage
    pass on are `dist.held`. A dist.schedule for each function says what runs when. Fails where a schedule cannot have these stages or
    microbatches. Of an asynchronous schedule every task is for one minibatch; backward tasks read the weights that `staleness` tells: copies
    that a task `stash` or the forward task has left, the newest, or predicted ones. Fails where an update needs other stages.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "naive, gpipe, 1f1b, interleaved, zb-h1 or pipedream">,
    Option<"staleness", "staleness", "std::string", "\"stashed\"", "weights of pipedream: stashed, vertical-sync, latest or predicted">,
    Option<"chunks", "chunks", "int64_t", "1", "stages of a device (interleaved)">
  ];
}

#endif
