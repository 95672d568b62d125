// RUN: divisi-opt %s --split-input-file --plan=mesh=data=4 | FileCheck %s --check-prefix=DATA
// RUN: divisi-opt %s --split-input-file --plan=mesh=model=2 | FileCheck %s --check-prefix=MODEL

// A batch of 63 in 4 shards: the program itself pads its inputs, and slices its results. Contractions over the
// batch do not read the padding: zeros in all operands of a contraction (values computed from zeros may be infinite), zeros in a
// sum, the largest number of its type in a minimum.
// DATA-LABEL: func.func @train
// DATA-SAME: %arg1: tensor<63x7xf32> {graph.input = "x"}
// DATA-SAME: %arg2: tensor<63xi64> {graph.input = "t", graph.padding = -100 : i64}
// DATA-DAG: %[[T:.*]] = graph.pad %arg2 {graph.neutral, {{.*}}value = -1.000000e+02 : f64} : {{.*}} -> tensor<64xi64>
// DATA-DAG: %[[X:.*]] = graph.pad %arg1 {graph.neutral, {{.*}}value = 0.000000e+00 : f64} : {{.*}} -> tensor<64x7xf32>
// DATA-DAG: %[[XS:.*]] = dist.reshard %[[X]] : tensor<64x7xf32> -> tensor<64x7xf32, #data-_>
// DATA-DAG: %[[TS:.*]] = dist.reshard %[[T]] : tensor<64xi64> -> tensor<64xi64, #data>
// DATA: %[[H:.*]] = graph.matmul %[[XS]], %arg0 {{.*}} -> tensor<64x8xf32, #data-_>
// DATA: %[[R:.*]] = graph.sigmoid %[[H]]
// DATA: %[[I:.*]] = graph.iota {dim = 0 : i64} : tensor<64xi64, #data>
// DATA: %[[N:.*]] = graph.constant dense<63> : tensor<64xi64, #data>
// DATA: %[[IN:.*]] = graph.compare lt %[[I]], %[[N]]
// DATA: %[[MASK:.*]] = graph.broadcast %[[IN]]
// DATA: %[[ZERO:.*]] = graph.constant dense<0.000000e+00> : tensor<64x8xf32, #data-_>
// DATA-NEXT: %[[P:.*]] = graph.select %[[MASK]], %[[R]], %[[ZERO]]
// DATA: graph.matmul %[[P]], %[[XS]] {transpose_lhs} {{.*}} -> tensor<8x7xf32, #_-_-sum-data>
// DATA: %[[S:.*]] = graph.select %{{.*}}, %[[R]], %{{.*}} -> tensor<64x8xf32, #data-_>
// DATA-NEXT: graph.reduce_sum %[[S]] {{.*}} -> tensor<8xf32, #_-sum-data>
// DATA: %[[BELOW:.*]] = graph.constant dense<0xFF800000> : tensor<64x8xf32, #data-_>
// DATA-NEXT: %[[M:.*]] = graph.select %{{.*}}, %[[H]], %[[BELOW]]
// DATA-NEXT: graph.reduce_max %[[M]] {{.*}} -> tensor<8xf32, #_-max-data>
// DATA: %[[ABOVE:.*]] = graph.constant dense<9223372036854775807> : tensor<64xi64, #data>
// DATA-NEXT: %[[K:.*]] = graph.select %{{.*}}, %[[TS]], %[[ABOVE]] : {{.*}} -> tensor<64xi64, #data>
// DATA-NEXT: graph.reduce_min %[[K]] {{.*}} -> tensor<i64, #min-data>

