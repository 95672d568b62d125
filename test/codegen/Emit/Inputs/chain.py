"""Writes a model that multiplies its input n times by one matrix."""

import sys

count = int(sys.argv[1])
matrix, rows = "tensor<4x4xf32>", "tensor<8x4xf32>"
print(f'func.func @loss(%w: {matrix} {{graph.parameter = "w"}}, %x0: {rows} {{graph.input = "x"}}) -> (tensor<f32> {{graph.loss}}) {{')
for i in range(count):
    print(f"  %y{i} = graph.matmul %x{i}, %w : ({rows}, {matrix}) -> {rows}")
    print(f"  %x{i + 1} = graph.tanh %y{i} : {rows}")
print(f"  %loss = graph.reduce_sum %x{count} {{dims = array<i64: 0, 1>}} : ({rows}) -> tensor<f32>")
print("  return %loss : tensor<f32>\n}")
