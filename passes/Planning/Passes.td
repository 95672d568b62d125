#ifndef DIVISI_PASSES_PLANNING
#define DIVISI_PASSES_PLANNING

include "mlir/Pass/PassBase.td"

def SplitProjectionsPass : Pass<"split-projections", "::mlir::ModuleOp"> {
  let summary = "Cuts fused projections (query, key and value in one product) into products of their own";
  let description = [{
    Input: @loss. Where all users of a value are slices of one size along one dimension, and what computes it can be cut there up
    to its parameters, each slice is computed from its part of them. A parameter [3 * n, k] becomes [3, n, k]
    (`graph.model_shape` keeps the model's), so that n can be split over devices: heads of attention, not the middle of the queries.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def RematerializePass : Pass<"rematerialize", "::mlir::ModuleOp"> {
  let summary = "Computes parts of the forward part again in the backward part, instead of keeping their values";
  let description = [{
    Input: @train of simple operations (after decompose), for one device; or partitioned, with stages (assign-stages), none of which computes
    another's part again. The forward part is cut where little crosses; of
    the parts that save memory the `count` best, by bytes saved for the time, are cloned before the first operation of the backward part
    that reads one of their values. What the clones read of earlier parts goes through a graph.reshape with `barrier`, so that nobody merges
    them with the originals.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
  let options = [
    Option<"count", "count", "int64_t", "0", "how many parts, at most">
  ];
}

def PlanPass : Pass<"plan", "::mlir::ModuleOp"> {
  let summary = "Decides how every tensor is split over a mesh, and writes it as types";
  let description = [{
    Input: @train and @evaluate of simple operations (after decompose). Output: the same, planned: every tensor type carries its
    sharding, every change of a sharding is a dist.reshard, the functions have `dist.mesh`. The strategies: the axis
    "data" splits the batch, the axis "model" splits weights. Fails when a pin cannot hold, saying why.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
  let options = [
    Option<"mesh", "mesh", "std::string", "", "axes and sizes: data=2,model=4">,
    Option<"pins", "pins", "std::string", "", "shardings to keep: NAME=_,model;NAME=data,_">,
    Option<"file", "file", "std::string", "", "a plan file (dist.plan) to follow instead">,
    Option<"target", "target", "std::string", "\"cpu\"", "what the plan is for: cpu or cuda">,
    Option<"model", "model", "std::string", "", "the hash of the model in the plan's text; nothing: of the module">,
    Option<"zero", "zero", "int", "0", "ZeRO: 1, 2: moments and update split over data; 3: parameters, too">,
    Option<"remat", "remat", "int64_t", "0", "how many parts are computed again, as rematerialize does">
  ];
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
