// The communication of a transformer layer is known (arXiv 1909.08053): with sharded weights two sums forward, after
// attention and after the perceptron, and two backward, before them. Sums of 32 x 32 numbers: 4096 bytes.
// RUN: divisi compile %s --emit dist --mesh model=2 | %python %S/Inputs/collectives.py \
// RUN:   | FileCheck %s --check-prefix=MODEL
// MODEL: evaluate all_reduce model tensors: 2 for 2, 8192 bytes
// MODEL-NEXT: train all_reduce model scalars: 1 for 10, 40 bytes
// MODEL-NEXT: train all_reduce model tensors: 4 for 4, 16384 bytes
// MODEL-NOT: {{.}}

// Whole heads and hidden columns, then the rows that are contracted with them.
// RUN: divisi compile %s --emit dist --mesh model=2 | FileCheck %s --check-prefix=WEIGHTS
// WEIGHTS-LABEL: func.func @train
// WEIGHTS-SAME: dist.global = tensor<64x32xf32, #dist.shard<"model", _>>, graph.state = {name = "q.weight"
// WEIGHTS-SAME: dist.global = tensor<64xf32, #dist.shard<"model">>, graph.state = {name = "q.bias"
// WEIGHTS-SAME: dist.global = tensor<64x32xf32, #dist.shard<"model", _>>, graph.state = {name = "k.weight"
// WEIGHTS-SAME: dist.global = tensor<64x32xf32, #dist.shard<"model", _>>, graph.state = {name = "v.weight"
// WEIGHTS-SAME: dist.global = tensor<32x64xf32, #dist.shard<_, "model">>, graph.state = {name = "o.weight"
// WEIGHTS-SAME: tensor<32xf32> {graph.state = {name = "o.bias"
// WEIGHTS-SAME: dist.global = tensor<128x32xf32, #dist.shard<"model", _>>, graph.state = {name = "fc1.weight"
// WEIGHTS-SAME: dist.global = tensor<32x128xf32, #dist.shard<_, "model">>, graph.state = {name = "fc2.weight"

// Four heads on eight devices: whole heads over four, hidden columns over all. As many sums, of as many bytes.
// RUN: divisi compile %s --emit dist --mesh model=8 | %python %S/Inputs/collectives.py \
// RUN:   | FileCheck %s --check-prefix=HEADS
// HEADS: evaluate all_reduce model tensors: 1 for 1, 4096 bytes
// HEADS-NEXT: evaluate all_reduce model,inner tensors: 1 for 1, 4096 bytes
// HEADS-NEXT: train all_reduce model scalars: 1 for 7, 28 bytes
// HEADS-NEXT: train all_reduce model tensors: 2 for 2, 8192 bytes
// HEADS-NEXT: train all_reduce model,inner scalars: 1 for 3, 12 bytes
// HEADS-NEXT: train all_reduce model,inner tensors: 2 for 2, 8192 bytes
// HEADS-NOT: {{.}}
// RUN: divisi compile %s --emit plan --mesh model=8 | FileCheck %s --check-prefix=GROUPS
// GROUPS: mesh <"model" = 4, "inner" = 2>
// GROUPS: "q.weight" : [model, _]
// GROUPS: "o.weight" : [_, model]
// GROUPS: "fc1.weight" : [model+inner, _]
// GROUPS: "fc2.weight" : [_, model+inner]

// With a sharded batch the gradients are summed once, all together: 16896 parameters and the loss.
// RUN: divisi compile %s --emit dist --mesh data=4 | %python %S/Inputs/collectives.py \
// RUN:   | FileCheck %s --check-prefix=DATA
// DATA: evaluate all_reduce data scalars: 1 for 1, 4 bytes
// DATA-NEXT: train all_reduce data tensors: 1 for 17, 67588 bytes
// DATA-NOT: {{.}}

