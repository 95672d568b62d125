#ifndef DIVISI_PASSES_PARTITIONING
#define DIVISI_PASSES_PARTITIONING

include "mlir/Pass/PassBase.td"

def PartitionPass : Pass<"partition", "::mlir::ModuleOp"> {
  let summary = "Carries a plan out: local shapes, explicit collectives";
  let description = [{
    Input: planned functions (`dist.mesh`; every type carries its sharding). Output: the program of one device, the same for all:
    local types without shardings, collectives in the place of dist.reshard, `dist.partitioned`. Operations that depend on the
    place of their piece read its index from new scalar arguments (`axis_index.NAME`). Split arguments keep their global type
    in `dist.global`, for loading and checkpoints.
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect", "::divisi::dist::DistDialect"];
}

def BucketGradientsPass : Pass<"bucket-gradients", "::mlir::func::FuncOp"> {
  let summary = "Combines all_reduces of equal kind into buckets that travel together";
  let description = [{
    Input: partitioned functions. Output: the same with fewer dist.all_reduce: in program order, those over the same axes, of one
    kind and element type, that are needed in the same steps, join a bucket while it is smaller than `bucket-bytes`, if they are
    smaller themselves and do not depend on it. What uses a result moves behind the bucket.
  }];
  let dependentDialects = ["::divisi::dist::DistDialect"];
  let options = [Option<"bucketBytes", "bucket-bytes", "int64_t", "1048576", "size from which on a bucket is closed">];
}

#endif
