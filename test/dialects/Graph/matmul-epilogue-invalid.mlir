// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @operands(%x: tensor<4x8xf32>, %w: tensor<4x16xf32>, %b: tensor<16xf32>) {
  // expected-error@+1 {{constraint 2: operands do not fit: 'tensor<4x8xf32>' and 'tensor<4x16xf32>'}}
  %0 = graph.matmul_epilogue bias %x, %w, %b : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @no_bias(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) {
  // expected-error@+1 {{constraint 4: expected a third operand 'tensor<16xf32>'}}
  %0 = graph.matmul_epilogue bias %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @wide_bias(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xf32>) {
  // expected-error@+1 {{constraint 4: expected a third operand 'tensor<16xbf16>'}}
  %0 = graph.matmul_epilogue relu %x, %w, %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xf32>) -> tensor<4x16xbf16>
  return
}

// -----

func.func @no_sum(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>) {
  // expected-error@+1 {{constraint 5: expected a second result 'tensor<4xbf16>'}}
  %0 = graph.matmul_epilogue sum_lhs %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  return
}

// -----

func.func @no_second(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>) {
  // expected-error@+1 {{constraint 5: expected no second result}}
  %0:2 = graph.matmul_epilogue relu %x, %w, %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>)
  return
}

// -----

func.func @no_argument(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>) {
  // expected-error@+1 {{constraint 4: expected a third operand 'tensor<4x16xbf16>'}}
  %0 = graph.matmul_epilogue gelu_grad %x, %w, %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> tensor<4x16xbf16>
  return
}

// -----

func.func @result(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>) {
  // expected-error@+1 {{constraint 3: expected a result of 4 x 16 'bf16', got 'tensor<4x16xf32>'}}
  %0 = graph.matmul_epilogue bias %x, %w, %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> tensor<4x16xf32>
  return
}

// -----

func.func @rank(%x: tensor<2x4x8xbf16>, %b: tensor<8xbf16>) {
  // expected-error@+1 {{constraint 1: expected matrices of floats}}
  %0 = graph.matmul_epilogue bias %x, %x, %b : (tensor<2x4x8xbf16>, tensor<2x4x8xbf16>, tensor<8xbf16>) -> tensor<2x4x8xbf16>
  return
}

// -----

func.func @no_third(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>) {
  // expected-error@+1 {{constraint 4: expected no third operand}}
  %0:2 = graph.matmul_epilogue sum_lhs %x, %w, %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> (tensor<4x16xbf16>, tensor<4xbf16>)
  return
}
