#ifndef DIVISI_DIALECTS_EXEC_OPS
#define DIVISI_DIALECTS_EXEC_OPS

include "dialects/Dist/Documentation.td"
include "dialects/Exec/ItemInterface.td"
include "dialects/Graph/Interfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::divisi::exec";
  let summary = "tasks over buffers at fixed offsets of an arena";
  let description = [{
    A task is a function whose operations run one after the other: fused kernels, library calls, collectives, messages and
    copies. form-kernels inserts them; assign-buffers writes where each value lies (`offsets`, bytes in the arena); code
    generation removes them. An operation with `when` runs only in steps in which one of the reports is wanted that
    these bits stand for (DivisiWhen in the ABI).

    Once an operation has `offsets`, it writes to the arena: it is neither merged with an equal one, whose place may hold
    something else by then, nor removed.
  }];
}

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>, Documented {
  let description = documentation;
}

class Exec_Item<string mnemonic, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(traits, [ItemInterface, CostInterface,
                                             DeclareOpInterfaceMethods<MemoryEffectsOpInterface>])> {
  code costs = [{
    int64_t getFlops();
    int64_t getBytes();
  }];
  string wanted = [{ `when`: bits of the reports for which alone it runs.}];
  string placed = [{ `offsets`: where each result lies, in bytes.}];
  let extraClassDeclaration = costs;
  let removedBy = "code generation";
}

