// RUN: divisi-opt %s --assign-buffers --split-input-file --verify-diagnostics

module {
  func.func @train.0.step() attributes {dist.stage = 0 : i64} {
    return
  }
  // expected-error@+1 {{runs @train.0.leap, but there is no such task}}
  dist.schedule "train" "accumulate" microbatches 2 [["0.step 0", "0.leap 1"]]
}

// -----

module {
  func.func @train.0.step() attributes {dist.stage = 0 : i64} {
    return
  }
  func.func @train.1.step() attributes {dist.stage = 1 : i64} {
    return
  }
  // expected-error@+1 {{expected a row for each of 2 devices, got 1}}
  dist.schedule "train" "1f1b" microbatches 2 [["0.step 0", "0.step 1"]]
}

// -----

// expected-error@+1 {{expected a task and the number of a microbatch, such as "0.forward 1", got "0.step 2"}}
dist.schedule "train" "accumulate" microbatches 2 [["0.step 0", "0.step 2"]]
