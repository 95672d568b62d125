// Pins and meshes that are not possible: one line with the reason.
// RUN: not divisi-opt %s --plan="mesh=model=2 pins=nothing=_,model" 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: pin 'nothing': there is no input, parameter or other state of this name
// RUN: not divisi-opt %s --plan="mesh=model=2 pins=w=model" 2>&1 | FileCheck %s --check-prefix=RANK
// RANK: error: pin 'w': names 1 dimensions, but it has 2
// RUN: not divisi-opt %s --plan="mesh=model=2 pins=w=" 2>&1 | FileCheck %s --check-prefix=NORANK
// NORANK: error: pin 'w': names 0 dimensions, but it has 2
// RUN: not divisi-opt %s --plan="mesh=model=2 pins=count=model" 2>&1 | FileCheck %s --check-prefix=SCALAR
// SCALAR: error: pin 'count': names 1 dimensions, but it has 0
// RUN: not divisi-opt %s --plan="mesh=model=2 pins=w=_,pipeline" 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: error: pin 'w': the mesh has no axis "pipeline"
// RUN: not divisi-opt %s --plan="mesh=model=2 pins=w=_+model,_" 2>&1 | FileCheck %s --check-prefix=UNDERSCORE
// UNDERSCORE: error: pin 'w': the mesh has no axis "_"
// RUN: not divisi-opt %s --plan="mesh=model=2 pins=w=model,model" 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: pin 'w': axis "model" splits it twice
// RUN: not divisi-opt %s --plan="mesh=model=2 pins=w=model,_;w=_,model" 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: error: pin 'w': axis "model" splits it twice
// RUN: not divisi-opt %s --plan="mesh=model=3 pins=w=model,_" 2>&1 | FileCheck %s --check-prefix=DIVIDE
// DIVIDE: error: pin 'w': dimension 0 of size 8 does not divide over "model"
// RUN: not divisi-opt %s --plan="mesh=data=4,model=4 pins=w=data+model,_" 2>&1 | FileCheck %s --check-prefix=PRODUCT
// PRODUCT: error: pin 'w': dimension 0 of size 8 does not divide over "model"
// RUN: not divisi-opt %s --plan="mesh=data=3 pins=x=data,_" 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: pin 'x': dimension 0 of size 4 does not divide over "data"
// RUN: not divisi-opt %s --plan="mesh=model=2 pins=w" 2>&1 | FileCheck %s --check-prefix=FORM
// FORM: error: pin: expected NAME=AXES,AXES,... such as fc1.weight=_,model, got 'w'
// RUN: not divisi-opt %s --plan="mesh=model=2 pins==_,model" 2>&1 | FileCheck %s --check-prefix=NONAME
// NONAME: error: pin: expected NAME=AXES,AXES,... such as fc1.weight=_,model, got '=_,model'
// RUN: not divisi-opt %s --plan="mesh=model=2 pins=w=model+,_" 2>&1 | FileCheck %s --check-prefix=PLUS
// PLUS: error: pin: expected NAME=AXES,AXES,... such as fc1.weight=_,model, got 'w=model+,_'
// RUN: not divisi-opt %s --plan="mesh=" 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: mesh: expected AXIS=SIZE,..., such as data=2,model=4, got ''
// RUN: not divisi-opt %s --plan="mesh=data" 2>&1 | FileCheck %s --check-prefix=SIZE
// SIZE: error: mesh: expected AXIS=SIZE,..., such as data=2,model=4, got 'data'
// RUN: not divisi-opt %s --plan="mesh=data=0" 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: error: mesh: expected AXIS=SIZE,..., such as data=2,model=4, got 'data=0'
// RUN: not divisi-opt %s --plan="mesh=data=2,model=-4" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: mesh: expected AXIS=SIZE,..., such as data=2,model=4, got 'data=2,model=-4'
// RUN: not divisi-opt %s --plan="mesh=data=two" 2>&1 | FileCheck %s --check-prefix=TEXT
// TEXT: error: mesh: expected AXIS=SIZE,..., such as data=2,model=4, got 'data=two'
// RUN: not divisi-opt %s --plan="mesh==2" 2>&1 | FileCheck %s --check-prefix=NOAXIS
// NOAXIS: error: mesh: expected AXIS=SIZE,..., such as data=2,model=4, got '=2'
// RUN: not divisi-opt %s --plan="mesh=data=2,data=4" 2>&1 | FileCheck %s --check-prefix=REPEATED
// REPEATED: error: mesh: the axis 'data' is named twice
// RUN: not divisi-opt %s --plan="mesh=data=64,model=128" 2>&1 | FileCheck %s --check-prefix=HUGE
// HUGE: error: mesh: a mesh has at most 6 axes and 4096 devices, got 'data=64,model=128'
// RUN: not divisi-opt %s --plan="mesh=a=1,b=1,c=1,d=1,e=1,f=1,g=1" 2>&1 | FileCheck %s --check-prefix=AXES
// AXES: error: mesh: a mesh has at most 6 axes and 4096 devices, got

func.func @evaluate(%w: tensor<8x6xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %n: tensor<i64> {graph.state = {name = "count", role = "step"}}, %x: tensor<4x6xf32> {graph.input = "x"})
    -> (tensor<4x8xf32> {graph.output = "y"}) {
  %y = graph.matmul %x, %w {transpose_rhs} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