def Exec_KernelOp : Exec_Item<"kernel", [IsolatedFromAbove, SingleBlock]> {
  let summary = "graph operations fused into one loop nest";
  let semantics = [{
    `outputs = body(inputs)`, row by row: the leading dimensions of every value of an operation with 'exec.stage' multiply to
    `rows`, and no row depends on another. Other values are recomputed wherever they are used. Consecutive kernels
    with the same `batch` are launched at once.}];
  let tensors = [{
    `inputs` and `outputs`: tensors. `body`: graph operations on the inputs, and exec.yield. `rows`: how many rows.
    `batch`: the number of a launch.}] # wanted # placed;
  let constraints = [{
    1. The block's arguments have the types of the inputs.
    2. `exec.yield` has the outputs' types.
    3. It has values of operations with 'exec.stage' only.
    4. There is at least one row.
    5. `offsets` has a place for each result.}];
  let example = [{
    func.func @f(%0: tensor<256x10xf32>, %b: tensor<10xf32>) -> tensor<256x10xf32> {
      %1 = exec.kernel rows 256 (%0, %b) : (tensor<256x10xf32>, tensor<10xf32>) -> tensor<256x10xf32> {
      ^bb0(%x: tensor<256x10xf32>, %bias: tensor<10xf32>):
        %2 = graph.broadcast %bias {dims = array<i64: 1>} : (tensor<10xf32>) -> tensor<256x10xf32>
        %3 = graph.add %x, %2 {exec.stage} : tensor<256x10xf32>
        exec.yield %3 : tensor<256x10xf32>
      }
      return %1 : tensor<256x10xf32>
    } }];
  let insertedBy = "form-kernels";
  let arguments = (ins I64Attr:$rows, Variadic<AnyRankedTensor>:$inputs, OptionalAttr<I64Attr>:$batch,
                       OptionalAttr<I64Attr>:$when, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `rows` $rows `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body
  }];
  let hasVerifier = 1;
}

def Exec_YieldOp : Exec_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["KernelOp", "CallOp"]>]> {
  let summary = "the results of a kernel or of a call";
  let semantics = "`results of the operation around it = values`.";
  let tensors = "`values`: tensors of the types of these results.";
  let constraints = [{
    1. It ends the block of an exec.kernel or an exec.call.}];
  let example = [{
    func.func @f(%0: tensor<4xf32>) -> tensor<4xf32> {
      %1 = exec.kernel rows 4 (%0) : (tensor<4xf32>) -> tensor<4xf32> {
      ^bb0(%x: tensor<4xf32>):
        %2 = graph.tanh %x {exec.stage} : tensor<4xf32>
        exec.yield %2 : tensor<4xf32>
      }
      return %1 : tensor<4xf32>
    } }];
  let insertedBy = "form-kernels";
  let removedBy = "code generation, with the operation around it";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Exec_CallOp : Exec_Item<"call", [IsolatedFromAbove, SingleBlock, AttrSizedResultSegments,
                                       DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "one operation that a library or the runtime computes: GEMM, convolution, top-k, a collective, a message";
  let semantics = [{
    `outputs = operation(inputs)`. The operation is of the dialects graph and dist, with its own operands, attributes,
    verifier and cost; it stands alone in the region, which is printed as the operation's name and attributes. Which service of
    the runtime computes it, and with which parameters, code generation asks the operation (LibraryInterface). Collectives and
    messages are never merged or removed: the other ranks expect them.}];
  let tensors = [{
    `inputs` and `outputs`: the operation's. `workspace`: [bytes] of i8 that a GPU's library may use meanwhile. `body`: the
    operation and exec.yield. `id`, of collectives and messages: a number that is equal on all ranks that take part. `label`:
    by which diagnostics name them.}] # wanted # placed;
  let constraints = [{
    1. The region holds one operation, of graph or dist, and exec.yield.
    2. The operation has the block's arguments in their order, and the yield has its results.
    3. The block's arguments have the types of the inputs, the operation's results those of the outputs.
    4. Only collectives and messages have an `id`.
    5. That of a message is the one of its operation.
    6. The workspace is a one-dimensional tensor of i8.
    7. `offsets` has a place for each result, the workspace's last.}];
  let example = [{
    func.func @f(%x: tensor<32x32xf32>, %w: tensor<10x32xf32>) -> tensor<32x10xf32> attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
      %0 = exec.call graph.matmul {transpose_rhs} (%x, %w) {offsets = array<i64: 47232>} : (tensor<32x32xf32>, tensor<10x32xf32>) -> tensor<32x10xf32>
      %1 = exec.call dist.all_reduce {axes = ["data"], kind = #dist<reduction sum>} (%0) {id = 0 : i64, label = "all_reduce of y"} : (tensor<32x10xf32>) -> tensor<32x10xf32>
      return %1 : tensor<32x10xf32>
    } }];
  let insertedBy = "form-kernels; place-awaits gives ids and labels";
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, OptionalAttr<I64Attr>:$id, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<I64Attr>:$when, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Variadic<AnyRankedTensor>:$outputs, Optional<AnyRankedTensor>:$workspace);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::Operation *":$operation, "int64_t":$workspaceBytes)>];
  let extraClassDeclaration = costs # [{
    /// The operation that is computed, on the block's arguments.
    ::mlir::Operation *getPayload();
    /// Whether other ranks take part: a collective or a message.
    bool communicates();
    /// A message to or from one other stage.
    bool isMessage();
    /// The id that a message has on both sides; null of others.
    ::mlir::IntegerAttr getMessageId();
    /// The axes of the mesh along which a collective's group lies; null of others.
    ::mlir::ArrayAttr getAxes();
  }];
}

def Exec_AwaitOp : Exec_Item<"await"> {
  let summary = "waits until a collective or a message is complete";
  let semantics = "`held after it = operands and results of the completed call` with this `id`; they may be read and written over.";
  let tensors = "`id`: that of the call. `held`: its operands and results, which keep their places until here." # wanted;
  let constraints = [{
    1. An exec.call with this `id` comes before it (not verified).}];
  let example = [{
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
      %0 = exec.call dist.permute {axes = ["data"], shift = 1 : i64} (%x) {id = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
      exec.await 3(%x, %0) : tensor<4xf32>, tensor<4xf32>
      return %0 : tensor<4xf32>
    } }];
  let insertedBy = "place-awaits";
  let arguments = (ins I64Attr:$id, Variadic<AnyRankedTensor>:$held, OptionalAttr<I64Attr>:$when);
  let assemblyFormat = "$id `(` $held `)` attr-dict `:` type($held)";
}

def Exec_CopyOp : Exec_Item<"copy"> {
  let summary = "copies a value to another place (a new state that could not be written over the old one)";
  let semantics = "`output = input`.";
  let tensors = "`input` and `output`: tensors of one shape and element type." # wanted # placed;
  let constraints = [{
    1. `output` has the shape and element type of `input`.
    2. `offsets` has a place for it.}];
  let example = [{
    %0 = exec.copy %x {offsets = array<i64: 64>} : (tensor<4xf32>) -> tensor<4xf32>}];
  let insertedBy = "assign-buffers";
  let arguments = (ins AnyRankedTensor:$input, OptionalAttr<I64Attr>:$when, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $output)";
  let hasVerifier = 1;
}

#endif
