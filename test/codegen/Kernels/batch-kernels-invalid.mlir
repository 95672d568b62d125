// RUN: not divisi compile %s --emit llvm 2>&1 | FileCheck %s

// An edited dump: the second kernel reads what the first writes.
// CHECK: error: {{.*}}'exec.kernel' op cannot run at once with the others of batch 3
module attributes {exec.arena_bytes = 4096 : i64} {
  func.func @train(%x: tensor<64xf32> {exec.offset = 0 : i64, graph.input = "x"}) -> (tensor<64xf32> {exec.offset = 512 : i64, graph.output = "y"}) {
    %0 = exec.kernel rows 64(%x) {batch = 3 : i64, offsets = array<i64: 256>} : (tensor<64xf32>) -> tensor<64xf32> {
    ^bb0(%a: tensor<64xf32>):
      %2 = graph.exp %a {exec.stage} : tensor<64xf32>
      exec.yield %2 : tensor<64xf32>
    }
    %1 = exec.kernel rows 64(%0) {batch = 3 : i64, offsets = array<i64: 512>} : (tensor<64xf32>) -> tensor<64xf32> {
    ^bb0(%a: tensor<64xf32>):
      %2 = graph.exp %a {exec.stage} : tensor<64xf32>
      exec.yield %2 : tensor<64xf32>
    }
    return %1 : tensor<64xf32>
  }
}
