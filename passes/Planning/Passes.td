#ifndef DIVISI_PASSES_PLANNING
#define DIVISI_PASSES_PLANNING

include "mlir/Pass/PassBase.td"

def SplitProjectionsPass : Pass<"split-projections", "::mlir::ModuleOp"> {
  let summary = "Splits fused projections (query, key and value in one matmul) into one matmul each";
  let description = [{
    Input: @loss. If all users of a value are slices of equal size along one dimension, and everything from the parameters to the
    value can be sliced along it, then each slice is computed from its slice of the parameters. (Random numbers and graph.iota
    cannot be sliced: their values depend on their place.) A parameter [3 * n, k] becomes [3, n, k] (`graph.model_shape` keeps the
    model's shape), so that n can be sharded: by heads of attention, with no shard boundary inside the queries.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def RematerializePass : Pass<"rematerialize", "::mlir::ModuleOp"> {
  let summary = "Rematerialization: recomputes segments of the forward pass in the backward pass instead of keeping their values";
  let description = [{
    Input: @train of simple operations (after decompose), for one device; or partitioned, with stages (assign-stages), whose
    segments do not cross stages. The forward pass is cut with the fewest live bytes. Of the segments that save memory, the
    `count` best by bytes saved per second are cloned before the first operation of the backward pass that reads one of their
    values. The clones read values of earlier segments through a graph.reshape with `barrier`, so that common subexpression
    elimination does not merge them with the originals.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
  let options = [
    Option<"count", "count", "int64_t", "0", "how many segments, at most">
  ];
}

def PlanPass : Pass<"plan", "::mlir::ModuleOp"> {
  let summary = "Decides how every tensor is sharded over a mesh, and writes it as types";
  let description = [{
    Input: @train and @evaluate of simple operations (after decompose). Output: the same, planned: every tensor type carries its
    sharding, every change of a sharding is a dist.reshard, the functions have `dist.mesh`. The strategies: along the axis
    "data" the batch is sharded, along the axis "model" weights are. Fails with the reason when a pin cannot hold.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
  let options = [
    Option<"mesh", "mesh", "std::string", "", "axes and sizes: data=2,model=4">,
    Option<"pins", "pins", "std::string", "", "shardings to keep: NAME=_,model;NAME=data,_">,
    Option<"file", "file", "std::string", "", "a plan file (dist.plan) to follow instead">,
    Option<"target", "target", "std::string", "\"cpu\"", "what the plan is for: cpu or cuda">,
    Option<"model", "model", "std::string", "", "the hash of the model in the plan's text; nothing: of the module">,
    Option<"zero", "zero", "int", "0", "ZeRO: 1, 2: optimizer state and update sharded over data; 3: parameters, too">,
    Option<"remat", "remat", "int64_t", "0", "how many segments are recomputed, as rematerialize does">
  ];
}

def AlignContractionsPass : Pass<"align-contractions", "::mlir::ModuleOp"> {
  let summary = "Pads weights so that tensor cores read aligned rows";
  let description = [{
    Input: @train and @evaluate of simple operations (after decompose), for GPUs. Where a matmul or convolution in 16 bits or TF32
    reads or writes rows that do not begin at multiples of 16 bytes, libraries have slower kernels: on an H100 5 to 7 times the time for
    matmuls with 50,257 words, 3 times with 30,522, and 1.3 times for the first filter's gradient of ResNet-50, whose images have three
    channels. The size then grows to a multiple of 16 bytes, large ones to a multiple of 64 elements, in all tensors that have it,
    states included, as `plan` pads a size for devices.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def PrintShardingRulesPass : Pass<"print-sharding-rules", "::mlir::ModuleOp"> {
  let summary = "Prints the sharding rule of every operation, in order";
  let description = [{
    One line for each operation that has a rule, in the form that dialects/Dist/ShardingRule.h describes:

    ```
    graph.matmul: m k, k n -> m n | m=4 k=8 n=2 | sum k | linear each
    ```
  }];
}

#endif
