// RUN: divisi-opt %s --canonicalize --split-loops --canonicalize | FileCheck %s

// Two operands of 6 and 2 elements: each has a loop of its own, which reads it alone, at consecutive places.
// CHECK-LABEL: @concat
// CHECK-SAME: %[[X:.*]]: memref<6xf32>, %[[Y:.*]]: memref<2xf32>, %[[R:.*]]: memref<8xf32>
// CHECK: scf.for %[[I:.*]] = %c0 to %c6 step
// CHECK-NEXT: %[[A:.*]] = memref.load %[[X]][%[[I]]]
// CHECK-NEXT: memref.store %[[A]], %[[R]][%[[I]]]
// CHECK: scf.for %[[J:.*]] = %c0 to %c2 step
// CHECK-DAG: %[[AT:.*]] = arith.addi %[[J]], %c6
// CHECK-DAG: %[[B:.*]] = memref.load %[[Y]][%[[J]]]
// CHECK: memref.store %[[B]], %[[R]][%[[AT]]]
// CHECK-NOT: arith.select
// CHECK: return
func.func @concat(%x: memref<6xf32>, %y: memref<2xf32>, %r: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c6 = arith.constant 6 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %0 = arith.minsi %i, %c5 : index
    %1 = arith.maxsi %0, %c0 : index
    %2 = memref.load %x[%1] : memref<6xf32>
    %3 = arith.subi %i, %c6 : index
    %4 = arith.minsi %3, %c1 : index
    %5 = arith.maxsi %4, %c0 : index
    %6 = memref.load %y[%5] : memref<2xf32>
    %7 = arith.cmpi sge, %i, %c6 : index
    %8 = arith.select %7, %6, %2 : f32
    memref.store %8, %r[%i] : memref<8xf32>
  }
  return
}

// A padded row whose elements are summed: the sum goes on from loop to loop, and only the middle one reads.
// CHECK-LABEL: @pad
// CHECK: %[[LEFT:.*]] = scf.for {{.*}} to %c2 step {{.*}} iter_args(%[[S:.*]] = %cst)
// CHECK-NEXT: arith.addf %[[S]], %cst
// CHECK: %[[MIDDLE:.*]] = scf.for %[[I:.*]] = %c0 to %c4 step {{.*}} iter_args(%[[S:.*]] = %[[LEFT]])
// CHECK-NEXT: %[[A:.*]] = memref.load %{{.*}}[%[[I]]]
// CHECK-NEXT: arith.addf %[[S]], %[[A]]
// CHECK: %[[RIGHT:.*]] = scf.for {{.*}} to %c3 step {{.*}} iter_args(%[[S:.*]] = %[[MIDDLE]])
// CHECK-NEXT: arith.addf %[[S]], %cst
// CHECK: return %[[RIGHT]]
func.func @pad(%x: memref<4xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %zero) -> f32 {
    %0 = arith.subi %i, %c2 : index
    %1 = arith.cmpi ult, %0, %c4 : index
    %2 = arith.minsi %0, %c3 : index
    %3 = arith.maxsi %2, %c0 : index
    %4 = memref.load %x[%3] : memref<4xf32>
    %5 = arith.select %1, %4, %zero : f32
    %6 = arith.addf %s, %5 : f32
    scf.yield %6 : f32
  }
  return %sum : f32
}

// What the counter does not decide alone, and bounds that are not known, stay.
// CHECK-LABEL: @unknown
// CHECK-COUNT-2: scf.for
// CHECK-NOT: scf.for
// CHECK: return
func.func @unknown(%r: memref<8xi1>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %c4 step %c1 {
      %0 = arith.cmpi sge, %i, %c1 : index
      %1 = arith.addi %i, %j : index
      %2 = arith.cmpi sge, %1, %c1 : index
      %3 = arith.andi %0, %2 : i1
      memref.store %3, %r[%1] : memref<8xi1>
    }
  }
  return
}

// A comparison as unsigned numbers: true from 0 on, since -4 is one of the largest numbers. Its counter is that of the outer loop, which is split.
// CHECK-LABEL: @unsigned
// CHECK: scf.for {{.*}} to %c2 step
// CHECK: scf.for {{.*}} to %c4 step
// CHECK: memref.store %false
// CHECK: scf.for {{.*}} to %c6 step
// CHECK: scf.for {{.*}} to %c4 step
// CHECK: memref.store %true
func.func @unsigned(%r: memref<32xi1>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %all = arith.constant -4 : index
  scf.for %i = %c0 to %c8 step %c1 {
    scf.for %j = %c0 to %c4 step %c1 {
      %0 = arith.subi %i, %c2 : index
      %1 = arith.cmpi ult, %0, %all : index
      %2 = arith.cmpi sge, %i, %c2 : index
      %3 = arith.andi %1, %2 : i1
      %4 = arith.muli %i, %c4 : index
      %5 = arith.addi %4, %j : index
      memref.store %3, %r[%5] : memref<32xi1>
    }
  }
  return
}
