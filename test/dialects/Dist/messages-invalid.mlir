// RUN: divisi-opt %s --split-input-file --verify-diagnostics

!x = tensor<8x4xf32>
func.func @nowhere_transfer(%x: !x) {
  // expected-error @+1 {{'dist.transfer' op constraint 1: is not in a partitioned function ('dist.partitioned')}}
  %y = dist.transfer %x dims [[[], []], [[], []]] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @nowhere_send(%x: !x) {
  // expected-error @+1 {{'dist.send' op constraint 2: is not in a partitioned function ('dist.partitioned')}}
  dist.send %x to 1 id 0 dims [[[], []], [[], []]] : !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @few(%x: !x) attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>} {
  // expected-error @+1 {{'dist.transfer' op constraint 2: expected, for each of 2 dimensions, the axes of senders and of receivers, such as}}
  %y = dist.transfer %x dims [[["data"], []]] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @one_side(%x: !x) attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>} {
  // expected-error @+1 {{'dist.receive' op constraint 2: expected, for each of 2 dimensions}}
  %y = dist.receive from 0 id 0 dims [[["data"]], [[], []]] : !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @no_list(%x: !x) attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>} {
  // expected-error @+1 {{'dist.send' op constraint 2: expected, for each of 2 dimensions}}
  dist.send %x to 1 id 0 dims [["data", []], [[], []]] : !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @no_axis(%x: !x) attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>} {
  // expected-error @+1 {{'dist.send' op constraint 2: expected, for each of 2 dimensions}}
  dist.send %x to 1 id 0 dims [[["pipe"], []], [[], []]] : !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @of_stages(%x: !x) attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>} {
  // expected-error @+1 {{'dist.send' op constraint 2: expected, for each of 2 dimensions}}
  dist.send %x to 1 id 0 dims [[["stage"], []], [[], []]] : !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @twice(%x: !x) attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>} {
  // expected-error @+1 {{'dist.send' op constraint 2: expected, for each of 2 dimensions}}
  dist.send %x to 1 id 0 dims [[["data"], []], [["data"], []]] : !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @other_shape(%x: !x) attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>} {
  // expected-error @+1 {{'dist.transfer' op constraint 3: expected shards of one value, got 'tensor<8x4xf32>' and 'tensor<8x4xf32>'}}
  %y = dist.transfer %x dims [[["data"], []], [[], []]] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @other_element(%x: !x) attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>} {
  // expected-error @+1 {{'dist.transfer' op constraint 3: expected shards of one value}}
  %y = dist.transfer %x dims [[["data"], []], [[], []]] : !x -> tensor<16x4xf64>
  return
}
