// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @arguments(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected block arguments of the inputs' types}}
  %0 = exec.kernel rows 1 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<5xf32>):
    %1 = graph.constant dense<0.0> : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @results(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected exec.yield of the outputs' types}}
  %0 = exec.kernel rows 1 (%x) : (tensor<4xf32>) -> tensor<5xf32> {
  ^bb0(%a: tensor<4xf32>):
    exec.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @rows(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected at least one row}}
  %0 = exec.kernel rows 0 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %1 = graph.tanh %a {exec.stage} : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @stages(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected exec.yield of values of operations with 'exec.stage'}}
  %0 = exec.kernel rows 1 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %1 = graph.tanh %a : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  return
}

// -----

// A kernel sees its inputs and nothing else.
func.func @isolated(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-note @+1 {{required by region isolation constraints}}
  %0 = exec.kernel rows 1 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    // expected-error @+1 {{using value defined outside the region}}
    %1 = graph.add %a, %y {exec.stage} : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @yield(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects parent op 'exec.kernel'}}
  exec.yield %x : tensor<4xf32>
}
