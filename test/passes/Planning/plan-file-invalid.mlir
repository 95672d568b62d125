// Plans that do not fit: one error at the decision that cannot hold.
// RUN: rm -rf %t && mkdir %t
// RUN: divisi compile %s --emit=plan --mesh data=2,model=2 -o %t/plan
// RUN: sed '/pad\|place\|split/d' %t/plan > %t/bare
// RUN: sed '1a dist.place "nobody" : tensor<4x6xf32>' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: edited:2:1: error: there is no input or state 'nobody'
// RUN: sed '1a dist.place "w" : tensor<8x7xf32>' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=SHAPE
// SHAPE: edited:2:1: error: 'w' is 'tensor<8x6xf32>' in the model, not 'tensor<8x7xf32>'
// RUN: sed '1a dist.place "w" : tensor<?x6xf32>' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=DYNAMIC
// DYNAMIC: edited:2:1: error: 'w' is 'tensor<8x6xf32>' in the model, not 'tensor<?x6xf32>'
// RUN: sed '1a dist.place "w" : tensor<?x6xf32, #dist.shard<_, "model">>' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=DYNAMICSPLIT
// DYNAMICSPLIT: edited:2:1: error: 'w': the size of a sharded tensor must be known
// RUN: sed '1a dist.place "w" : i32' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: edited:2:1: error: expected a tensor type
// RUN: sed '1a dist.place "w" : tensor<*xf32>' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=RANKED
// RANKED: edited:2:1: error: expected a tensor type
// RUN: sed '1a dist.place "w" : tensor<8x6xf32, #dist.shard<"pipeline", _>>' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: edited:2:1: error: 'w': the mesh has no axis "pipeline"
// RUN: sed '1a dist.place "w" : tensor<8x6xf32, #dist.shard<_, "data" + "model">>' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=DIVIDE
// DIVIDE: edited:2:1: error: 'w': dimension 1 of size 6 does not divide into 4 parts over "data" + "model"
// RUN: sed '1a dist.place "w" : tensor<8x6xf32, #dist.shard<_, _, sum "model">>' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PENDING
// PENDING: edited:2:1: error: 'w' may not be pending
// RUN: sed '1a dist.pad "nobody" dim 0 parts 2' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PAD
// PAD: edited:2:1: error: there is no input or state 'nobody'
// RUN: sed '1a dist.pad "w" dim 2 parts 2' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PADDIM
// PADDIM: edited:2:1: error: 'w' has no dimension
// RUN: sed '1a dist.pad "w" dim -1 parts 2' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PADNEGATIVE
// PADNEGATIVE: edited:2:1: error: 'w' has no dimension
// RUN: sed '1a dist.pad "w" dim 0 parts 0' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PADPARTS
// PADPARTS: edited:2:1: error: 'w' has no dimension
// RUN: sed '1a dist.split @nothing "graph.matmul" "/fc" 0 {m = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=FUNCTION
// FUNCTION: edited:2:1: error: there is no such operation: number 0 of 'graph.matmul' at '/fc' in @nothing
// RUN: sed '1a dist.split @evaluate "graph.conv" "/fc" 0 {m = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=KIND
// KIND: edited:2:1: error: there is no such operation: number 0 of 'graph.conv' at '/fc' in @evaluate
// RUN: sed '1a dist.split @evaluate "graph.matmul" "/fc2" 0 {m = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: edited:2:1: error: there is no such operation: number 0 of 'graph.matmul' at '/fc2' in @evaluate
// RUN: sed '1a dist.split @evaluate "graph.matmul" "/fc" 1 {m = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: edited:2:1: error: there is no such operation: number 1 of 'graph.matmul' at '/fc' in @evaluate
// RUN: sed '1a dist.split @evaluate "graph.matmul" "/fc" 0 {z = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=FACTOR
// FACTOR: edited:2:1: error: the operation has no factor "z"
// RUN: sed '1a dist.split @evaluate "graph.matmul" "/fc" 0 {m = ["pipeline"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=FACTORAXIS
// FACTORAXIS: edited:2:1: error: the mesh has no axis "pipeline"
// RUN: sed '1a dist.split @evaluate "graph.matmul" "/fc" 0 {m = ["data"], n = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: edited:2:1: error: the operation's sharding rule does not allow this split
// RUN: sed '1a dist.split @evaluate "graph.matmul" "/fc" 0 {k = ["data", "model"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=UNEVEN
// UNEVEN: edited:2:1: error: the operation's sharding rule does not allow this split
// RUN: sed '1a dist.split @evaluate "graph.cumsum" "/cumsum" 0 {d1 = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: edited:2:1: error: the operation's sharding rule does not allow this split

// RUN: sed 's/fnv1a64:[0-9a-f]*/fnv1a64:0/' %t/plan > %t/edited
// RUN: not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=HASH
// HASH: edited:1:1: error: the plan was made for another model, or with other flags: this one is fnv1a64:
// RUN: cat %t/plan %t/plan > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: echo 'module {}' > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: echo > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: error: expected one dist.plan in
// RUN: echo 'data: 2' > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=TEXT
// TEXT: edited:1:1: error: custom op 'data' is unknown
// RUN: head -c 60 %t/plan > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=SHORT
// SHORT: edited:1:{{[0-9]+}}: error: {{.*}}expected
// RUN: sed 's/"model" = 2/"model" = 99999999999/' %t/bare > %t/edited
// RUN: not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=SIZE
// SIZE: error: {{.*}}axis "model" of the mesh has the size 99999999999, expected 1 to
// RUN: not divisi-opt %s --plan="file=%t/nothing" 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: could not open input file

func.func @train(%w: tensor<8x6xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<4x6xf32> {graph.input = "x"}) -> (tensor<8x6xf32> {graph.renews = "w"}) {
  %n = graph.add %w, %w : tensor<8x6xf32>
  return %n : tensor<8x6xf32>
}
func.func @evaluate(%w: tensor<8x6xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<4x6xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
  %y = graph.matmul %x, %w {transpose_rhs} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32> loc("/fc")
  %p = graph.cumsum %y {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("/cumsum")
  return %p : tensor<4x8xf32>
}
