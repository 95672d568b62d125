// RUN: divisi-opt %s --bucket-collectives | FileCheck %s
// RUN: divisi-opt %s --bucket-collectives=bucket-bytes=64 | FileCheck %s --check-prefix=SMALL
// RUN: divisi-opt %s --bucket-collectives=bucket-bytes=0 | FileCheck %s --check-prefix=NONE
// RUN: divisi-opt %s --bucket-collectives --bucket-collectives | FileCheck %s

#mesh = #dist.mesh<"data" = 2, "model" = 2>

// A bucket is closed when it has reached its size: four tensors of 32 bytes, two and two.
// CHECK-LABEL: func.func @sizes
// CHECK: %[[R:.*]]:4 = dist.all_reduce sum over ["data"] %arg0, %arg1, %arg2, %arg3 :
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1, %[[R]]#2, %[[R]]#3
// SMALL-LABEL: func.func @sizes
// SMALL-NEXT: %[[A:.*]]:2 = dist.all_reduce sum over ["data"] %arg0, %arg1 :
// SMALL-NEXT: %[[B:.*]]:2 = dist.all_reduce sum over ["data"] %arg2, %arg3 :
// SMALL-NEXT: return %[[A]]#0, %[[A]]#1, %[[B]]#0, %[[B]]#1
// NONE-LABEL: func.func @sizes
// NONE-COUNT-4: dist.all_reduce sum over ["data"] %{{[a-z0-9]+}} :
func.func @sizes(%a: tensor<8xf32>, %b: tensor<2x4xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>) attributes {dist.partitioned = #mesh} {
  %0 = dist.all_reduce sum over ["data"] %a : (tensor<8xf32>) -> tensor<8xf32>
  %1 = dist.all_reduce sum over ["data"] %b : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = dist.all_reduce sum over ["data"] %c : (tensor<8xf32>) -> tensor<8xf32>
  %3 = dist.all_reduce sum over ["data"] %d : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>
}

// An all_reduce that is larger than a bucket is not combined, and closes the bucket.
// SMALL-LABEL: func.func @large
// SMALL-NEXT: dist.all_reduce sum over ["data"] %arg0 : (tensor<64xf32>)
// SMALL-NEXT: dist.all_reduce sum over ["data"] %arg1, %arg1 :
func.func @large(%a: tensor<64xf32>, %b: tensor<8xf32>) -> (tensor<64xf32>, tensor<8xf32>, tensor<8xf32>)
    attributes {dist.partitioned = #mesh} {
  %0 = dist.all_reduce sum over ["data"] %a : (tensor<64xf32>) -> tensor<64xf32>
  %1 = dist.all_reduce sum over ["data"] %b : (tensor<8xf32>) -> tensor<8xf32>
  %2 = dist.all_reduce sum over ["data"] %b : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %2 : tensor<64xf32>, tensor<8xf32>, tensor<8xf32>
}