// With both, each axis communicates half of the bytes.
// RUN: divisi compile %s --emit dist --mesh data=2,model=2 | %python %S/Inputs/collectives.py \
// RUN:   | FileCheck %s --check-prefix=BOTH
// BOTH: evaluate all_reduce data scalars: 1 for 1, 4 bytes
// BOTH-NEXT: evaluate all_reduce model tensors: 2 for 2, 4096 bytes
// BOTH-NEXT: train all_reduce data tensors: 1 for 17, 34180 bytes
// BOTH-NEXT: train all_reduce model scalars: 1 for 10, 40 bytes
// BOTH-NEXT: train all_reduce model tensors: 4 for 4, 8192 bytes
// BOTH-NOT: {{.}}

// Smaller buckets: at most the parameters over the bucket's size, and one more.
// RUN: divisi compile %s --emit planned --mesh data=4 \
// RUN:   | divisi-opt --partition --canonicalize --cse --bucket-collectives=bucket-bytes=16384 \
// RUN:   | %python %S/Inputs/collectives.py | FileCheck %s --check-prefix=BUCKETS
// BUCKETS: train all_reduce data tensors: 5 for 17, 67588 bytes

// ZeRO 1 and 2 (arXiv 1910.02054): instead of the sum of a gradient a reduce_scatter, and an all_gather of the
// parameter, each in one bucket. Norms of gradients, which are computed on demand, are summed in a separate one.
// RUN: divisi compile %s --emit dist --mesh data=4 --zero 1 --optimizer adam | %python %S/Inputs/collectives.py \
// RUN:   | FileCheck %s --check-prefix=ZERO
// RUN: divisi compile %s --emit dist --mesh data=4 --zero 2 --optimizer adam | %python %S/Inputs/collectives.py \
// RUN:   | FileCheck %s --check-prefix=ZERO
// ZERO: evaluate all_reduce data scalars: 1 for 1, 4 bytes
// ZERO-NEXT: train all_gather data tensors: 1 for 16, 67584 bytes
// ZERO-NEXT: train all_reduce data scalars: 2 for 17, 68 bytes
// ZERO-NEXT: train reduce_scatter data tensors: 1 for 16, 67584 bytes
// ZERO-NOT: {{.}}

// ZeRO 3: parameters are gathered where they are used, in both functions; the six weights (65,536 bytes) once more in the
// backward pass, so that they need not be kept. Those of a layer travel together: a matrix and the vectors before it, so that
// the forward pass has six of them and one for the last vector, which in training goes with the first matrix of the backward
// pass. There follow one of 16,384 bytes, and four of 8,192, less than a sixteenth of 133,120: two in a layer.
// RUN: divisi compile %s --emit dist --mesh data=4 --zero 3 --optimizer adam | %python %S/Inputs/collectives.py \
// RUN:   | FileCheck %s --check-prefix=ALL
// ALL: evaluate all_gather data tensors: 7 for 16, 67584 bytes
// ALL: train all_gather data tensors: 10 for 22, 133120 bytes
// ALL: train reduce_scatter data tensors: 1 for 16, 67584 bytes
// ALL-NOT: {{.}}

!x = tensor<4x8x32xf32>
!rows = tensor<32x32xf32>
!w = tensor<64x32xf32>
!wo = tensor<32x64xf32>
!attended = tensor<32x64xf32>
!b = tensor<64xf32>
!v = tensor<32xf32>
!heads = tensor<4x8x4x16xf32>
!split = tensor<4x4x8x16xf32>
!score = tensor<4x4x8x8xf32>
!hidden = tensor<32x128xf32>
!w1 = tensor<128x32xf32>
!w2 = tensor<32x128xf32>
!b1 = tensor<128xf32>

