// RUN: divisi-opt %s --canonicalize --collapse-loops --canonicalize | FileCheck %s

// All three loops run on in both buffers.
// CHECK-LABEL: @contiguous
// CHECK: %[[N:.*]] = arith.constant 384 : index
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %[[N]]
// CHECK-NOT: scf.for
// CHECK: memref.load %{{.*}}[%[[I]]]
// CHECK: memref.store %{{.*}}[%[[I]]]
func.func @contiguous(%x: memref<384xf32>, %y: memref<384xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c4 step %c1 {
    scf.for %j = %c0 to %c6 step %c1 {
      scf.for %k = %c0 to %c16 step %c1 {
        %0 = arith.muli %i, %c6 : index
        %1 = arith.addi %0, %j : index
        %2 = arith.muli %1, %c16 : index
        %3 = arith.addi %2, %k : index
        %4 = memref.load %x[%3] : memref<384xf32>
        memref.store %4, %y[%3] : memref<384xf32>
      }
    }
  }
  return
}

// The last dimension is that of a bias, the first that of a part of a larger tensor: the two in the middle are one.
// CHECK-LABEL: @part
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %c4
// CHECK: scf.for %[[J:.*]] = %{{.*}} to %c10
// CHECK: scf.for %[[K:.*]] = %{{.*}} to %c16
// CHECK-NOT: scf.for
// CHECK-DAG: %[[P:.*]] = arith.muli %[[I]], %c480
// CHECK-DAG: %[[Q:.*]] = arith.muli %[[J]], %c16
// CHECK: memref.load %{{.*}}[%[[K]]]
func.func @part(%x: memref<1920xf32>, %bias: memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %c16 = arith.constant 16 : index
  %c480 = arith.constant 480 : index
  scf.for %i = %c0 to %c4 step %c1 {
    scf.for %j = %c0 to %c2 step %c1 {
      scf.for %h = %c0 to %c5 step %c1 {
        scf.for %k = %c0 to %c16 step %c1 {
          %0 = arith.muli %i, %c480 : index
          %1 = arith.muli %j, %c5 : index
          %2 = arith.addi %1, %h : index
          %3 = arith.muli %2, %c16 : index
          %4 = arith.addi %0, %3 : index
          %5 = arith.addi %4, %k : index
          %6 = memref.load %bias[%k] : memref<16xf32>
          memref.store %6, %x[%5] : memref<1920xf32>
        }
      }
    }
  }
  return
}

// A transposition, a condition on one dimension, and an index that is not linear keep their loops.
// CHECK-LABEL: @apart
// CHECK-COUNT-6: scf.for
func.func @apart(%x: memref<96xf32>, %y: memref<96xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c6 step %c1 {
    scf.for %j = %c0 to %c16 step %c1 {
      %0 = arith.muli %i, %c16 : index
      %1 = arith.addi %0, %j : index
      %2 = arith.muli %j, %c6 : index
      %3 = arith.addi %2, %i : index
      %4 = memref.load %x[%1] : memref<96xf32>
      memref.store %4, %y[%3] : memref<96xf32>
    }
  }
  scf.for %i = %c0 to %c6 step %c1 {
    scf.for %j = %c0 to %c16 step %c1 {
      %0 = arith.muli %i, %c16 : index
      %1 = arith.addi %0, %j : index
      %2 = arith.cmpi ult, %j, %c6 : index
      scf.if %2 {
        %3 = memref.load %x[%1] : memref<96xf32>
        memref.store %3, %y[%1] : memref<96xf32>
      }
    }
  }
  scf.for %i = %c0 to %c6 step %c1 {
    scf.for %j = %c0 to %c16 step %c1 {
      %0 = arith.muli %i, %c16 : index
      %1 = arith.addi %0, %j : index
      %2 = arith.divui %j, %c6 : index
      %3 = memref.load %x[%2] : memref<96xf32>
      memref.store %3, %y[%1] : memref<96xf32>
    }
  }
  return
}

