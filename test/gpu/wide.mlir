// Layers whose matmuls have every epilogue: relu, the tanh approximation of gelu, none; weights of both layouts.
// RUN: divisi compile %s --target cuda --precision bf16 --emit exec | FileCheck %s

// Relu, gelu, relu, a bias; then backwards the gradients of the biases from either operand, and gelu's gradient.
// CHECK: graph.matmul_epilogue {epilogue = #graph<epilogue relu>, transpose_rhs} ({{.*}}) workspace {{.*}} : (tensor<24x40xbf16>, tensor<128x40xbf16>, tensor<128xbf16>) -> (tensor<24x128xbf16>, tensor<{{[0-9]+}}xi8>)
// CHECK: graph.matmul_epilogue {epilogue = #graph<epilogue gelu>} ({{.*}}) workspace {{.*}} : (tensor<24x128xbf16>, tensor<128x128xbf16>, tensor<128xbf16>) -> (tensor<24x128xbf16>, tensor<24x128xbf16>, tensor<{{[0-9]+}}xi8>)
// CHECK: graph.matmul_epilogue {epilogue = #graph<epilogue relu>} ({{.*}}) workspace {{.*}} : (tensor<24x128xbf16>, tensor<128x128xbf16>, tensor<128xbf16>) -> (tensor<24x128xbf16>, tensor<{{[0-9]+}}xi8>)
// CHECK: graph.matmul_epilogue {epilogue = #graph<epilogue bias>, transpose_rhs} ({{.*}}) workspace {{.*}} : (tensor<24x128xbf16>, tensor<8x128xbf16>, tensor<8xbf16>) -> (tensor<24x8xbf16>, tensor<{{[0-9]+}}xi8>)
// CHECK: graph.matmul_epilogue {epilogue = #graph<epilogue sum_rhs>, transpose_lhs} ({{.*}}) workspace {{.*}} : (tensor<24x8xbf16>, tensor<24x8xbf16>) -> (tensor<8x8xbf16>, tensor<8xbf16>, tensor<{{[0-9]+}}xi8>)
// CHECK: graph.matmul_epilogue {epilogue = #graph<epilogue sum_lhs>, transpose_lhs} ({{.*}}) workspace {{.*}} : (tensor<24x8xbf16>, tensor<24x128xbf16>) -> (tensor<8x128xbf16>, tensor<8xbf16>, tensor<{{[0-9]+}}xi8>)
// CHECK: graph.matmul_epilogue {epilogue = #graph<epilogue sum_rhs>, transpose_lhs} ({{.*}}) workspace {{.*}} : (tensor<24x128xbf16>, tensor<24x128xbf16>) -> (tensor<128x128xbf16>, tensor<128xbf16>, tensor<{{[0-9]+}}xi8>)
// CHECK: graph.matmul_epilogue {epilogue = #graph<epilogue gelu_grad>, transpose_rhs} ({{.*}}) workspace {{.*}} : (tensor<24x128xbf16>, tensor<128x128xbf16>, tensor<24x128xbf16>) -> (tensor<24x128xbf16>, tensor<{{[0-9]+}}xi8>)
// CHECK: graph.matmul_epilogue {epilogue = #graph<epilogue sum_rhs>, transpose_lhs} ({{.*}}) workspace {{.*}} : (tensor<24x128xbf16>, tensor<24x128xbf16>) -> (tensor<128x128xbf16>, tensor<128xbf16>, tensor<{{[0-9]+}}xi8>)
// CHECK: graph.matmul_epilogue {epilogue = #graph<epilogue sum_lhs>, transpose_lhs} ({{.*}}) workspace {{.*}} : (tensor<24x128xbf16>, tensor<24x40xbf16>) -> (tensor<128x40xbf16>, tensor<128xbf16>, tensor<{{[0-9]+}}xi8>)
!x = tensor<24x40xf32>
!h = tensor<24x128xf32>
module attributes {graph.model = "wide"} {
  func.func @loss(%w0: tensor<128x40xf32> {graph.parameter = "relu.weight"}, %b0: tensor<128xf32> {graph.parameter = "relu.bias"},
                  %w1: tensor<128x128xf32> {graph.parameter = "gelu.weight"}, %b1: tensor<128xf32> {graph.parameter = "gelu.bias"},
                  %w2: tensor<128x128xf32> {graph.parameter = "relu2.weight"}, %b2: tensor<128xf32> {graph.parameter = "relu2.bias"},
                  %w3: tensor<8x128xf32> {graph.parameter = "out.weight"}, %b3: tensor<8xf32> {graph.parameter = "out.bias"},
                  %w4: tensor<8x8xf32> {graph.parameter = "last.weight"}, %b4: tensor<8xf32> {graph.parameter = "last.bias"},
                  %x: !x {graph.input = "x"}, %y: tensor<24x8xf32> {graph.input = "y"}) -> (tensor<f32> {graph.loss}) {
    %0 = graph.matmul %x, %w0 {transpose_rhs} : (!x, tensor<128x40xf32>) -> !h
    %1 = graph.broadcast %b0 {dims = array<i64: 1>} : (tensor<128xf32>) -> !h
    %2 = graph.add %0, %1 : !h
    %3 = graph.relu %2 : !h
    %4 = graph.matmul %3, %w1 : (!h, tensor<128x128xf32>) -> !h
    %5 = graph.broadcast %b1 {dims = array<i64: 1>} : (tensor<128xf32>) -> !h
    %6 = graph.add %4, %5 : !h
    %7 = graph.gelu %6 {tanh} : !h
    %8 = graph.matmul %7, %w2 : (!h, tensor<128x128xf32>) -> !h
    %9 = graph.broadcast %b2 {dims = array<i64: 1>} : (tensor<128xf32>) -> !h
    %10 = graph.add %8, %9 : !h
    %11 = graph.relu %10 : !h
    %12 = graph.matmul %11, %w3 {transpose_rhs} : (!h, tensor<8x128xf32>) -> tensor<24x8xf32>
    %13 = graph.broadcast %b3 {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<24x8xf32>
    %14 = graph.add %12, %13 : tensor<24x8xf32>
    %15 = graph.matmul %14, %w4 : (tensor<24x8xf32>, tensor<8x8xf32>) -> tensor<24x8xf32>
    %16 = graph.broadcast %b4 {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<24x8xf32>
    %17 = graph.add %15, %16 : tensor<24x8xf32>
    %18 = graph.sub %17, %y : tensor<24x8xf32>
    %19 = graph.mul %18, %18 : tensor<24x8xf32>
    %20 = graph.reduce_sum %19 {dims = array<i64: 0, 1>} : (tensor<24x8xf32>) -> tensor<f32>
    %21 = graph.constant dense<192.0> : tensor<f32>
    %22 = graph.div %20, %21 : tensor<f32>
    return %22 : tensor<f32>
  }
}
