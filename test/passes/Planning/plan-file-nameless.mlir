// An argument without a name is no input or state, and a plan cannot refer to it.
// RUN: divisi-opt %s --plan="mesh=data=2" | sed -n '/dist.plan/,/}/p' | sed '/place/d' > %t
// RUN: sed '1a dist.pad "" dim 0 parts 3' %t > %t.pad
// RUN: not divisi-opt %s --plan="file=%t.pad" 2>&1 | FileCheck %s
// RUN: sed '1a dist.place "" : [_, _]' %t > %t.place
// RUN: not divisi-opt %s --plan="file=%t.place" 2>&1 | FileCheck %s
// CHECK: error: there is no input or state ''
func.func @evaluate(%w: tensor<8x6xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<4x6xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
  %y = graph.matmul %x, %w {transpose_rhs} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
