// A chain of three layers, each with a wide middle: its values are recomputed in the backward pass, from the narrow
// ones between the layers.
// RUN: rm -rf %t && mkdir %t
// RUN: divisi compile %s --emit train | divisi-opt --name-nodes --decompose --canonicalize --cse --rematerialize=count=8 > %t/dump
// RUN: FileCheck %s --check-prefix=DUMP < %t/dump
// (A dump has the identities of its operations, and so the names of its nodes; the clones get identities of their own.)
// DUMP: graph.tanh %{{.*}} {graph.node = "b2:0"}
// DUMP: graph.reshape {{.*}}barrier
// DUMP: graph.tanh %{{.*}} {graph.node = "b2:0.recomputed.0"}

// RUN: divisi-opt %s --make-evaluate --make-train --decompose --canonicalize --cse --rematerialize=count=8 \
// RUN:   --canonicalize --cse | FileCheck %s
// CHECK-LABEL: func.func @train
// The forward pass: layers a, b and c.
// CHECK: %[[A1:.*]] = graph.matmul %{{.*}} -> tensor<8x512xf32>
// CHECK-NEXT: %[[A2:.*]] = graph.tanh %[[A1]]
// CHECK-NEXT: %[[A3:.*]] = graph.matmul %[[A2]], %{{.*}} -> tensor<8x16xf32>
// CHECK-NEXT: %[[B1:.*]] = graph.matmul %[[A3]]
// CHECK-NEXT: %[[B2:.*]] = graph.tanh %[[B1]]
// CHECK-NEXT: %[[B3:.*]] = graph.matmul %[[B2]]
// CHECK-NEXT: %[[C1:.*]] = graph.matmul %[[B3]]
// CHECK-NEXT: %[[C2:.*]] = graph.tanh %[[C1]]
// The segment before the loss is kept.
// CHECK-NOT: barrier
// CHECK: graph.matmul {{.*}}%[[C2]]
// Layer b is recomputed from layer a's result, then layer a from the input.
// CHECK: %[[KEPT:.*]] = graph.reshape %[[A3]] {barrier{{.*}}} : (tensor<8x16xf32>) -> tensor<8x16xf32>
// CHECK-NOT: %[[B2]]
// CHECK: %[[AGAIN:.*]] = graph.matmul %[[KEPT]]
// CHECK-NEXT: %[[TANH:.*]] = graph.tanh %[[AGAIN]]
// CHECK: graph.matmul {{.*}}%[[TANH]]
// CHECK: %[[INPUT:.*]] = graph.reshape %{{.*}} {barrier{{.*}}} : (tensor<8x16xf32>) -> tensor<8x16xf32>
// CHECK-NOT: %[[A2]]
// CHECK: graph.matmul %[[INPUT]]
// CHECK-NOT: barrier
// CHECK: return

// Plans name the segments, and plan files are followed.
// RUN: divisi compile %s --mesh data=2 --remat 1 --emit plan -o %t/plan
// RUN: FileCheck %s --check-prefix=PLAN < %t/plan
// PLAN: dist.remat "[[PART:a1|b1]]" to "{{a3|b3}}"
// PLAN-NOT: dist.remat
// RUN: divisi compile %s --mesh data=2 --remat 1 --emit planned -o %t/planned
// RUN: divisi compile %s --plan %t/plan --emit planned | diff - %t/planned
// RUN: divisi compile %s --plan %t/plan --emit plan | diff - %t/plan
// RUN: sed 's/to "[ab]3"/to "nobody"/' %t/plan > %t/edited
// RUN: not divisi compile %s --plan %t/edited --emit planned 2>&1 | FileCheck %s --check-prefix=NOBODY
// NOBODY: error: {{.*}}edited:2:3: there is no node 'nobody' in the forward pass
// RUN: sed 's/dist.remat .*/dist.remat "b3" to "b1"/' %t/plan > %t/edited
// RUN: not divisi compile %s --plan %t/edited --emit planned 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: error: {{.*}}edited:2:3: 'b1' comes before 'b3'