// Other axes, another order of them, another reduction or another element type: another bucket.
// CHECK-LABEL: func.func @kinds
// CHECK-DAG: dist.all_reduce sum over ["data"] %arg0, %arg0 : (tensor<8xf32>, tensor<8xf32>)
// CHECK-DAG: dist.all_reduce sum over ["model"] %arg0, %arg0 : (tensor<8xf32>, tensor<8xf32>)
// CHECK-DAG: dist.all_reduce sum over ["data", "model"] %arg0 : (tensor<8xf32>)
// CHECK-DAG: dist.all_reduce sum over ["model", "data"] %arg0 : (tensor<8xf32>)
// CHECK-DAG: dist.all_reduce max over ["data"] %arg0, %arg0 : (tensor<8xf32>, tensor<8xf32>)
// CHECK-DAG: dist.all_reduce sum over ["data"] %arg1, %arg1 : (tensor<8xf16>, tensor<8xf16>)
// CHECK: return
func.func @kinds(%x: tensor<8xf32>, %h: tensor<8xf16>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf16>,
    tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf16>)
    attributes {dist.partitioned = #mesh} {
  %0 = dist.all_reduce sum over ["data"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = dist.all_reduce sum over ["model"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %2 = dist.all_reduce max over ["data"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %3 = dist.all_reduce sum over ["data"] %h : (tensor<8xf16>) -> tensor<8xf16>
  %4 = dist.all_reduce sum over ["data", "model"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %5 = dist.all_reduce sum over ["model", "data"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %6 = dist.all_reduce sum over ["data"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %7 = dist.all_reduce sum over ["model"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %8 = dist.all_reduce max over ["data"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %9 = dist.all_reduce sum over ["data"] %h : (tensor<8xf16>) -> tensor<8xf16>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf16>,
    tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf16>
}

// Users of a result move behind the bucket; an all_reduce that depends on the bucket does not join it.
// CHECK-LABEL: func.func @order
// CHECK-NEXT: %[[N:.*]] = graph.neg %arg0
// CHECK-NEXT: %[[A:.*]]:2 = dist.all_reduce sum over ["data"] %arg0, %[[N]] :
// CHECK-NEXT: %[[E:.*]] = graph.exp %[[A]]#0
// CHECK-NEXT: %[[B:.*]] = dist.all_reduce sum over ["data"] %[[E]] :
// CHECK-NEXT: return %[[B]], %[[A]]#1
func.func @order(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {dist.partitioned = #mesh} {
  %0 = dist.all_reduce sum over ["data"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = graph.exp %0 : tensor<8xf32>
  %2 = dist.all_reduce sum over ["data"] %1 : (tensor<8xf32>) -> tensor<8xf32>
  %3 = graph.neg %x : tensor<8xf32>
  %4 = dist.all_reduce sum over ["data"] %3 : (tensor<8xf32>) -> tensor<8xf32>
  return %2, %4 : tensor<8xf32>, tensor<8xf32>
}

// Buckets of buckets, and an unused result.
// CHECK-LABEL: func.func @again
// CHECK: %[[R:.*]]:3 = dist.all_reduce sum over ["data"] %arg0, %arg1, %arg0 :
// CHECK-NEXT: return %[[R]]#1, %[[R]]#2
func.func @again(%a: tensor<8xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>)
    attributes {dist.partitioned = #mesh} {
  %0:2 = dist.all_reduce sum over ["data"] %a, %b : (tensor<8xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %1 = dist.all_reduce sum over ["data"] %a : (tensor<8xf32>) -> tensor<8xf32>
  return %0#1, %1 : tensor<4xf32>, tensor<8xf32>
}

// Reduce_scatters and all_gathers are combined, each kind alone, whatever dimensions they are over; other collectives stay.
// CHECK-LABEL: func.func @scatters_and_gathers
// CHECK-NEXT: dist.all_to_all
// CHECK-NEXT: dist.all_to_all
// CHECK-NEXT: %[[S:.*]]:2 = dist.reduce_scatters sum dims [0, 1] over ["data"] %arg0, %arg1 : (tensor<8xf32>, tensor<2x4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>)
// CHECK-NEXT: %[[M:.*]] = dist.reduce_scatter max dim 0 over ["data"] %arg0 :
// CHECK-NEXT: %[[G:.*]]:2 = dist.all_gathers %arg1, %[[S]]#0 dims [1, 0] over ["data"] : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x8xf32>, tensor<8xf32>)
// NONE-LABEL: func.func @scatters_and_gathers
// NONE-COUNT-3: dist.reduce_scatter {{.*}} %{{[a-z0-9]+}} :
// NONE-COUNT-2: dist.all_gather %{{[a-z0-9]+}} dim
func.func @scatters_and_gathers(%x: tensor<8xf32>, %y: tensor<2x4xf32>)
    -> (tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<8xf32>, tensor<2x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>)
    attributes {dist.partitioned = #mesh} {
  %a = dist.all_to_all %y dim 0 to 1 over ["data"] : tensor<2x4xf32> -> tensor<4x2xf32>
  %b = dist.all_to_all %y dim 0 to 1 over ["data"] : tensor<2x4xf32> -> tensor<4x2xf32>
  %0 = dist.reduce_scatter sum dim 0 over ["data"] %x : tensor<8xf32> -> tensor<4xf32>
  %1 = dist.reduce_scatter sum dim 1 over ["data"] %y : tensor<2x4xf32> -> tensor<2x2xf32>
  %2 = dist.reduce_scatter max dim 0 over ["data"] %x : tensor<8xf32> -> tensor<4xf32>
  %3 = dist.all_gather %y dim 1 over ["data"] : tensor<2x4xf32> -> tensor<2x8xf32>
  %4 = dist.all_gather %0 dim 0 over ["data"] : tensor<4xf32> -> tensor<8xf32>
  return %0, %1, %2, %4, %3, %a, %b : tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<8xf32>, tensor<2x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// Of two members, copies of 128 KiB take as long as the hop that they save: those run alone.
// CHECK-LABEL: func.func @copies
// CHECK-NEXT: dist.reduce_scatter sum dim 0 over ["data"] %arg0 :
// CHECK-NEXT: dist.reduce_scatter sum dim 0 over ["data"] %arg0 :
// CHECK-NEXT: dist.all_gathers %arg1, %arg1 dims [0, 0] over ["data"] :
func.func @copies(%x: tensor<32768xf32>, %y: tensor<16000xf32>)
    -> (tensor<16384xf32>, tensor<16384xf32>, tensor<32000xf32>, tensor<32000xf32>) attributes {dist.partitioned = #mesh} {
  %0 = dist.reduce_scatter sum dim 0 over ["data"] %x : tensor<32768xf32> -> tensor<16384xf32>
  %1 = dist.reduce_scatter sum dim 0 over ["data"] %x : tensor<32768xf32> -> tensor<16384xf32>
  %2 = dist.all_gather %y dim 0 over ["data"] : tensor<16000xf32> -> tensor<32000xf32>
  %3 = dist.all_gather %y dim 0 over ["data"] : tensor<16000xf32> -> tensor<32000xf32>
  return %0, %1, %2, %3 : tensor<16384xf32>, tensor<16384xf32>, tensor<32000xf32>, tensor<32000xf32>
}

// State that is gathered ahead of its use stays in its layer.
// CHECK-LABEL: func.func @layers
// CHECK-NEXT: dist.all_gathers %arg0, %arg1 dims [0, 0] over ["data"] {layer = 0 : i64} :
// CHECK-NEXT: dist.all_gathers %arg0, %arg0 dims [0, 0] over ["data"] {layer = 1 : i64} :
func.func @layers(%x: tensor<8xf32>, %y: tensor<4xf32>) -> (tensor<16xf32>, tensor<8xf32>, tensor<16xf32>, tensor<16xf32>)
    attributes {dist.partitioned = #mesh} {
  %0 = dist.all_gather %x dim 0 over ["data"] {layer = 0, use = 0} : tensor<8xf32> -> tensor<16xf32>
  %1 = dist.all_gather %y dim 0 over ["data"] {layer = 0, use = 1} : tensor<4xf32> -> tensor<8xf32>
  %2 = dist.all_gather %x dim 0 over ["data"] {layer = 1, use = 2} : tensor<8xf32> -> tensor<16xf32>
  %3 = dist.all_gather %x dim 0 over ["data"] {layer = 1, use = 3} : tensor<8xf32> -> tensor<16xf32>
  return %0, %1, %2, %3 : tensor<16xf32>, tensor<8xf32>, tensor<16xf32>, tensor<16xf32>
}

// What operations wait for is gathered alone; of what is only returned, the gathers over each axis are combined.
// CHECK-LABEL: func.func @waits
// CHECK-NEXT: dist.all_gather %arg0 dim 0
// CHECK-NEXT: dist.all_gather %arg1 dim 0
// CHECK-NEXT: %[[A:.*]]:2 = dist.all_gathers %arg0, %arg1 dims [0, 0] over ["model"]
// CHECK-NEXT: %[[B:.*]]:2 = dist.all_gathers %[[A]]#0, %[[A]]#1 dims [0, 0] over ["data"]
// CHECK-NEXT: graph.neg
// CHECK-NEXT: graph.neg
// CHECK-NEXT: return %{{.*}}, %{{.*}}, %[[B]]#0, %[[B]]#1
func.func @waits(%x: tensor<8xf32>, %y: tensor<4xf32>) -> (tensor<16xf32>, tensor<8xf32>, tensor<32xf32>, tensor<16xf32>)
    attributes {dist.partitioned = #mesh} {
  %0 = dist.all_gather %x dim 0 over ["data"] : tensor<8xf32> -> tensor<16xf32>
  %1 = dist.all_gather %y dim 0 over ["data"] : tensor<4xf32> -> tensor<8xf32>
  %2 = dist.all_gather %x dim 0 over ["model"] : tensor<8xf32> -> tensor<16xf32>
  %3 = dist.all_gather %2 dim 0 over ["data"] : tensor<16xf32> -> tensor<32xf32>
  %4 = dist.all_gather %y dim 0 over ["model"] : tensor<4xf32> -> tensor<8xf32>
  %5 = dist.all_gather %4 dim 0 over ["data"] : tensor<8xf32> -> tensor<16xf32>
  %6 = graph.neg %0 : tensor<16xf32>
  %7 = graph.neg %1 : tensor<8xf32>
  return %6, %7, %3, %5 : tensor<16xf32>, tensor<8xf32>, tensor<32xf32>, tensor<16xf32>
}

// The sum of a sum.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[A:.*]] = dist.all_reduce sum over ["data"] %arg0 : (tensor<8xf32>)
// CHECK-NEXT: %[[B:.*]] = dist.all_reduce sum over ["data"] %[[A]] : (tensor<8xf32>)
// CHECK-NEXT: return %[[B]]
func.func @chain(%x: tensor<8xf32>) -> tensor<8xf32> attributes {dist.partitioned = #mesh} {
  %0 = dist.all_reduce sum over ["data"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = dist.all_reduce sum over ["data"] %0 : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Two buckets that would depend on each other: the one over "model" depends on the first sum, and the last sum depends on it.
// CHECK-LABEL: func.func @cycle
// CHECK-NEXT: %[[D:.*]]:2 = dist.all_reduce sum over ["data"] %arg0, %arg0 :
// CHECK-NEXT: %[[M:.*]]:2 = dist.all_reduce sum over ["model"] %[[D]]#0, %arg0 :
// CHECK-NEXT: %[[L:.*]] = dist.all_reduce sum over ["data"] %[[M]]#1 :
// CHECK-NEXT: return %[[M]]#0, %[[L]], %[[D]]#1
func.func @cycle(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    attributes {dist.partitioned = #mesh} {
  %0 = dist.all_reduce sum over ["data"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = dist.all_reduce sum over ["model"] %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = dist.all_reduce sum over ["model"] %x : (tensor<8xf32>) -> tensor<8xf32>
  %3 = dist.all_reduce sum over ["data"] %2 : (tensor<8xf32>) -> tensor<8xf32>
  %4 = dist.all_reduce sum over ["data"] %x : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %3, %4 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Values that are computed on demand are combined only with values of the same steps.
// CHECK-LABEL: func.func @steps
// CHECK-DAG: %[[N:.*]]:2 = dist.all_reduce sum over ["data"] %arg2, %arg3 :
// CHECK-DAG: %[[A:.*]] = dist.all_reduce sum over ["data"] %arg4 :
// CHECK-DAG: %[[G:.*]]:3 = dist.all_reduce sum over ["data"] %arg0, %arg1, %arg5 :
// CHECK-DAG: %[[R:.*]] = graph.sqrt %[[N]]#0
// CHECK-DAG: %[[S:.*]] = graph.add %[[N]]#1, %[[G]]#2
// CHECK: return %[[G]]#0, %[[R]], %[[S]], %[[A]], %[[G]]#1, %[[G]]#2
func.func @steps(%g: tensor<8xf32>, %h: tensor<8xf32>, %n: tensor<f32>, %m: tensor<f32>, %a: tensor<f32>, %l: tensor<f32>)
    -> (tensor<8xf32>, tensor<f32> {graph.result = {kind = "grad_norm", name = "g", when = 1 : i64}},
    tensor<f32> {graph.result = {kind = "grad_norm", name = "h", when = 1 : i64}},
    tensor<f32> {graph.result = {kind = "accuracy", when = 2 : i64}}, tensor<8xf32>,
    tensor<f32> {graph.result = {kind = "loss"}}) attributes {dist.partitioned = #mesh} {
  %0 = dist.all_reduce sum over ["data"] %g : (tensor<8xf32>) -> tensor<8xf32>
  %1 = dist.all_reduce sum over ["data"] %n : (tensor<f32>) -> tensor<f32>
  %2 = graph.sqrt %1 : tensor<f32>
  %3 = dist.all_reduce sum over ["data"] %a : (tensor<f32>) -> tensor<f32>
  %4 = dist.all_reduce sum over ["data"] %h : (tensor<8xf32>) -> tensor<8xf32>
  %5 = dist.all_reduce sum over ["data"] %m : (tensor<f32>) -> tensor<f32>
  // The loss is computed in every step, even if a norm also depends on it.
  %6 = dist.all_reduce sum over ["data"] %l : (tensor<f32>) -> tensor<f32>
  %7 = graph.add %5, %6 : tensor<f32>
  return %0, %2, %7, %3, %4, %6 : tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<f32>
}

// %2 depends on what precedes %3, but is combined with what depends on %3: so the last one depends on %3, too, and is not combined with it.
// CHECK-LABEL: func.func @behind_a_bucket
// CHECK-NEXT: %[[C:.*]] = dist.all_reduce max over ["model"] %arg1 :
// CHECK-NEXT: %[[N:.*]] = graph.neg %[[C]]
// CHECK-NEXT: %[[R:.*]]:2 = dist.all_reduce sum over ["data"] %arg0, %[[N]] :
// CHECK-NEXT: %[[P:.*]] = graph.abs %[[R]]#0
// CHECK-NEXT: %[[E:.*]] = dist.all_reduce max over ["model"] %[[P]] :
// CHECK-NEXT: return %[[R]]#1, %[[E]]
func.func @behind_a_bucket(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    attributes {dist.partitioned = #mesh} {
  %1 = dist.all_reduce sum over ["data"] %a : (tensor<8xf32>) -> tensor<8xf32>
  %2 = graph.abs %1 : tensor<8xf32>
  %3 = dist.all_reduce max over ["model"] %b : (tensor<8xf32>) -> tensor<8xf32>
  %4 = graph.neg %3 : tensor<8xf32>
  %5 = dist.all_reduce sum over ["data"] %4 : (tensor<8xf32>) -> tensor<8xf32>
  %6 = dist.all_reduce max over ["model"] %2 : (tensor<8xf32>) -> tensor<8xf32>
  return %5, %6 : tensor<8xf32>, tensor<8xf32>
}
