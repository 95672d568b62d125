// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @keys(%q: tensor<2x6x4x8xf32>, %k: tensor<2x10x3x8xf32>) {
  // expected-error@+1 {{constraint 2: keys 'tensor<2x10x3x8xf32>' do not fit queries 'tensor<2x6x4x8xf32>'}}
  %0:2 = graph.attention %q, %k, %k {scale = 1.0 : f64} : (tensor<2x6x4x8xf32>, tensor<2x10x3x8xf32>, tensor<2x10x3x8xf32>) -> (tensor<2x6x4x8xf32>, tensor<2x4x6xf32>)
  return
}

// -----

func.func @stats(%q: tensor<2x6x4x8xbf16>) {
  // expected-error@+1 {{constraint 4: expected stats in f32 for each of batch, heads and queries}}
  %0:2 = graph.attention %q, %q, %q {scale = 1.0 : f64} : (tensor<2x6x4x8xbf16>, tensor<2x6x4x8xbf16>, tensor<2x6x4x8xbf16>) -> (tensor<2x6x4x8xbf16>, tensor<2x4x6xbf16>)
  return
}

// -----

func.func @bias(%q: tensor<2x6x4x8xf32>, %b: tensor<2x4x3x6xf32>) {
  // expected-error@+1 {{constraint 5: bias 'tensor<2x4x3x6xf32>' does not fit the scores}}
  %0:2 = graph.attention %q, %q, %q, %b {scale = 1.0 : f64} : (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x4x3x6xf32>) -> (tensor<2x6x4x8xf32>, tensor<2x4x6xf32>)
  return
}

// -----

func.func @rank(%q: tensor<6x4x8xf32>) {
  // expected-error@+1 {{constraint 1: expected q, k and v with four dimensions of floats}}
  %0:2 = graph.attention %q, %q, %q {scale = 1.0 : f64} : (tensor<6x4x8xf32>, tensor<6x4x8xf32>, tensor<6x4x8xf32>) -> (tensor<6x4x8xf32>, tensor<4x6xf32>)
  return
}

// -----

func.func @gradient(%q: tensor<2x6x4x8xf32>, %s: tensor<2x4x6xf32>, %g: tensor<2x6x4x4xf32>) {
  // expected-error@+1 {{constraint 6: expected gradients like their values}}
  %0:3 = graph.attention_grad %q, %q, %q, %q, %s, %g {scale = 1.0 : f64} : (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x4x6xf32>, tensor<2x6x4x4xf32>) -> (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>)
  return
}