// DATA-LABEL: func.func @evaluate
// DATA: %[[Y:.*]] = graph.matmul {{.*}} -> tensor<64x8xf32, #data-_>
// An operation that must be whole gets 63 rows, and its result is padded again.
// DATA: %[[W:.*]] = dist.reshard %[[Y]] : tensor<64x8xf32, #data-_> -> tensor<64x8xf32>
// DATA: %[[C:.*]] = graph.slice %[[W]] {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} {{.*}} -> tensor<63x8xf32>
// DATA: %[[CUM:.*]] = graph.cumsum %[[C]] {dim = 0 : i64} : (tensor<63x8xf32>) -> tensor<63x8xf32>
// DATA: graph.pad %[[CUM]] {graph.neutral, {{.*}} -> tensor<64x8xf32>
// DATA: graph.argmax %{{.*}} -> tensor<64xi64, #data>
// DATA: %[[A:.*]] = graph.slice {{.*}} -> tensor<63xi64>
// DATA-NEXT: return %[[A]]
func.func @train(%w: tensor<8x7xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<63x7xf32> {graph.input = "x"}, %t: tensor<63xi64> {graph.input = "t", graph.padding = -100 : i64})
    -> (tensor<8x7xf32> {graph.renews = "w"}, tensor<8xf32>, tensor<8xf32>, tensor<i64>) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<63x7xf32>, tensor<8x7xf32>) -> tensor<63x8xf32>
  %r = graph.sigmoid %h : tensor<63x8xf32>
  %g = graph.matmul %r, %x {transpose_lhs} : (tensor<63x8xf32>, tensor<63x7xf32>) -> tensor<8x7xf32>
  %n = graph.sub %w, %g : tensor<8x7xf32>
  %s = graph.reduce_sum %r {dims = array<i64: 0>} : (tensor<63x8xf32>) -> tensor<8xf32>
  %m = graph.reduce_max %h {dims = array<i64: 0>} : (tensor<63x8xf32>) -> tensor<8xf32>
  %k = graph.reduce_min %t {dims = array<i64: 0>} : (tensor<63xi64>) -> tensor<i64>
  return %n, %s, %m, %k : tensor<8x7xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i64>
}
func.func @evaluate(%w: tensor<8x7xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<63x7xf32> {graph.input = "x"}) -> (tensor<63xi64> {graph.output = "y"}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<63x7xf32>, tensor<8x7xf32>) -> tensor<63x8xf32>
  %c = graph.cumsum %h {dim = 0 : i64} : (tensor<63x8xf32>) -> tensor<63x8xf32>
  %p = graph.argmax %h {dim = 1 : i64} : (tensor<63x8xf32>) -> tensor<63xi64>
  %q = graph.argmax %c {dim = 1 : i64} : (tensor<63x8xf32>) -> tensor<63xi64>
  %u = graph.add %p, %q : tensor<63xi64>
  return %u : tensor<63xi64>
}

// -----

// 53 hidden columns in 2 shards: the weights themselves are larger, with zeros at the end, which stay zeros.
// MODEL-LABEL: func.func @train
// MODEL-LABEL: func.func @evaluate
// MODEL-LABEL: func.func @train
// MODEL-SAME: %arg0: tensor<54x7xf32, #model-_> {graph.state = {name = "w"{{.*}} graph.unpadded = array<i64: 53, 7>}
// MODEL-SAME: %arg1: tensor<5x54xf32, #_-model> {graph.state = {name = "v"{{.*}} graph.unpadded = array<i64: 5, 53>}
// MODEL-SAME: %arg2: tensor<12x7xf32>
// MODEL: %[[H:.*]] = graph.matmul %arg2, %arg0 {{.*}} -> tensor<12x54xf32, #_-model>
// MODEL-NEXT: %[[E:.*]] = graph.exp %[[H]] : tensor<12x54xf32, #_-model>
// The zeros of the second weight are not enough for a contraction: ones, here, but they may be infinite.
// MODEL: %[[P:.*]] = graph.select %{{.*}}, %[[E]], %{{.*}} -> tensor<12x54xf32, #_-model>
// MODEL: graph.matmul %[[P]], %arg1 {{.*}} -> tensor<12x5xf32, #_-_-sum-model>
// MODEL: %[[S:.*]] = graph.select %{{.*}}, %[[E]], %{{.*}} -> tensor<12x54xf32, #_-model>
// MODEL-NEXT: graph.reduce_sum %[[S]] {{.*}} -> tensor<f32, #sum-model>
// All library calls read the zeros, so that the new weights have zeros, too.
// MODEL: %[[G:.*]] = graph.matmul %[[P]], %arg2 {transpose_lhs} {{.*}} -> tensor<54x7xf32, #model-_>
// MODEL: %[[NEW:.*]] = graph.sub %arg0, %[[G]]
// MODEL: %[[Z:.*]] = graph.sub %arg1, %{{.*}} : tensor<5x54xf32, #_-model>
// MODEL-NEXT: return %[[NEW]], %[[Z]]
// MODEL-LABEL: func.func @evaluate
// MODEL: %[[E:.*]] = graph.exp
// MODEL: %[[A:.*]] = dist.reshard %[[E]] : tensor<12x54xf32, #_-model> -> tensor<12x54xf32>
// MODEL: graph.slice %[[A]] {{.*}} -> tensor<12x53xf32>
func.func @train(%w: tensor<53x7xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %v: tensor<5x53xf32> {graph.state = {name = "v", role = "parameter", trainable = true}},
    %x: tensor<12x7xf32> {graph.input = "x"}) -> (tensor<53x7xf32> {graph.renews = "w"},
    tensor<5x53xf32> {graph.renews = "v"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<12x7xf32>, tensor<53x7xf32>) -> tensor<12x53xf32>
  %e = graph.exp %h : tensor<12x53xf32>
  %y = graph.matmul %e, %v {transpose_rhs} : (tensor<12x53xf32>, tensor<5x53xf32>) -> tensor<12x5xf32>
  %l = graph.reduce_sum %e {dims = array<i64: 0, 1>} : (tensor<12x53xf32>) -> tensor<f32>
  %g = graph.matmul %e, %x {transpose_lhs} : (tensor<12x53xf32>, tensor<12x7xf32>) -> tensor<53x7xf32>
  %n = graph.sub %w, %g : tensor<53x7xf32>
  %q = graph.matmul %y, %h {transpose_lhs} : (tensor<12x5xf32>, tensor<12x53xf32>) -> tensor<5x53xf32>
  %z = graph.sub %v, %q : tensor<5x53xf32>
  return %n, %z, %l : tensor<53x7xf32>, tensor<5x53xf32>, tensor<f32>
}
func.func @evaluate(%w: tensor<53x7xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %v: tensor<5x53xf32> {graph.state = {name = "v", role = "parameter", trainable = true}},
    %x: tensor<12x7xf32> {graph.input = "x"}) -> (tensor<12x53xf32> {graph.output = "e"}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<12x7xf32>, tensor<53x7xf32>) -> tensor<12x53xf32>
  %e = graph.exp %h : tensor<12x53xf32>
  return %e : tensor<12x53xf32>
}

