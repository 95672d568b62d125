// RUN: divisi-opt %s --form-kernels --place-awaits --split-input-file | FileCheck %s
// RUN: divisi-opt %s --form-kernels --place-awaits --assign-buffers --split-input-file \
// RUN:   | FileCheck %s --check-prefix=PLACES

// A collective is started as soon as its operands are computed, and awaited before the first use of a result; its label has
// the names of its parameters.
// CHECK-LABEL: func.func @train
// CHECK: %[[R:.*]]:2 = exec.call dist.all_reduce {axes = ["data"], kind = #dist<reduction sum>} (%arg0, %arg1) {id = 0 : i64, label = "all_reduce of w, v"}
// CHECK-NEXT: %[[G:.*]] = exec.call graph.matmul (%arg0, %arg0)
// CHECK-NEXT: exec.await 0(%arg0, %arg1, %[[R]]#0, %[[R]]#1) :
// CHECK-SAME: tensor<64x64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64xf32>
// CHECK-NEXT: exec.call graph.matmul (%[[G]], %[[R]]#0)
// CHECK-NEXT: exec.kernel rows 64(%[[R]]#1)
// CHECK-NOT: exec.await
// CHECK: return
#mesh = #dist.mesh<"data" = 2, "model" = 2>
func.func @train(%x: tensor<64x64xf32> {graph.input = "x"}, %b: tensor<64xf32> {graph.input = "b"})
    -> (tensor<64x64xf32> {graph.output = "y"}, tensor<64xf32> {graph.output = "z"})
    attributes {dist.partitioned = #mesh} {
  %0:2 = dist.all_reduce sum over ["data"] %x, %b : (tensor<64x64xf32>, tensor<64xf32>)
      -> (tensor<64x64xf32>, tensor<64xf32>) loc(fused["w", "v"])
  %1 = graph.matmul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = graph.matmul %1, %0#0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = graph.exp %0#1 : tensor<64xf32>
  return %2, %3 : tensor<64x64xf32>, tensor<64xf32>
}

// Numbers continue in the next task; a collective that is only returned is awaited at the end; a chain is awaited one by one.
// CHECK-LABEL: func.func @evaluate
// CHECK: %[[A:.*]] = exec.call dist.all_reduce {{.*}}(%arg0) {id = 1 : i64, label = "all_reduce"}
// CHECK-NEXT: exec.await 1(%arg0, %[[A]]) : tensor<64xf32>, tensor<64xf32>
// CHECK-NEXT: %[[B:.*]] = exec.call dist.permute {{.*}}(%[[A]]) {id = 2 : i64, label = "permute"}
// CHECK-NEXT: exec.await 2(%[[A]], %[[B]]) : tensor<64xf32>, tensor<64xf32>
// CHECK-NEXT: return %[[B]]
func.func @evaluate(%x: tensor<64xf32> {graph.input = "x"}) -> (tensor<64xf32> {graph.output = "y"})
    attributes {dist.partitioned = #mesh} {
  %0 = dist.all_reduce min over ["data", "model"] %x : (tensor<64xf32>) -> tensor<64xf32>
  %1 = dist.permute %0 by 1 over ["data"] : tensor<64xf32> -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// -----

// What is computed on demand is awaited on demand, too.
// CHECK-LABEL: func.func @train
// CHECK: %[[G:.*]] = exec.call dist.all_gather {{.*}}(%arg0) {id = 0 : i64, label = "all_gather", when = 1 : i64}
// CHECK: exec.await 0(%arg0, %[[G]]) {when = 1 : i64} : tensor<64xf32>, tensor<128xf32>
// CHECK-NEXT: %[[S:.*]] = exec.call dist.reduce_scatter {{.*}}(%[[G]]) {id = 1 : i64, {{.*}}when = 1 : i64}
// CHECK-NEXT: exec.await 1(%[[G]], %[[S]]) {when = 1 : i64}
#mesh = #dist.mesh<"data" = 2>
func.func @train(%b: tensor<64xf32> {graph.input = "b"})
    -> (tensor<64xf32> {graph.result = {kind = "grad_norm", when = 1}}) attributes {dist.partitioned = #mesh} {
  %0 = dist.all_gather %b dim 0 over ["data"] : tensor<64xf32> -> tensor<128xf32>
  %1 = dist.reduce_scatter max dim 0 over ["data"] %0 : tensor<128xf32> -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// -----

// More than three names are abbreviated to their number.
// CHECK-LABEL: func.func @train
// CHECK: label = "all_reduce of a, b, c and 2 more"
#mesh = #dist.mesh<"data" = 2>
func.func @train(%x: tensor<64xf32> {graph.input = "x"}) -> (tensor<64xf32> {graph.output = "y"})
    attributes {dist.partitioned = #mesh} {
  %0 = dist.all_reduce sum over ["data"] %x : (tensor<64xf32>) -> tensor<64xf32>
      loc(fused["a", "b", "a", "c", "d", "e"])
  return %0 : tensor<64xf32>
}

// -----

// While a collective is in flight, its operands are not overwritten: the new state, which could replace the old one, is
// computed elsewhere.
// PLACES: func.func @train(%arg0: tensor<64x64xf32> {exec.offset = [[W:[0-9]+]] : i64, graph.state = {name = "w"
// PLACES: %[[G:.*]] = exec.call dist.all_gather {{.*}}(%arg0) {id = 0 : i64,
// PLACES-NEXT: %[[N:.*]] = exec.kernel
// PLACES-NOT: offsets = array<i64: [[W]]>
// PLACES: exec.await 0(%arg0, %[[G]])
// PLACES: exec.copy %[[N]] {offsets = array<i64: [[W]]>}
#mesh = #dist.mesh<"data" = 2>
func.func @train(%w: tensor<64x64xf32> {graph.state = {name = "w", role = "parameter"}})
    -> (tensor<64x64xf32> {graph.renews = "w"}, tensor<64x128xf32> {graph.output = "y"})
    attributes {dist.partitioned = #mesh} {
  %0 = dist.all_gather %w dim 0 over ["data"] : tensor<64x64xf32> -> tensor<128x64xf32>
  %1 = graph.exp %w : tensor<64x64xf32>
  %2 = graph.matmul %1, %0 {transpose_rhs} : (tensor<64x64xf32>, tensor<128x64xf32>) -> tensor<64x128xf32>
  return %1, %2 : tensor<64x64xf32>, tensor<64x128xf32>
}
