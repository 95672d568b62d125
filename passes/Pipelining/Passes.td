#ifndef DIVISI_PASSES_PIPELINING
#define DIVISI_PASSES_PIPELINING

include "mlir/Pass/PassBase.td"

def SplitMicrobatchesPass : Pass<"split-microbatches", "::mlir::ModuleOp"> {
  let summary = "Splits the batch of a step over time";
  let description = [{
    Input: @train and @evaluate of simple operations (after decompose). The batch is sharded along a mesh axis that stands for
    time, by the same sharding rules and partitioner as over devices. Output: functions with `graph.microbatches`, whose inputs
    have the microbatches as first dimension. Operations that depend on the scalar `microbatch` run once for each microbatch,
    the others once a step; sums over the batch become graph.accumulate. A number of labels by which gradients are divided is
    computed from the whole batch beforehand. Fails, naming the node, where another operation needs the whole batch at once.
    With `asynchronous`, every step is one microbatch: nothing is split, and `microbatch` is the number of updates by which a
    device is behind.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
  let options = [
    Option<"count", "count", "int64_t", "1", "microbatches of a step">,
    Option<"asynchronous", "asynchronous", "bool", "false", "of one: the functions are written as for several, with gradients that make-train marked">,
    Option<"whole", "whole", "bool", "false", "the same, of a step whose stages work one after the other on the whole batch">
  ];
}

def MeasureNoisePass : Pass<"measure-noise", "::mlir::ModuleOp"> {
  let summary = "Squares of the gradients of shares of the batch, for the noise scale";
  let description = [{
    Input: @train that reports `grad_sq_big` (make-train), partitioned or for one device. Output: the same with the report
    `grad_sq_small`: the mean over n shares of the batch of the square of the global norm of the share's gradient. Shares are those of
    the replicas along the axis "data", and without such an axis the microbatches. What a share contributes to the sum that is the
    batch's gradient, times n, is its gradient. Nothing changes without `grad_sq_big`, or if `grad_sq_small` is there. Fails
    where there are no shares, where a gradient is computed from the whole batch at once, where replicas are apart, where stages have
    different axes, and in asynchronous steps.

    ```mlir
    %g = dist.all_reduce sum over ["data"] %p : (tensor<4xf32>) -> tensor<4xf32>       // of 2 replicas
    %0 = graph.mul %g, %g : tensor<4xf32>
    %big = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    // and then
    %1 = graph.mul %p, %two : tensor<4xf32>
    %2 = graph.mul %1, %1 : tensor<4xf32>
    %3 = graph.reduce_sum %2 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    %4 = dist.all_reduce sum over ["data"] %3 : (tensor<f32>) -> tensor<f32>
    %small = graph.mul %4, %half : tensor<f32>
    ```
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
}

def AssignStagesPass : Pass<"assign-stages", "::mlir::ModuleOp"> {
  let summary = "Gives every operation and argument its stage of a pipeline";
  let description = [{
    Input: functions with `graph.microbatches`, for one device or partitioned. Output: the same with `dist.stage` on operations and
    arguments. The model's nodes are cut, in their order, so that the slowest stage with its messages is as fast as possible,
    or before the nodes that are given. Gradients run on the stage of their node, updates on that of their parameter. Values flow
    to later stages in the forward pass and to earlier ones in the backward pass. If stages have different axes of the mesh, the
    pass runs before `plan` with `mesh` and `axes`: functions then have `dist.stage_axes`, and a plan replicates what a stage
    computes along the axes that it lacks. After `partition`, operations that have a stage keep it.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
  let options = [
    Option<"stages", "stages", "int64_t", "1", "number of stages">,
    ListOption<"cuts", "cuts", "std::string", "the first node of every stage but the first, or several \"a + b\" that begin it with all that depends on them">,
    Option<"mesh", "mesh", "std::string", "\"\"", "of a stage: data=2,model=4">,
    Option<"axes", "axes", "std::string", "\"\"", "of this mesh that stages have, where these differ: data+model,none">
  ];
}

def AccumulateFirstPass : Pass<"accumulate-first", "::mlir::func::FuncOp"> {
  let summary = "Sums over microbatches before they are reduced over devices and sent to other stages";
  let description = [{
    Input: a function with microbatches whose operations have stages. Output: the same, where what stages contribute to the gradient of a
    parameter that they share (an embedding that is the head, too) is summed over the microbatches on each stage, and then sent and
    added: once in a step instead of for every microbatch. If stages have different mesh axes (`dist.stage_axes`), it is also reduced
    after that. Floating-point sums are of another order.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
}

def SplitTasksPass : Pass<"split-tasks", "::mlir::ModuleOp"> {
  let summary = "Cuts a function with microbatches into tasks by stage, and writes the schedule";
  let description = [{
    Input: functions with `graph.microbatches` and, for a pipeline, `dist.stage`. Output: tasks @train.STAGE.KIND. A task of the
    kind start runs once before the microbatches, one of the kind finish once after them. For each microbatch there is a task of
    the kind step, or in a pipeline forward and backward, and weight where the gradients of weights are delayed. Values that
    cross stages are sent by dist.send and dist.receive; values that tasks of a stage pass on are `dist.held`. A dist.schedule
    for each function lists the order of the tasks. Fails where the schedule does not allow this number of stages or microbatches.
    The replicas of a stage take microbatches in turn: the mesh of the tasks has an axis "turn" for them, sums are complete after
    an all_reduce over it in the task finish, and a message of a microbatch goes from one replica to one other.
    In an asynchronous schedule every task is for one minibatch. Its backward tasks read the weights that `staleness` selects:
    copies that the task `stash` or the forward task has left, the newest ones, or predicted ones. Fails where an update depends
    on other stages. Under pipedream-2bw `start` copies the weights for the passes of a batch before the batch before it updates
    them, and `stash` copies them, and what else `start` has left, for the backward passes, which go on in the next batch.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "naive, gpipe, 1f1b, interleaved, zb-h1, pipedream or pipedream-2bw">,
    Option<"staleness", "staleness", "std::string", "\"stashed\"", "weights of pipedream: stashed, vertical-sync, latest or predicted">,
    Option<"chunks", "chunks", "int64_t", "1", "stages of a device (interleaved)">,
    ListOption<"replicas", "replicas", "int64_t", "of each stage, which take microbatches in turn; none: one each">
  ];
}

def ServeUpdatesPass : Pass<"serve-updates", "::mlir::ModuleOp"> {
  let summary = "Makes the update a task of parameter servers";
  let description = [{
    Input: the tasks of a module whose `dist.sync` has dedicated servers. The tasks train.S.finish are what servers run, a rank for each stage S: their arguments
    that are not state or scalars are `dist.pushed` by the workers, which run the other tasks. `copy`: the value of one worker; `sum`, `max`
    or `min`: the values of all workers are combined so, because the task begins with an all_reduce of them over the replicas, which on a
    server is one of one rank. Several servers have a task each for a stage, server K of N stages @train.(S + K N).finish, with the updates of some parameters: the largest first, each
    for the server that has the fewest bytes so far; the first server's task has the reports, too.

    ```mlir
    func.func @train.0.finish(%g: tensor<4xf32> {dist.held = {kind = "sum", name = "sum 0"}, dist.pushed = "sum"}, ...
    ```
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
}

#endif
