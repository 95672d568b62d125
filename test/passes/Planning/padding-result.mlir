// A size that does not divide may occur in intermediate results only: the halves of a projection (7 columns of 14), on which no
// state or input depends. The plan names a result; the file gives the same program again, with both meshes' shardings.
// RUN: rm -rf %t && mkdir %t
// RUN: divisi compile %s --emit=plan --mesh data=2,model=2 -o %t/plan
// RUN: FileCheck %s < %t/plan
// RUN: divisi compile %s --emit=planned --mesh data=2,model=2 -o %t/planned
// RUN: divisi compile %s --emit=planned --plan %t/plan | diff - %t/planned
// RUN: divisi compile %s --emit=plan --plan %t/plan | diff - %t/plan
// CHECK: dist.pad_result @evaluate "halves:0" result 0 dim 0 parts 2

// A result that does not exist is refused by name.
// RUN: sed 's/dist.pad_result @evaluate "halves:0"/dist.pad_result @evaluate "halves:9"/' %t/plan > %t/absent
// RUN: not divisi compile %s --emit=planned --plan %t/absent 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: error: {{.*}}absent:{{[0-9:]+}} there is no operation 'halves:9' in @evaluate; of that node there is 'halves:0'

// The search pads in the same way, on any number of devices; it used to lose such paddings, and to abort.
// RUN: divisi compile %s --emit=dist --devices 2 -o %t/dist
// RUN: divisi compile %s --emit=dist --devices 3 -o %t/dist
// RUN: divisi compile %s --emit=dist --devices 4 -o %t/dist
// RUN: divisi compile %s --emit=dist --devices 6 -o %t/dist
func.func @loss(%w: tensor<14x7xf32> {graph.parameter = "w"}, %x: tensor<8x7xf32> {graph.input = "x"})
    -> (tensor<f32> {graph.loss}) {
  %0 = graph.slice %w {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<14x7xf32>) -> tensor<7x7xf32> loc("halves")
  %1 = graph.matmul %x, %0 {transpose_rhs} : (tensor<8x7xf32>, tensor<7x7xf32>) -> tensor<8x7xf32> loc("fc")
  %2 = graph.mul %1, %1 : tensor<8x7xf32> loc("square")
  %3 = graph.reduce_sum %2 {dims = array<i64: 1>} : (tensor<8x7xf32>) -> tensor<8xf32> loc("sum")
  %4 = graph.reduce_sum %3 {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32> loc("all")
  return %4 : tensor<f32>
}
