// RUN: divisi-opt %s --plan="mesh=data=2,model=2 pins=v=_,model" | FileCheck %s --check-prefix=ROWS
// RUN: divisi-opt %s --plan="mesh=data=2,model=2 pins=v=_,_;w=_,_" | FileCheck %s --check-prefix=WHOLE
// RUN: divisi-opt %s --plan="mesh=data=2,model=2 pins=v=data+model,_" | FileCheck %s --check-prefix=BOTH
// RUN: divisi-opt %s --plan="mesh=data=2,model=2 pins=x=_,_" | FileCheck %s --check-prefix=BATCH
// RUN: divisi-opt %s --plan="mesh=data=2,model=2 pins=;w=model,_;" | FileCheck %s --check-prefix=SPACES

// The first weight sharded along its contracted dimension: its matmul is a pending sum, and the second follows.
// ROWS-LABEL: func.func @evaluate
// ROWS-SAME: %arg0: tensor<16x8xf32, #_-model>
// ROWS: graph.matmul %{{.*}}, %arg0 {{.*}} -> tensor<4x16xf32, #data-_-sum-model>

// A pinned weight stays replicated, whatever the strategy would choose.
// WHOLE-LABEL: func.func @evaluate
// WHOLE-SAME: %arg0: tensor<16x8xf32> {{.*}} %arg1: tensor<8x16xf32> {{.*}} %arg2: tensor<4x8xf32, #data-_>
// WHOLE-NOT: "model">
// WHOLE: return

// BOTH-LABEL: func.func @evaluate
// BOTH-SAME: %arg0: tensor<16x8xf32, #data$model-_>

// A pinned input is not sharded with the batch.
// BATCH-LABEL: func.func @evaluate
// BATCH-SAME: %arg2: tensor<4x8xf32> {graph.input = "x"}

// SPACES-LABEL: func.func @evaluate
// SPACES-SAME: %arg1: tensor<8x16xf32, #model-_>

func.func @evaluate(%v: tensor<16x8xf32> {graph.state = {name = "v", role = "parameter", trainable = true}},
    %w: tensor<8x16xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
  %h = graph.matmul %x, %v {transpose_rhs} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %r = graph.relu %h : tensor<4x16xf32>
  %y = graph.matmul %r, %w {transpose_rhs} : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