// -----

// A batch is padded by any amount, as long as each shard may have a row.
// DATA-LABEL: func.func @evaluate
// DATA-LABEL: func.func @evaluate
// DATA-SAME: %arg1: tensor<5x8xf32> {graph.input = "x"}
// DATA: graph.pad %arg1 {{.*}} -> tensor<8x8xf32>
// DATA: graph.matmul {{.*}} -> tensor<8x8xf32, #data-_>
// DATA: graph.slice {{.*}} -> tensor<5x8xf32>
func.func @evaluate(%w: tensor<8x8xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<5x8xf32> {graph.input = "x"}) -> (tensor<5x8xf32> {graph.output = "y"}) {
  %h = graph.matmul %x, %w : (tensor<5x8xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
  return %h : tensor<5x8xf32>
}

// -----

// Three rows are not padded to four.
// DATA-LABEL: func.func @evaluate
// DATA-SAME: %arg1: tensor<3x8xf32> {graph.input = "x"}
// DATA-NOT: graph.pad
// DATA-NOT: dist.reshard
func.func @evaluate(%w: tensor<8x8xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<3x8xf32> {graph.input = "x"}) -> (tensor<3x8xf32> {graph.output = "y"}) {
  %h = graph.matmul %x, %w : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32>
  return %h : tensor<3x8xf32>
}

// -----

// A weight is not padded by more than a quarter: three columns stay three.
// MODEL-LABEL: func.func @evaluate
// MODEL-LABEL: func.func @evaluate
// MODEL-LABEL: func.func @evaluate
// MODEL-SAME: %arg0: tensor<3x3xf32> {graph.state
// MODEL-NOT: graph.pad
// MODEL: return
func.func @evaluate(%w: tensor<3x3xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<8x3xf32> {graph.input = "x"}) -> (tensor<8x3xf32> {graph.output = "y"}) {
  %h = graph.matmul %x, %w : (tensor<8x3xf32>, tensor<3x3xf32>) -> tensor<8x3xf32>
  return %h : tensor<8x3xf32>
}

// -----

// Integers have an exact smallest and largest number, signed or not.
// DATA-LABEL: func.func @evaluate
// DATA-LABEL: func.func @evaluate
// DATA: %[[LEAST:.*]] = graph.constant dense<-2147483648> : tensor<64x4xi32, #data-_>
// DATA-NEXT: graph.select {{.*}}, %[[LEAST]] :
// DATA: graph.reduce_max
// DATA: %[[ZERO:.*]] = graph.constant dense<0> : tensor<64x4xui8, #data-_>
// DATA-NEXT: graph.select {{.*}}, %[[ZERO]] :
// DATA: graph.reduce_max
// DATA: %[[MOST:.*]] = graph.constant dense<255> : tensor<64x4xui8, #data-_>
// DATA-NEXT: graph.select {{.*}}, %[[MOST]] :
// DATA: graph.reduce_min
// DATA: %[[INF:.*]] = graph.constant dense<0x7C00> : tensor<64x4xf16, #data-_>
// DATA-NEXT: graph.select {{.*}}, %[[INF]] :
// DATA: graph.reduce_min
func.func @evaluate(%i: tensor<61x4xi32> {graph.input = "i"}, %u: tensor<61x4xui8> {graph.input = "u"},
    %f: tensor<61x4xf16> {graph.input = "f"}) -> (tensor<4xi32> {graph.output = "a"}, tensor<4xui8> {graph.output = "b"},
    tensor<4xui8> {graph.output = "c"}, tensor<4xf16> {graph.output = "d"}) {
  %a = graph.reduce_max %i {dims = array<i64: 0>} : (tensor<61x4xi32>) -> tensor<4xi32>
  %b = graph.reduce_max %u {dims = array<i64: 0>} : (tensor<61x4xui8>) -> tensor<4xui8>
  %c = graph.reduce_min %u {dims = array<i64: 0>} : (tensor<61x4xui8>) -> tensor<4xui8>
  %d = graph.reduce_min %f {dims = array<i64: 0>} : (tensor<61x4xf16>) -> tensor<4xf16>
  return %a, %b, %c, %d : tensor<4xi32>, tensor<4xui8>, tensor<4xui8>, tensor<4xf16>
}