func.func @loss(%s1: !v {graph.parameter = "ln1.weight"}, %o1: !v {graph.parameter = "ln1.bias"},
    %wq: !w {graph.parameter = "q.weight"}, %bq: !b {graph.parameter = "q.bias"},
    %wk: !w {graph.parameter = "k.weight"}, %bk: !b {graph.parameter = "k.bias"},
    %wv: !w {graph.parameter = "v.weight"}, %bv: !b {graph.parameter = "v.bias"},
    %wo: !wo {graph.parameter = "o.weight"}, %bo: !v {graph.parameter = "o.bias"},
    %s2: !v {graph.parameter = "ln2.weight"}, %o2: !v {graph.parameter = "ln2.bias"},
    %w1: !w1 {graph.parameter = "fc1.weight"}, %b1: !b1 {graph.parameter = "fc1.bias"},
    %w2: !w2 {graph.parameter = "fc2.weight"}, %b2: !v {graph.parameter = "fc2.bias"},
    %x: !x {graph.input = "x"}, %t: !rows {graph.input = "t"}) -> (tensor<f32> {graph.loss}) {
  // Attention.
  %n1 = graph.layer_norm %x, %s1, %o1 {dim = 2 : i64, epsilon = 1.0e-5 : f64} : (!x, !v, !v) -> !x
  %r1 = graph.reshape %n1 : (!x) -> !rows
  %q0 = graph.matmul %r1, %wq {transpose_rhs} : (!rows, !w) -> !attended
  %q1 = graph.broadcast %bq {dims = array<i64: 1>} : (!b) -> !attended
  %q2 = graph.add %q0, %q1 : !attended
  %q3 = graph.reshape %q2 : (!attended) -> !heads
  %q = graph.transpose %q3 {permutation = array<i64: 0, 2, 1, 3>} : (!heads) -> !split
  %k0 = graph.matmul %r1, %wk {transpose_rhs} : (!rows, !w) -> !attended
  %k1 = graph.broadcast %bk {dims = array<i64: 1>} : (!b) -> !attended
  %k2 = graph.add %k0, %k1 : !attended
  %k3 = graph.reshape %k2 : (!attended) -> !heads
  %k = graph.transpose %k3 {permutation = array<i64: 0, 2, 1, 3>} : (!heads) -> !split
  %v0 = graph.matmul %r1, %wv {transpose_rhs} : (!rows, !w) -> !attended
  %v1 = graph.broadcast %bv {dims = array<i64: 1>} : (!b) -> !attended
  %v2 = graph.add %v0, %v1 : !attended
  %v3 = graph.reshape %v2 : (!attended) -> !heads
  %v = graph.transpose %v3 {permutation = array<i64: 0, 2, 1, 3>} : (!heads) -> !split
  %a0 = graph.matmul %q, %k {transpose_rhs} : (!split, !split) -> !score
  %a1 = graph.constant dense<0.25> : !score
  %a2 = graph.mul %a0, %a1 : !score
  %a3 = graph.softmax %a2 {dim = 3 : i64} : (!score) -> !score
  %a4 = graph.matmul %a3, %v : (!score, !split) -> !split
  %a5 = graph.transpose %a4 {permutation = array<i64: 0, 2, 1, 3>} : (!split) -> !heads
  %a6 = graph.reshape %a5 : (!heads) -> !attended
  %a7 = graph.matmul %a6, %wo {transpose_rhs} : (!attended, !wo) -> !rows
  %a8 = graph.broadcast %bo {dims = array<i64: 1>} : (!v) -> !rows
  %a9 = graph.add %a7, %a8 : !rows
  %xr = graph.reshape %x : (!x) -> !rows
  %x1 = graph.add %xr, %a9 : !rows
  // Multi-layer perceptron.
  %n2 = graph.layer_norm %x1, %s2, %o2 {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (!rows, !v, !v) -> !rows
  %m0 = graph.matmul %n2, %w1 {transpose_rhs} : (!rows, !w1) -> !hidden
  %m1 = graph.broadcast %b1 {dims = array<i64: 1>} : (!b1) -> !hidden
  %m2 = graph.add %m0, %m1 : !hidden
  %m3 = graph.gelu %m2 : !hidden
  %m4 = graph.matmul %m3, %w2 {transpose_rhs} : (!hidden, !w2) -> !rows
  %m5 = graph.broadcast %b2 {dims = array<i64: 1>} : (!v) -> !rows
  %m6 = graph.add %m4, %m5 : !rows
  %x2 = graph.add %x1, %m6 : !rows
  %d = graph.sub %x2, %t : !rows
  %e = graph.mul %d, %d : !rows
  %l = graph.reduce_sum %e {dims = array<i64: 0, 1>} : (!rows) -> tensor<f32>
  return %l : tensor<f32>
}
