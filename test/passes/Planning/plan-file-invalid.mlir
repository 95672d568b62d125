// Plans that are not possible: one error at the decision.
// RUN: rm -rf %t && mkdir %t
// RUN: divisi compile %s --emit=plan --mesh data=2,model=2 -o %t/plan
// RUN: sed '/pad\|place\|split/d' %t/plan > %t/bare
// RUN: sed '1a dist.place "nobody" : [_, _]' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: edited:2:1: error: there is no input or state 'nobody'
// RUN: sed '1a dist.place "layers.*.w" : [_, _]' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PATTERN
// PATTERN: edited:2:1: error: no input or state matches 'layers.*.w', where each * is a number
// RUN: sed '1a dist.place "w*" : [_, _]' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=STAR
// STAR: edited:2:1: error: no input or state matches 'w*', where each * is a number
// RUN: sed '1a dist.place "w" : [_]' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=RANK
// RANK: edited:2:1: error: 'w' has 2 dimensions, not 1: it is 'tensor<8x6xf32>'
// RUN: sed '1a dist.place "w" : [pipeline, _]' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: edited:2:1: error: 'w': the mesh has no axis "pipeline"
// RUN: sed '1a dist.place "w" : [model, data+model]' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=USED
// USED: edited:2:1: error: 'w': uses the axis "model" twice
// RUN: sed '1a dist.place "w" : [_, data+model]' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=DIVIDE
// DIVIDE: edited:2:1: error: 'w': dimension 1 of size 6 does not divide into 4 parts over "data" + "model"
// RUN: sed '1a dist.place "w" : tensor<8x6xf32>' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: edited:2:{{[0-9]+}}: error: {{.*}}expected '['
// RUN: sed '1a dist.place "w" : [1, _]' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=NUMBERED
// NUMBERED: edited:2:{{[0-9]+}}: error: {{.*}}expected '_' or an axis, as in [data+model, _]
// RUN: sed '1a dist.place "w" : [_+data, _]' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=WHOLEAXIS
// WHOLEAXIS: edited:2:{{[0-9]+}}: error: {{.*}}expected ']'
// RUN: sed '1a "dist.place"() {dims = [[1 : i64]], name = "w"} : () -> ()' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=GENERIC
// GENERIC: edited:2:1: error: 'dist.place' op attribute 'dims' failed to satisfy constraint: the axes of each dimension
// RUN: sed '1a dist.pad "nobody" dim 0 parts 2' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PAD
// PAD: edited:2:1: error: there is no input or state 'nobody'
// RUN: sed '1a dist.pad "w" dim 2 parts 2' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PADDIM
// PADDIM: edited:2:1: error: 'w' has no dimension
// RUN: sed '1a dist.pad "w" dim -1 parts 2' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PADNEGATIVE
// PADNEGATIVE: edited:2:1: error: 'w' has no dimension
// RUN: sed '1a dist.pad "w" dim 0 parts 0' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PADPARTS
// PADPARTS: edited:2:1: error: 'w' has no dimension
// RUN: sed '1a dist.split @nothing "/fc:0" {m = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=FUNCTION
// FUNCTION: edited:2:1: error: there is no operation '/fc:0' in @nothing, and no other of that node: --emit train shows the identities
// RUN: sed '1a dist.split @evaluate "/fc2:0" {m = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: edited:2:1: error: there is no operation '/fc2:0' in @evaluate, and no other of that node
// RUN: sed '1a dist.split @evaluate "/fc:1" {m = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: edited:2:1: error: there is no operation '/fc:1' in @evaluate; of that node there is '/fc:0'
// RUN: sed '1a dist.split @evaluate "/fc:0" {z = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=FACTOR
// FACTOR: edited:2:1: error: '/fc:0': the operation has no factor "z"
// RUN: sed '1a dist.split @evaluate "/fc:0" {m = ["pipeline"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=FACTORAXIS
// FACTORAXIS: edited:2:1: error: '/fc:0': the mesh has no axis "pipeline"
// RUN: sed '1a dist.split @evaluate "/fc:0" {m = ["data"], n = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: edited:2:1: error: '/fc:0': the operation's sharding rule does not allow this split
// RUN: sed '1a dist.split @evaluate "/fc:0" {k = ["data", "model"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=UNEVEN
// UNEVEN: edited:2:1: error: '/fc:0': the operation's sharding rule does not allow this split
// RUN: sed '1a dist.split @evaluate "/cumsum:0" {d1 = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: edited:2:1: error: '/cumsum:0': the operation's sharding rule does not allow this split

