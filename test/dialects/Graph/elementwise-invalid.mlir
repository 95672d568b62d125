// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @shapes(%x: tensor<4xf32>, %y: tensor<1xf32>) {
  // Broadcasting is explicit.
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "graph.add"(%x, %y) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @result(%x: tensor<4xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "graph.exp"(%x) : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @bitcast_width(%x: tensor<4xf32>) {
  // expected-error @+1 {{constraint 2: element types differ in width: 'f32' and 'i64'}}
  %0 = graph.bitcast %x : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @cast_shape(%x: tensor<4xf32>) {
  // expected-error @+1 {{requires the same shape for all operands and results}}
  %0 = graph.cast %x : (tensor<4xf32>) -> tensor<5xf64>
  return
}

// -----

func.func @compare_types(%x: tensor<4xf32>, %i: tensor<4xi64>) {
  // expected-error @+1 {{requires all operands to have the same type}}
  %0 = graph.compare lt %x, %i : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xi1>
  return
}

// -----

func.func @select_condition(%c: tensor<4xi64>, %x: tensor<4xf32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of 1-bit signless integer values}}
  %0 = graph.select %c, %x, %x : (tensor<4xi64>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @predicate(%x: tensor<4xf32>) {
  // expected-error @+2 {{expected ::divisi::graph::Predicate to be one of: eq, ne, lt, le, gt, ge}}
  // expected-error @+1 {{failed to parse Graph_PredicateAttr parameter}}
  %0 = graph.compare less %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return
}
