// Operations get identities from the names of their locations, in program order. An operation with an identity keeps it; of two with the same
// one, the second gets one below it. A constant is named after its first user, and operations at unnamed locations get none.
// RUN: divisi-opt %s --name-nodes | FileCheck %s
// RUN: divisi-opt %s --name-nodes > %t.once && divisi-opt %t.once --name-nodes | diff - %t.once
// CHECK-LABEL: func.func @loss
// CHECK: graph.matmul {{.*}}graph.node = "/a:0"
// CHECK: graph.matmul {{.*}}graph.node = "/b:0"
// CHECK: graph.add {{.*}}graph.node = "/b:1"
// CHECK: graph.softmax {{.*}}graph.node = "/softmax:0"
// CHECK: graph.tanh {{.*}}graph.node = "/kept:7"
// CHECK: graph.tanh {{.*}}graph.node = "/kept:7.0"
// CHECK: graph.constant {graph.node = "/scale:0.constant.0"}
// CHECK: graph.mul {{.*}}graph.node = "/scale:0"
// CHECK: graph.relu %{{[0-9]+}} : tensor
// Another function has separate identities.
// CHECK-LABEL: func.func @other
// CHECK: graph.tanh {{.*}}graph.node = "/a:0"

// The operations of a rewrite get identities below that of the original; the replacement gets the original's. Identities are read from a dump.
// RUN: divisi-opt %t.once --name-nodes --decompose --canonicalize --name-nodes | FileCheck %s --check-prefix=DERIVED
// DERIVED: graph.reduce_max {{.*}}graph.node = "/softmax:0.0"
// DERIVED: graph.sub {{.*}}graph.node = "/softmax:0.2"
// DERIVED: graph.mul {{.*}}graph.node = "/softmax:0"}
// DERIVED: graph.tanh {{.*}}graph.node = "/kept:7"

// The order of rewrites does not matter: identities below one depend only on that one.
// RUN: sed '/loc("\/b")/d; s/%%2 {dim/%%0 {dim/; s/%%2 = graph.add.*//' %s | divisi-opt --name-nodes --decompose --canonicalize --name-nodes \
// RUN:   | FileCheck %s --check-prefix=DERIVED

// Equal operations of two nodes are merged by cse-across-nodes, which keeps the first identity, and not by cse.
// RUN: divisi-opt %t.once --cse-across-nodes | FileCheck %s --check-prefix=EQUAL
// EQUAL: %[[A:.*]] = graph.matmul {{.*}}graph.node = "/a:0"
// EQUAL-NEXT: graph.add %[[A]], %[[A]] {graph.node = "/b:1"}
// RUN: divisi-opt %t.once --cse | FileCheck %s --check-prefix=TWO
// TWO: graph.matmul {{.*}}graph.node = "/a:0"
// TWO-NEXT: graph.matmul {{.*}}graph.node = "/b:0"
func.func @loss(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<8x8xf32> {graph.parameter = "w"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
  %0 = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("/a")
  %1 = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("/b")
  %2 = graph.add %0, %1 : tensor<4x8xf32> loc("/b")
  %3 = graph.softmax %2 {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("/softmax")
  %4 = graph.tanh %3 {graph.node = "/kept:7"} : tensor<4x8xf32>
  %5 = graph.tanh %4 {graph.node = "/kept:7"} : tensor<4x8xf32>
  %6 = graph.constant dense<2.0> : tensor<4x8xf32>
  %7 = graph.mul %5, %6 : tensor<4x8xf32> loc("/scale")
  %8 = graph.relu %7 : tensor<4x8xf32>
  return %8 : tensor<4x8xf32>
}
func.func @other(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
  %0 = graph.tanh %x : tensor<4x8xf32> loc("/a")
  return %0 : tensor<4x8xf32>
}