// Patterns that match nothing, and lines of which neither is more specific; a line of its own decides.
// RUN: sed '1a dist.split "/layers.*/fc:0" {m = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=MATCHES
// MATCHES: edited:2:1: error: no operation matches '/layers.*/fc:0', where each * is a number
// RUN: sed '1a dist.split @train "/fc:*" {m = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=MATCHESIN
// MATCHESIN: edited:2:1: error: no operation in @train matches '/fc:*', where each * is a number
// RUN: sed -e '1a dist.split "/fc:0" {n = ["data"]}' -e '1a dist.split @evaluate "/fc:*" {m = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=AMBIGUOUS
// AMBIGUOUS: edited:3:1: error: '/fc:0' matches this line and '/fc:0', and neither is more specific: give it a line of its own
// RUN: sed -e '1a dist.split @evaluate "/fc:0" {}' -e '1a dist.split "/fc:0" {n = ["data"]}' -e '1a dist.split @evaluate "/fc:*" {m = ["data"]}' %t/bare > %t/edited && divisi-opt %s --plan="file=%t/edited" | FileCheck %s --check-prefix=OWN
// OWN: graph.matmul {{.*}} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>

// Twice the same.
// RUN: sed -e '1a dist.split @evaluate "/fc:0" {m = ["data"]}' -e '1a dist.split @evaluate "/fc:0" {n = ["data"]}' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: edited:3:1: error: '/fc:0' is split by a line before this one: keep one of the two
// RUN: sed -e '1a dist.place "w" : [_, _]' -e '1a dist.place "w" : [_, _]' %t/bare > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=PLACED
// PLACED: edited:3:1: error: 'w' is placed by a line before this one: keep one of the two

// Made for something else: another model (different operands, attributes or types), another target, another version of the
// format, and the format before versions.
// RUN: sed 's/sha256:[0-9a-f]*/sha256:0/' %t/plan > %t/edited
// RUN: not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=HASH
// HASH: edited:1:1: error: the plan was made for another model, or with other flags of the training: it is for sha256:0, this one is sha256:{{[0-9a-f]+}}; make one with --emit plan
// RUN: sed '/graph.add/s/%w, %w/%w, %v/' %s > %t/operand && not divisi-opt %t/operand --plan="file=%t/plan" 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: sed '/graph.cumsum/s/dim = 1/dim = 0/' %s > %t/attribute && not divisi-opt %t/attribute --plan="file=%t/plan" 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: sed 's/4x/2x/g' %s > %t/type && not divisi-opt %t/type --plan="file=%t/plan" 2>&1 | FileCheck %s --check-prefix=MODEL
// MODEL: plan:1:1: error: the plan was made for another model
// Names of nodes do not belong to the model.
// RUN: sed 's|loc("/cumsum")|loc("/sums")|' %s > %t/renamed && divisi-opt %t/renamed --plan="file=%t/bare" > %t/opt
// RUN: not divisi-opt %s --plan="file=%t/plan target=cuda" 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: plan:1:1: error: the plan was made for the target cpu, this is for cuda: make one with --target cuda --emit plan
// RUN: sed 's/format 3/format 4/' %t/plan > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=FORMAT
// FORMAT: edited:1:18: error: {{.*}}is a plan of format 4, this divisi reads format 3: make the plan again with --emit plan
// RUN: sed 's/format 3/format 2/' %t/plan > %t/edited && not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=BEFORE
// BEFORE: edited:1:18: error: {{.*}}is a plan of format 2, this divisi reads format 3: make the plan again with --emit plan
// RUN: echo 'dist.plan "fnv1a64:0123456789abcdef" <"data" = 2> {' > %t/edited && echo '}' >> %t/edited
// RUN: not divisi-opt %s --plan="file=%t/edited" 2>&1 | FileCheck %s --check-prefix=OLD
// OLD: edited:1:11: error: {{.*}}is a plan of format 1, this divisi reads format 3: make the plan again with --emit plan
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
    %v: tensor<8x6xf32> {graph.state = {name = "v", role = "buffer"}},
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
