// A plan that is written and read again gives the same program, also with paddings (53 columns, a batch of 15), and if
// pins need splits of operations that do not follow from the tensors' shardings.
// RUN: rm -rf %t && mkdir %t
// RUN: divisi compile %s --emit=plan --mesh data=2,model=2 -o %t/plan
// RUN: divisi compile %s --emit=planned --mesh data=2,model=2 -o %t/planned
// RUN: divisi compile %s --emit=planned --plan %t/plan | diff - %t/planned
// RUN: divisi compile %s --emit=plan --plan %t/plan | diff - %t/plan
// RUN: divisi-opt %s --plan="mesh=data=2,model=2" > %t/opt
// RUN: divisi-opt %s --plan="file=%t/plan" | diff - %t/opt
// RUN: FileCheck %s --check-prefix=PADS < %t/plan
// PADS: dist.plan format 3 target "cpu" model "sha256:{{[0-9a-f]+}}" mesh <"data" = 2, "model" = 2> {
// PADS-NEXT: dist.pad "x" dim 0 parts 2
// PADS-NEXT: dist.pad "w" dim 0 parts 2
// PADS-NEXT: dist.place "w" : [model, _]
// PADS-NEXT: dist.place "v" : [_, model]
// PADS-NOT: dist.place
// PADS: dist.split "/fc1/Gemm:0" {m = ["data"], n = ["model"]}

// RUN: divisi-opt %s --plan="mesh=data=2,model=2 pins=w=_,_;v=model,_;x=_,_" > %t/opt
// RUN: divisi compile %s --emit=plan --mesh data=2,model=2 --pin w=_,_ --pin v=model,_ --pin x=_,_ -o %t/pinned
// RUN: divisi-opt %s --plan="file=%t/pinned" | diff - %t/opt
// RUN: FileCheck %s --check-prefix=PINS < %t/pinned
// PINS-NOT: dist.place "w"
// PINS: dist.place "v" : [model, _]

// ZeRO 3: the second weight is sharded.
// RUN: divisi compile %s --emit=plan --mesh data=2 --zero 3 -o %t/zero
// RUN: divisi compile %s --emit=planned --mesh data=2 --zero 3 -o %t/planned
// RUN: divisi compile %s --emit=planned --plan %t/zero | diff - %t/planned

// Edited: without its paddings and shardings, only the mesh is left.
// RUN: grep -v "pad\|place\|split" %t/plan > %t/none
// RUN: divisi-opt %s --plan="file=%t/none" | FileCheck %s --check-prefix=NONE
// NONE-LABEL: func.func @evaluate
// NONE-SAME: (%arg0: tensor<53x7xf32> {{.*}}dist.mesh = #dist.mesh<"data" = 2, "model" = 2>
// NONE-NOT: dist.shard
// NONE: graph.matmul %arg2, %arg0 {graph.node = "/fc1/Gemm:0", transpose_rhs} : (tensor<15x7xf32>, tensor<53x7xf32>) -> tensor<15x53xf32>

// Another sharding: tensors without one follow.
// RUN: sed -e '/pad\|place\|split/d' -e '1a dist.place "v" : [data, _]' %t/plan > %t/rows
// RUN: divisi-opt %s --plan="file=%t/rows" | FileCheck %s --check-prefix=ROWS
// ROWS-LABEL: func.func @evaluate
// ROWS-SAME: %arg1: tensor<4x53xf32, #data-_>
// ROWS: graph.matmul %{{.*}}, %arg1 {{.*}} -> tensor<15x4xf32, #_-data>

// One operation is sharded, its neighbours are not.
// RUN: sed -e '/pad\|place\|split/d' -e '1a dist.split @evaluate "/fc2/Gemm:0" {n = ["model", "data"]}' %t/plan > %t/one
// RUN: divisi-opt %s --plan="file=%t/one" | FileCheck %s --check-prefix=ONE
// ONE-LABEL: func.func @train
// ONE-NOT: dist.reshard
// ONE-LABEL: func.func @evaluate
// ONE: %[[V:.*]] = dist.reshard %arg1 : tensor<4x53xf32> -> tensor<4x53xf32, #model$data-_>
// ONE: graph.matmul %{{.*}}, %[[V]] {{.*}} -> tensor<15x4xf32, #_-model$data>
// ONE: dist.reshard {{.*}} -> tensor<15x4xf32>

// Another mesh.
// RUN: sed -e '/pad\|place\|split/d' -e 's/"data" = 2, "model" = 2/"a" = 1/' %t/plan > %t/alone
// RUN: divisi-opt %s --plan="file=%t/alone" | FileCheck %s --check-prefix=ALONE
// ALONE: dist.mesh = #dist.mesh<"a" = 1>

func.func @train(%w: tensor<53x7xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %v: tensor<4x53xf32> {graph.state = {name = "v", role = "parameter", trainable = true}},
    %x: tensor<15x7xf32> {graph.input = "x"}) -> (tensor<53x7xf32> {graph.renews = "w"},
    tensor<4x53xf32> {graph.renews = "v"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<15x7xf32>, tensor<53x7xf32>) -> tensor<15x53xf32> loc("/fc1/Gemm")
  %r = graph.relu %h : tensor<15x53xf32>
  %y = graph.matmul %r, %v {transpose_rhs} : (tensor<15x53xf32>, tensor<4x53xf32>) -> tensor<15x4xf32> loc("/fc2/Gemm")
  %l = graph.reduce_sum %y {dims = array<i64: 0, 1>} : (tensor<15x4xf32>) -> tensor<f32>
  %g = graph.matmul %r, %x {transpose_lhs} : (tensor<15x53xf32>, tensor<15x7xf32>) -> tensor<53x7xf32>
  %n = graph.sub %w, %g : tensor<53x7xf32>
  %q = graph.matmul %y, %h {transpose_lhs} : (tensor<15x4xf32>, tensor<15x53xf32>) -> tensor<4x53xf32>
  %z = graph.sub %v, %q : tensor<4x53xf32>
  return %n, %z, %l : tensor<53x7xf32>, tensor<4x53xf32>, tensor<f32>
}
func.func @evaluate(%w: tensor<53x7xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %v: tensor<4x53xf32> {graph.state = {name = "v", role = "parameter", trainable = true}},
    %x: tensor<15x7xf32> {graph.input = "x"}) -> (tensor<15x4xf32> {graph.output = "y"}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<15x7xf32>, tensor<53x7xf32>) -> tensor<15x53xf32> loc("/fc1/Gemm")
  %r = graph.relu %h : tensor<15x53xf32>
  %y = graph.matmul %r, %v {transpose_rhs} : (tensor<15x53xf32>, tensor<4x53xf32>) -> tensor<15x4xf32> loc("/fc2/Gemm")
  return %y : tensor<15x4xf32>
}
