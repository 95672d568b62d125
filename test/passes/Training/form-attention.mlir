// RUN: divisi-opt %s --form-attention --canonicalize --split-input-file | FileCheck %s
// RUN: divisi-opt %s --form-attention=type=f16 --canonicalize --split-input-file | FileCheck %s --check-prefix=HALF
// RUN: divisi-opt %s --form-attention=least-scores=256 --split-input-file | FileCheck %s --check-prefix=MANY
// RUN: divisi-opt %s --form-attention=least-scores=257 --split-input-file | FileCheck %s --check-prefix=FEW --implicit-check-not=graph.attention

// As PyTorch exports it: factors on q and k, a transposed k, a mask made from indices. Transposes of heads vanish.
// CHECK-LABEL: @sdpa
// CHECK-NOT: graph.transpose
// CHECK-DAG: %[[Q:.*]] = graph.cast %arg0 : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x8xbf16>
// CHECK-DAG: %[[K:.*]] = graph.cast %arg1
// CHECK-DAG: %[[V:.*]] = graph.cast %arg2
// CHECK: %[[O:.*]], %{{.*}} = graph.attention %[[Q]], %[[K]], %[[V]] {causal, scale = 2.500000e-01 : f64} : {{.*}} -> (tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>)
// CHECK-NEXT: %[[R:.*]] = graph.cast %[[O]] : (tensor<2x16x4x8xbf16>) -> tensor<2x16x4x8xf32>
// CHECK-NEXT: return %[[R]]
// HALF-LABEL: @sdpa
// HALF: graph.attention {{.*}} -> (tensor<2x16x4x8xf16>, tensor<2x4x16xf32>)
// MANY-LABEL: @sdpa
// MANY: graph.attention
// FEW-LABEL: @sdpa
// FEW: graph.softmax
func.func @sdpa(%q: tensor<2x16x4x8xf32>, %k: tensor<2x16x4x8xf32>, %v: tensor<2x16x4x8xf32>) -> tensor<2x16x4x8xf32> {
  %c = graph.constant dense<5.000000e-01> : tensor<2x4x16x8xf32>
  %ct = graph.constant dense<5.000000e-01> : tensor<2x4x8x16xf32>
  %zero = graph.constant dense<0.0> : tensor<16x16xf32>
  %one = graph.constant dense<1.0> : tensor<16x16xf32>
  %minus = graph.constant dense<0xFF800000> : tensor<16x16xf32>
  %none = graph.constant dense<0> : tensor<16x16xi64>
  %i = graph.iota {dim = 0 : i64} : tensor<16x16xi64>
  %j = graph.iota {dim = 1 : i64} : tensor<16x16xi64>
  %d = graph.sub %j, %i : tensor<16x16xi64>
  %kept = graph.compare le %d, %none : (tensor<16x16xi64>, tensor<16x16xi64>) -> tensor<16x16xi1>
  %tril = graph.select %kept, %one, %zero : (tensor<16x16xi1>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %masked = graph.compare eq %tril, %zero : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xi1>
  %mask = graph.select %masked, %minus, %zero : (tensor<16x16xi1>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %qt = graph.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %kt = graph.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x8x16xf32>
  %vt = graph.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %qs = graph.mul %qt, %c : tensor<2x4x16x8xf32>
  %ks = graph.mul %kt, %ct : tensor<2x4x8x16xf32>
  %s = graph.matmul %qs, %ks : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x16x16xf32>
  %all = graph.broadcast %mask {dims = array<i64: 2, 3>} : (tensor<16x16xf32>) -> tensor<2x4x16x16xf32>
  %sum = graph.add %s, %all : tensor<2x4x16x16xf32>
  %p = graph.softmax %sum {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %vt : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %r = graph.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  return %r : tensor<2x16x4x8xf32>
}

// -----

// A mask of keys that comes with the batch is a bias of its own shape; the factor is a division.
// CHECK-LABEL: @padding
// CHECK: %[[M:.*]] = graph.reshape %arg3 : (tensor<2x16xi1>) -> tensor<2x1x1x16xi1>
// CHECK: %[[B:.*]] = graph.select %[[M]], %{{.*}}, %{{.*}} : {{.*}} -> tensor<2x1x1x16xf32>
// CHECK: graph.attention {{.*}}, %[[B]] {scale = 2.500000e-01 : f64} :
func.func @padding(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %m: tensor<2x16xi1>) -> tensor<2x4x16x8xf32> {
  %four = graph.constant dense<4.0> : tensor<2x4x16x16xf32>
  %least = graph.constant dense<-3.40282347E+38> : tensor<2x4x16x16xf32>
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %d = graph.div %s, %four : tensor<2x4x16x16xf32>
  %all = graph.broadcast %m {dims = array<i64: 0, 3>} : (tensor<2x16xi1>) -> tensor<2x4x16x16xi1>
  %x = graph.select %all, %d, %least : (tensor<2x4x16x16xi1>, tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %p = graph.softmax %x {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// -----

// A condition that masks the keys behind a query, and one key more: not the causal mask, but a bias.
// CHECK-LABEL: @selected
// CHECK: graph.attention {{.*}} {causal, scale
// CHECK-LABEL: @one_more
// CHECK-NOT: causal
// CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {scale
func.func @selected(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %least = graph.constant dense<-1.0e+30> : tensor<2x4x16x16xf32>
  %i = graph.iota {dim = 0 : i64} : tensor<16x16xi64>
  %j = graph.iota {dim = 1 : i64} : tensor<16x16xi64>
  %m = graph.compare gt %j, %i : (tensor<16x16xi64>, tensor<16x16xi64>) -> tensor<16x16xi1>
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %all = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<16x16xi1>) -> tensor<2x4x16x16xi1>
  %x = graph.select %all, %least, %s : (tensor<2x4x16x16xi1>, tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %p = graph.softmax %x {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}
func.func @one_more(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %least = graph.constant dense<-1.0e+30> : tensor<2x4x16x16xf32>
  %one = graph.constant dense<1> : tensor<16x16xi64>
  %i = graph.iota {dim = 0 : i64} : tensor<16x16xi64>
  %j = graph.iota {dim = 1 : i64} : tensor<16x16xi64>
  %n = graph.add %i, %one : tensor<16x16xi64>
  %m = graph.compare gt %j, %n : (tensor<16x16xi64>, tensor<16x16xi64>) -> tensor<16x16xi1>
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %all = graph.broadcast %m {dims = array<i64: 2, 3>} : (tensor<16x16xi1>) -> tensor<2x4x16x16xi1>
  %x = graph.select %all, %least, %s : (tensor<2x4x16x16xi1>, tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %p = graph.softmax %x {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// -----

// A trained bias needs its gradient, probabilities with two uses must be computed, and libraries require multiples of 8.
// CHECK-LABEL: @trained
// CHECK-NOT: graph.attention
// CHECK-LABEL: @used
// CHECK-NOT: graph.attention
// CHECK-LABEL: @depth
// CHECK-NOT: graph.attention
func.func @trained(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>,
                   %b: tensor<2x4x16x16xf32> {graph.parameter = "b"}) -> tensor<2x4x16x8xf32> {
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %x = graph.add %s, %b : tensor<2x4x16x16xf32>
  %p = graph.softmax %x {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}
func.func @used(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16x16xf32>) {
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %p = graph.softmax %s {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o, %p : tensor<2x4x16x8xf32>, tensor<2x4x16x16xf32>
}
func.func @depth(%q: tensor<2x4x16x6xf32>, %k: tensor<2x4x16x6xf32>, %v: tensor<2x4x16x6xf32>) -> tensor<2x4x16x6xf32> {
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x6xf32>, tensor<2x4x16x6xf32>) -> tensor<2x4x16x16xf32>
  %p = graph.softmax %s {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x6xf32>) -> tensor<2x4x16x6xf32>
  return %o : tensor<2x4x16x6xf32>
}

// -----

// A factor of a mask is not a factor of the scores, on either side. If all keys of a query are masked, finite numbers that replace scores,
// or are added to them, still matter: such masks are kept. A mask that differs between heads does not depend on indices alone, and its
// number is so large that adding the score does not change it.
// CHECK-LABEL: @factor
// CHECK: graph.mul %arg3
// CHECK: graph.attention %{{.*}} {scale = 1.000000e+00 : f64}
// CHECK-LABEL: @both
// CHECK-NOT: graph.attention
// CHECK-LABEL: @heads
// CHECK-NOT: causal
// CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {scale
func.func @factor(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %m: tensor<2x4x16x16xf32>) -> tensor<2x4x16x8xf32> {
  %c = graph.constant dense<3.0> : tensor<2x4x16x16xf32>
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %f = graph.mul %m, %c : tensor<2x4x16x16xf32>
  %x = graph.add %f, %s : tensor<2x4x16x16xf32>
  %p = graph.softmax %x {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}
func.func @both(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %b: tensor<2x4x16x16xf32>) -> tensor<2x4x16x8xf32> {
  %least = graph.constant dense<-1.0e+30> : tensor<2x4x16x16xf32>
  %i = graph.iota {dim = 2 : i64} : tensor<2x4x16x16xi64>
  %j = graph.iota {dim = 3 : i64} : tensor<2x4x16x16xi64>
  %m = graph.compare gt %j, %i : (tensor<2x4x16x16xi64>, tensor<2x4x16x16xi64>) -> tensor<2x4x16x16xi1>
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %y = graph.add %s, %b : tensor<2x4x16x16xf32>
  %x = graph.select %m, %least, %y : (tensor<2x4x16x16xi1>, tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %p = graph.softmax %x {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}
func.func @heads(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %least = graph.constant dense<-1.0e+30> : tensor<2x4x16x16xf32>
  %i = graph.iota {dim = 2 : i64} : tensor<2x4x16x16xi64>
  %h = graph.iota {dim = 1 : i64} : tensor<2x4x16x16xi64>
  %n = graph.add %i, %h : tensor<2x4x16x16xi64>
  %j = graph.iota {dim = 3 : i64} : tensor<2x4x16x16xi64>
  %m = graph.compare gt %j, %n : (tensor<2x4x16x16xi64>, tensor<2x4x16x16xi64>) -> tensor<2x4x16x16xi1>
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %x = graph.select %m, %least, %s : (tensor<2x4x16x16xi1>, tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %p = graph.softmax %x {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// -----

// Ranges, with a step and a start; numbers that do not fit into a type are not followed.
// CHECK-LABEL: @range
// CHECK: graph.attention {{.*}} {causal, scale
// CHECK-LABEL: @byte
// CHECK-NOT: causal
// CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {scale
func.func @range(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %least = graph.constant dense<0xFF800000> : tensor<16x16xf32>
  %zero = graph.constant dense<0.0> : tensor<16x16xf32>
  %one = graph.constant dense<1> : tensor<16xi64>
  %none = graph.constant dense<0> : tensor<16xi64>
  %n = graph.iota {dim = 0 : i64} : tensor<16xi64>
  %d = graph.mul %n, %one : tensor<16xi64>
  %r = graph.add %d, %none : tensor<16xi64>
  %i = graph.broadcast %r {dims = array<i64: 0>} : (tensor<16xi64>) -> tensor<16x16xi64>
  %j = graph.broadcast %r {dims = array<i64: 1>} : (tensor<16xi64>) -> tensor<16x16xi64>
  %m = graph.compare lt %i, %j : (tensor<16x16xi64>, tensor<16x16xi64>) -> tensor<16x16xi1>
  %a = graph.select %m, %least, %zero : (tensor<16x16xi1>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %all = graph.broadcast %a {dims = array<i64: 2, 3>} : (tensor<16x16xf32>) -> tensor<2x4x16x16xf32>
  %x = graph.add %s, %all : tensor<2x4x16x16xf32>
  %p = graph.softmax %x {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}
func.func @byte(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %least = graph.constant dense<-1.0e+9> : tensor<16x16xf32>
  %zero = graph.constant dense<0.0> : tensor<16x16xf32>
  %i = graph.iota {dim = 0 : i64} : tensor<16x16xi64>
  %j = graph.iota {dim = 1 : i64} : tensor<16x16xi64>
  %m = graph.compare lt %i, %j : (tensor<16x16xi64>, tensor<16x16xi64>) -> tensor<16x16xi1>
  %a = graph.select %m, %least, %zero : (tensor<16x16xi1>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %c = graph.cast %a : (tensor<16x16xf32>) -> tensor<16x16xi8>
  %f = graph.cast %c : (tensor<16x16xi8>) -> tensor<16x16xf32>
  %s = graph.matmul %q, %k {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %all = graph.broadcast %f {dims = array<i64: 2, 3>} : (tensor<16x16xf32>) -> tensor<2x4x16x16xf32>
  %x = graph.add %s, %all : tensor<2x4x16x16xf32>
  %p = graph.softmax %x {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %v : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// -----

// Reading a mask's computation ends, even if its values have many uses.
// CHECK-LABEL: @doubled
// CHECK-NOT: causal
// CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {scale
!mask = tensor<16x16xf32>
!scores = tensor<2x4x16x16xf32>
!rows = tensor<2x4x16x8xf32>
func.func @doubled(%q: !rows, %k: !rows, %v: !rows) -> !rows {
  %x0 = graph.iota {dim = 0 : i64} : !mask
  %x1 = graph.add %x0, %x0 : !mask
  %x2 = graph.add %x1, %x1 : !mask
  %x3 = graph.add %x2, %x2 : !mask
  %x4 = graph.add %x3, %x3 : !mask
  %x5 = graph.add %x4, %x4 : !mask
  %x6 = graph.add %x5, %x5 : !mask
  %x7 = graph.add %x6, %x6 : !mask
  %x8 = graph.add %x7, %x7 : !mask
  %x9 = graph.add %x8, %x8 : !mask
  %x10 = graph.add %x9, %x9 : !mask
  %x11 = graph.add %x10, %x10 : !mask
  %x12 = graph.add %x11, %x11 : !mask
  %x13 = graph.add %x12, %x12 : !mask
  %x14 = graph.add %x13, %x13 : !mask
  %x15 = graph.add %x14, %x14 : !mask
  %x16 = graph.add %x15, %x15 : !mask
  %x17 = graph.add %x16, %x16 : !mask
  %x18 = graph.add %x17, %x17 : !mask
  %x19 = graph.add %x18, %x18 : !mask
  %x20 = graph.add %x19, %x19 : !mask
  %x21 = graph.add %x20, %x20 : !mask
  %x22 = graph.add %x21, %x21 : !mask
  %x23 = graph.add %x22, %x22 : !mask
  %x24 = graph.add %x23, %x23 : !mask
  %x25 = graph.add %x24, %x24 : !mask
  %x26 = graph.add %x25, %x25 : !mask
  %x27 = graph.add %x26, %x26 : !mask
  %x28 = graph.add %x27, %x27 : !mask
  %x29 = graph.add %x28, %x28 : !mask
  %x30 = graph.add %x29, %x29 : !mask
  %x31 = graph.add %x30, %x30 : !mask
  %x32 = graph.add %x31, %x31 : !mask
  %x33 = graph.add %x32, %x32 : !mask
  %x34 = graph.add %x33, %x33 : !mask
  %x35 = graph.add %x34, %x34 : !mask
  %x36 = graph.add %x35, %x35 : !mask
  %x37 = graph.add %x36, %x36 : !mask
  %x38 = graph.add %x37, %x37 : !mask
  %x39 = graph.add %x38, %x38 : !mask
  %x40 = graph.add %x39, %x39 : !mask
  %m = graph.broadcast %x40 {dims = array<i64: 2, 3>} : (!mask) -> !scores
  %s = graph.matmul %q, %k {transpose_rhs} : (!rows, !rows) -> !scores
  %x = graph.add %s, %m : !scores
  %p = graph.softmax %x {dim = 3 : i64} : (!scores) -> !scores
  %o = graph.matmul %p, %v : (!scores, !rows) -> !rows
  return %o : !rows
}

// -----

// A safe softmax gives zeros for a query whose keys are all masked: its bias becomes zero and its result is replaced. A causal
// mask beside a bias is kept as numbers, since both together may mask all keys.
// CHECK-LABEL: @safe
// CHECK-DAG: %[[LOWEST:.*]] = graph.constant {{.*}}dense<0xFF800000> : tensor<2x4x16xf32>
// CHECK: %[[MOST:.*]] = graph.reduce_max %[[BIAS:.*]] {dims = array<i64: 3>
// CHECK: %[[NONE:.*]] = graph.compare eq %[[MOST]], %[[LOWEST]]
// CHECK: %[[KEPT:.*]] = graph.select %{{.*}}, %{{.*}}, %[[BIAS]]
// CHECK: %[[O:.*]], %{{.*}} = graph.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[KEPT]] {scale
// CHECK: graph.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4x16x8xi1>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>)
!mask = tensor<2x1x16x16xf32>
!scores = tensor<2x4x16x16xf32>
!rows = tensor<2x4x16x8xf32>
func.func @safe(%q: !rows, %k: !rows, %v: !rows, %mask: !mask) -> !rows {
  %zero = graph.constant dense<0.0> : !scores
  %minus = graph.constant dense<0xFF800000> : !scores
  %i = graph.iota {dim = 2 : i64} : tensor<2x4x16x16xi64>
  %j = graph.iota {dim = 3 : i64} : tensor<2x4x16x16xi64>
  %kept = graph.compare le %j, %i : (tensor<2x4x16x16xi64>, tensor<2x4x16x16xi64>) -> tensor<2x4x16x16xi1>
  %causal = graph.select %kept, %zero, %minus : (tensor<2x4x16x16xi1>, !scores, !scores) -> !scores
  %m = graph.broadcast %mask {dims = array<i64: 0, 1, 2, 3>} : (!mask) -> !scores
  %s = graph.matmul %q, %k {transpose_rhs} : (!rows, !rows) -> !scores
  %x = graph.add %s, %m : !scores
  %y = graph.add %x, %causal : !scores
  %p = graph.softmax %y {dim = 3 : i64, safe} : (!scores) -> !scores
  %o = graph.matmul %p, %v : (!scores, !rows) -> !rows
  return %o : !rows
}

// -----

// A causal mask alone leaves a key to each query.
// CHECK-LABEL: @safe_causal
// CHECK-NOT: graph.reduce_max
// CHECK: graph.attention %{{.*}} {causal, scale
!scores = tensor<2x4x16x16xf32>
!rows = tensor<2x4x16x8xf32>
func.func @safe_causal(%q: !rows, %k: !rows, %v: !rows) -> !rows {
  %zero = graph.constant dense<0.0> : !scores
  %minus = graph.constant dense<0xFF800000> : !scores
  %i = graph.iota {dim = 2 : i64} : tensor<2x4x16x16xi64>
  %j = graph.iota {dim = 3 : i64} : tensor<2x4x16x16xi64>
  %kept = graph.compare le %j, %i : (tensor<2x4x16x16xi64>, tensor<2x4x16x16xi64>) -> tensor<2x4x16x16xi1>
  %causal = graph.select %kept, %zero, %minus : (tensor<2x4x16x16xi1>, !scores, !scores) -> !scores
  %s = graph.matmul %q, %k {transpose_rhs} : (!rows, !rows) -> !scores
  %y = graph.add %s, %causal : !scores
  %p = graph.softmax %y {dim = 3 : i64, safe} : (!scores) -> !scores
  %o = graph.matmul %p, %v : (!scores, !rows) -> !rows
  return %o : !rows
}
