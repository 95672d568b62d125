// RUN: divisi-opt %s --assign-buffers --split-input-file --verify-diagnostics

module {
  // expected-error@+1 {{'dist.held' must be {kind = "step", "microbatch" or "sum", name}, got {name = "v"}}}
  func.func @train.0.forward(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<4xf32> {dist.held = {name = "v"}}) attributes {dist.stage = 0 : i64} {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  // expected-error@+1 {{takes {kind = "microbatch", name = "v"}, which no task of its stage leaves with this type}}
  func.func @train.0.backward(%v: tensor<4xf32> {dist.held = {kind = "microbatch", name = "v"}}) attributes {dist.stage = 0 : i64} {
    return
  }
}

// -----

module {
  func.func @train.0.forward() attributes {dist.stage = 0 : i64} {
    return
  }
  // expected-error@+1 {{runs @train.0.forward for 1 of 2 microbatches}}
  dist.schedule "train" "1f1b" microbatches 2 [["0.forward 0"]]
}

// -----

module {
  func.func @train.0.forward() attributes {dist.stage = 0 : i64} {
    return
  }
  // expected-error@+1 {{runs @train.0.forward twice for microbatch 1}}
  dist.schedule "train" "1f1b" microbatches 2 [["0.forward 1", "0.forward 1"]]
}

// -----

module {
  func.func @train.0.forward() attributes {dist.stage = 0 : i64} {
    return
  }
  func.func @train.0.backward() attributes {dist.stage = 0 : i64} {
    return
  }
  // expected-error@+1 {{runs @train.0.forward for microbatch 0 out of order}}
  dist.schedule "train" "1f1b" microbatches 1 [["0.backward 0", "0.forward 0"]]
}

// -----

module {
  func.func @train.0.forward() attributes {dist.stage = 0 : i64} {
    return
  }
  func.func @train.1.forward() attributes {dist.stage = 1 : i64} {
    return
  }
  // expected-error@+1 {{runs @train.1.forward on device 0, but it is of device 1}}
  dist.schedule "train" "1f1b" microbatches 1 [["1.forward 0"], ["0.forward 0"]]
}

// -----

module {
  func.func @train.0.backward() attributes {dist.stage = 0 : i64} {
    return
  }
  func.func @train.0.finish() attributes {dist.stage = 0 : i64} {
    return
  }
  // expected-error@+1 {{runs @train.0.finish for another minibatch than the backward task before it}}
  dist.schedule "train" "pipedream" microbatches 1 [["0.backward -2", "0.finish -1"]]
}

// -----

module {
  func.func @train.0.forward() attributes {dist.stage = 0 : i64} {
    return
  }
  // expected-error@+1 {{cannot run @train.0.forward for microbatch -1}}
  dist.schedule "train" "pipedream" microbatches 1 [["0.forward -1"]]
}