// A quotient of an index that runs on is none of the two counters alone; a carried sum goes on in the order of memory.
// CHECK-LABEL: @quotient
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %c96
// CHECK: arith.divui %[[I]], %c6
// CHECK: %[[SUM:.*]] = scf.for %[[I:.*]] = %{{.*}} to %c96 step %{{.*}} iter_args(%[[A:.*]] = %{{.*}}) -> (f32)
// CHECK-NEXT: %[[X:.*]] = memref.load %{{.*}}[%[[I]]]
// CHECK-NEXT: %[[B:.*]] = arith.addf %[[A]], %[[X]]
// CHECK-NEXT: scf.yield %[[B]]
// CHECK: return %[[SUM]]
func.func @quotient(%x: memref<96xf32>, %y: memref<96xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c6 step %c1 {
    scf.for %j = %c0 to %c16 step %c1 {
      %0 = arith.muli %i, %c16 : index
      %1 = arith.addi %0, %j : index
      %2 = arith.divui %1, %c6 : index
      %3 = memref.load %x[%2] : memref<96xf32>
      memref.store %3, %y[%1] : memref<96xf32>
    }
  }
  %sum = scf.for %i = %c0 to %c6 step %c1 iter_args(%a = %zero) -> f32 {
    %more = scf.for %j = %c0 to %c16 step %c1 iter_args(%b = %a) -> f32 {
      %0 = arith.muli %i, %c16 : index
      %1 = arith.addi %0, %j : index
      %2 = memref.load %x[%1] : memref<96xf32>
      %3 = arith.addf %b, %2 : f32
      scf.yield %3 : f32
    }
    scf.yield %more : f32
  }
  return %sum : f32
}

// What an outer loop does with a sum of the inner one, another value that the inner one begins with, and one that its
// body reads keep both. So do sums of more than 2^20 elements.
// CHECK-LABEL: @carried_apart
// CHECK-COUNT-8: scf.for
// CHECK: return
func.func @carried_apart(%x: memref<96xf32>, %long: memref<1056768xf32>) -> (f32, f32, f32, f32, f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %i = %c0 to %c6 step %c1 iter_args(%a = %zero) -> f32 {
    %more = scf.for %j = %c0 to %c16 step %c1 iter_args(%b = %zero) -> f32 {
      %0 = arith.muli %i, %c16 : index
      %1 = arith.addi %0, %j : index
      %2 = memref.load %x[%1] : memref<96xf32>
      %3 = arith.addf %b, %2 : f32
      scf.yield %3 : f32
    }
    scf.yield %more : f32
  }
  %swapped:2 = scf.for %i = %c0 to %c6 step %c1 iter_args(%a = %zero, %b = %sum) -> (f32, f32) {
    %more:2 = scf.for %j = %c0 to %c16 step %c1 iter_args(%c = %a, %d = %b) -> (f32, f32) {
      %0 = arith.muli %i, %c16 : index
      %1 = arith.addi %0, %j : index
      %2 = memref.load %x[%1] : memref<96xf32>
      %3 = arith.addf %c, %2 : f32
      %4 = arith.maximumf %d, %2 : f32
      scf.yield %3, %4 : f32, f32
    }
    scf.yield %more#1, %more#0 : f32, f32
  }
  %scaled = scf.for %i = %c0 to %c6 step %c1 iter_args(%a = %zero) -> f32 {
    %more = scf.for %j = %c0 to %c16 step %c1 iter_args(%b = %a) -> f32 {
      %0 = arith.muli %i, %c16 : index
      %1 = arith.addi %0, %j : index
      %2 = memref.load %x[%1] : memref<96xf32>
      %3 = arith.mulf %2, %a : f32
      %4 = arith.addf %b, %3 : f32
      scf.yield %4 : f32
    }
    scf.yield %more : f32
  }
  %c1024 = arith.constant 1024 : index
  %c1032 = arith.constant 1032 : index
  %longest = scf.for %i = %c0 to %c1032 step %c1 iter_args(%a = %zero) -> f32 {
    %more = scf.for %j = %c0 to %c1024 step %c1 iter_args(%b = %a) -> f32 {
      %0 = arith.muli %i, %c1024 : index
      %1 = arith.addi %0, %j : index
      %2 = memref.load %long[%1] : memref<1056768xf32>
      %3 = arith.addf %b, %2 : f32
      scf.yield %3 : f32
    }
    scf.yield %more : f32
  }
  return %sum, %swapped#0, %swapped#1, %scaled, %longest : f32, f32, f32, f32, f32
}
