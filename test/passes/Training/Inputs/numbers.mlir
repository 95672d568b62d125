// A loss of numbers, with two outputs of the label's shape.
func.func @loss(%w: tensor<3x6xf32> {graph.parameter = "fc.weight"}, %x: tensor<4x6xf32> {graph.input = "x"},
                %y: tensor<4x3xf32> {graph.input = "y"}, %rows: tensor<i64> {graph.scalar = "rows"})
    -> (tensor<f32> {graph.loss}, tensor<4x3xf32> {graph.output = "out"}, tensor<4x3xf32> {graph.output = "other"}) {
  %0 = graph.matmul %x, %w {transpose_rhs} : (tensor<4x6xf32>, tensor<3x6xf32>) -> tensor<4x3xf32>
  %1 = graph.sub %0, %y : tensor<4x3xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
  return %2, %0, %1 : tensor<f32>, tensor<4x3xf32>, tensor<4x3xf32>
}
