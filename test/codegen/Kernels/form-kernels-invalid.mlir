// RUN: divisi-opt %s --form-kernels --split-input-file --verify-diagnostics

func.func @composite(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // Composite operations are decomposed before.
  // expected-error @+1 {{no CPU lowering for 'graph.softmax'}}
  %0 = graph.softmax %x {dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @integer_matmul(%x: tensor<4x6xi64>, %y: tensor<6x5xi64>) -> tensor<4x5xi64> {
  // expected-error @+1 {{no CPU lowering for 'graph.matmul' on element type 'i64'}}
  %0 = graph.matmul %x, %y : (tensor<4x6xi64>, tensor<6x5xi64>) -> tensor<4x5xi64>
  return %0 : tensor<4x5xi64>
}