// Stages recompute their own segments: the first stage all of them, from what it has received.
// RUN: divisi compile %s --mesh stage=3 --microbatches 2 --cut b1 --cut c1 --remat all --emit dist | FileCheck %s --check-prefix=STAGES
// STAGES-LABEL: func.func @train.0.forward
// STAGES-NOT: barrier
// STAGES-LABEL: func.func @train.0.backward
// STAGES: graph.reshape {{.*}}barrier
// STAGES: graph.tanh
// STAGES-LABEL: func.func @train.1.backward
// STAGES: graph.reshape {{.*}}barrier
// STAGES: graph.tanh
// STAGES-LABEL: func.func @train.2.backward
// STAGES-NOT: barrier
// RUN: divisi compile %s --mesh stage=3 --microbatches 2 --cut b1 --cut c1 --remat 1 --emit plan -o %t/plan
// RUN: FileCheck %s --check-prefix=PIPELINE < %t/plan
// PIPELINE: remat = 1 : i64
// RUN: divisi compile %s --mesh stage=3 --microbatches 2 --cut b1 --cut c1 --remat 1 --emit dist -o %t/dist
// RUN: divisi compile %s --plan %t/plan --emit dist | diff - %t/dist
// RUN: not divisi compile %s --mesh stage=3 --schedule pipedream --remat all --emit dist 2>&1 | FileCheck %s --check-prefix=STALE
// STALE: error: --remat is not for --schedule pipedream
// RUN: not divisi compile %s --devices 2 --strategy hybrid --remat 3 --emit dist 2>&1 | FileCheck %s --check-prefix=HYBRID
// HYBRID: error: a search for pipelines recomputes no segments, or all
// A plan of stages has no segments by name.
// RUN: sed 's/ {$/ {\n dist.remat "a1" to "a3"/' %t/plan > %t/edited
// RUN: not divisi compile %s --plan %t/edited --emit dist 2>&1 | FileCheck %s --check-prefix=STAGED
// STAGED: stages recompute segments of their own: 'pipeline' says how many
// RUN: not divisi compile %s --mesh stage=2 --cluster 2xh100 --emit dist 2>&1 | FileCheck %s --check-prefix=SEARCHED
// SEARCHED: error: --mesh with an axis stage is not searched

// The figures of plan for microbatches with recomputed segments are those of the module with these.
// RUN: divisi compile %s --mesh data=2 --microbatches 2 --remat 1 --target cuda --emit plan -o %t/plan
// RUN: divisi plan %s --plan %t/plan --cluster 2xh100 | FileCheck %s --check-prefix=PRICED
// PRICED: data=2 microbatches=2

// One device of a cluster, too, recomputes as many as its memory requires.
// RUN: echo '[cluster]' > %t/small.toml && echo 'name = "small"' >> %t/small.toml && echo '[device]' >> %t/small.toml
// RUN: echo 'preset = "h100"' >> %t/small.toml && echo 'memory = "1MB"' >> %t/small.toml
// RUN: divisi compile %s --cluster %t/small.toml --emit exec -o %t/exec 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: note: plan: one device

// The segments are explained.
// RUN: divisi explain %s --cluster h100 --remat 1 | FileCheck %s --check-prefix=EXPLAIN
// EXPLAIN: Recomputed in the backward pass (rematerialization, activation checkpointing)
// EXPLAIN-NEXT: {{a1 to a3|b1 to b3}}

// RUN: sed 's/ loc("[^"]*")//' %s > %t/nameless.mlir
// RUN: divisi compile %t/nameless.mlir --remat all --emit exec 2>&1 >%t/exec | FileCheck %s --check-prefix=NONE
// NONE: warning: no segment of the forward pass is recomputed
// RUN: not divisi compile %s --remat some --emit dist 2>&1 | FileCheck %s --check-prefix=WORD
// WORD: error: --remat: expected none, all, auto or a number of segments, got 'some'

func.func @loss(%aw: tensor<16x512xf32> {graph.parameter = "aw"}, %av: tensor<512x16xf32> {graph.parameter = "av"},
    %bw: tensor<16x512xf32> {graph.parameter = "bw"}, %bv: tensor<512x16xf32> {graph.parameter = "bv"},
    %cw: tensor<16x512xf32> {graph.parameter = "cw"}, %cv: tensor<512x16xf32> {graph.parameter = "cv"},
    %x: tensor<8x16xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %a1 = graph.matmul %x, %aw : (tensor<8x16xf32>, tensor<16x512xf32>) -> tensor<8x512xf32> loc("a1")
  %a2 = graph.tanh %a1 : tensor<8x512xf32> loc("a2")
  %a3 = graph.matmul %a2, %av : (tensor<8x512xf32>, tensor<512x16xf32>) -> tensor<8x16xf32> loc("a3")
  %b1 = graph.matmul %a3, %bw : (tensor<8x16xf32>, tensor<16x512xf32>) -> tensor<8x512xf32> loc("b1")
  %b2 = graph.tanh %b1 : tensor<8x512xf32> loc("b2")
  %b3 = graph.matmul %b2, %bv : (tensor<8x512xf32>, tensor<512x16xf32>) -> tensor<8x16xf32> loc("b3")
  %c1 = graph.matmul %b3, %cw : (tensor<8x16xf32>, tensor<16x512xf32>) -> tensor<8x512xf32> loc("c1")
  %c2 = graph.tanh %c1 : tensor<8x512xf32> loc("c2")
  %c3 = graph.matmul %c2, %cv : (tensor<8x512xf32>, tensor<512x16xf32>) -> tensor<8x16xf32> loc("c3")
  %s = graph.mul %c3, %c3 : tensor<8x16xf32> loc("square")
  %l = graph.reduce_sum %s {dims = array<i64: 0, 1>} : (tensor<8x16xf32>) -> tensor<f32> loc("sum")
  return %l : tensor<f32>
}
