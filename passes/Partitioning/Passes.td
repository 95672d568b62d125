#ifndef DIVISI_PASSES_PARTITIONING
#define DIVISI_PASSES_PARTITIONING

include "mlir/Pass/PassBase.td"

def PartitionPass : Pass<"partition", "::mlir::ModuleOp"> {
  let summary = "SPMD partitioning: local shapes and explicit collectives";
  let description = [{
    Input: planned functions (`dist.mesh`; every type carries its sharding). Output: the program of one device, the same for all:
    local types without shardings, collectives in place of dist.reshard, `dist.partitioned`. Operations that depend on the
    position of their shard read its index from new scalar arguments (`axis_index.NAME`). Sharded arguments keep their global
    type in `dist.global`, for loading and checkpoints.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
}

def SeparateReplicasPass : Pass<"separate-replicas", "::mlir::ModuleOp"> {
  let summary = "A training step of each replica alone, where replicas meet by their parameters";
  let description = [{
    Input: a partitioned module whose attribute `dist.sync` says that replicas along the axis "data" meet by their parameters. Output: the
    same with `@train` without collectives over that axis. Each replica computes what it would if all others had its own share of the
    batch: a sum over n replicas is n times the operand, their maximum the operand itself, and rows of an input that are gathered n copies
    of its own. So the loss and the gradients are those of the replica's share, while random numbers still differ by the row of the whole batch. `@evaluate` stays one over all replicas. Fails if a
    state is split over the axis, if no input is, or if an operation gathers or exchanges values of several replicas.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
}

def PrefetchStatePass : Pass<"prefetch-state", "::mlir::func::FuncOp"> {
  let summary = "Gathers shards of state one layer ahead of their use";
  let description = [{
    Input: partitioned functions. Output: the same, where each dist.all_gather that gathers an argument's shards for one use (`use`), or those
    of what is made of arguments alone (weights in 16 bits), starts earlier, and has the number of its `layer`. In the order of their users, gathers make up layers, none with a value
    twice, until one has `bucket-bytes`, or a sixteenth of all bytes that are gathered. A layer starts before the first use of
    the layer before it, the first one before its own.
  }];
  let dependentDialects = ["::divisi::dist::DistDialect"];
  let options = [Option<"bucketBytes", "bucket-bytes", "int64_t", "::divisi::step::bucketBytes", "size from which on a layer is complete">];
}

def BucketCollectivesPass : Pass<"bucket-collectives", "::mlir::func::FuncOp"> {
  let summary = "Combines small collectives of the same kind into buckets, each one collective";
  let description = [{
    Input: partitioned functions. Output: the same with fewer collectives: dist.all_reduce, dist.reduce_scatter and
    dist.all_gather are joined to dist.all_reduce, dist.reduce_scatters and dist.all_gathers of several operands. In program
    order, one smaller than `bucket-bytes` joins a bucket of its kind that is smaller, too, if both have the same axes,
    reduction and element type, are computed in the same steps, and the one does not depend on the other. All_gathers are joined
    if they are of state: ahead of their use, with the same `layer`, or only returned. A reduce_scatter and an all_gather, whose
    blocks are copied into the bucket, also have to be smaller than 128 KiB for each hop of a ring that is saved. Users of a
    result move behind the bucket.
  }];
  let dependentDialects = ["::divisi::dist::DistDialect"];
  let options = [Option<"bucketBytes", "bucket-bytes", "int64_t", "::divisi::step::bucketBytes", "size from which on a bucket is closed">];
}

#endif
