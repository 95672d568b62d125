#ifndef DIVISI_DIALECTS_EXEC_OPS
#define DIVISI_DIALECTS_EXEC_OPS

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

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

class Exec_Item<string mnemonic, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(traits, [ItemInterface, CostInterface,
                                             DeclareOpInterfaceMethods<MemoryEffectsOpInterface>])> {
  code costs = [{
    int64_t getFlops();
    int64_t getBytes();
  }];
  let extraClassDeclaration = costs;
}

def Exec_KernelOp : Exec_Item<"kernel", [IsolatedFromAbove, SingleBlock]> {
  let summary = "graph operations fused into one loop nest";
  let description = [{
    The region's graph operations are computed row by row: the leading dimensions of every value in `stages` multiply to
    `rows`, and no row depends on another. Values that are not stages are recomputed wherever they are used. Kernels in a
    row with one `batch` are launched at once. Inserted by form-kernels.

    1. The block's arguments have the types of the inputs.
    2. `exec.yield` has the outputs' types, and values of operations with 'exec.stage' only.
    3. There is at least one row.
    4. `offsets` has a place for each result.

    ```mlir
    %1 = exec.kernel rows 256 (%0, %b) : (tensor<256x10xf32>, tensor<10xf32>) -> tensor<256x10xf32> {
    ^bb0(%x: tensor<256x10xf32>, %bias: tensor<10xf32>):
      %2 = graph.broadcast %bias {dims = array<i64: 1>} : (tensor<10xf32>) -> tensor<256x10xf32>
      %3 = graph.add %x, %2 {exec.stage} : tensor<256x10xf32>
      exec.yield %3 : tensor<256x10xf32>
    }
    ```
  }];
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
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Exec_CallOp : Exec_Item<"call", [IsolatedFromAbove, SingleBlock, AttrSizedResultSegments,
                                       DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "one operation that a library or the runtime computes: GEMM, convolution, top-k, a collective, a message";
  let description = [{
    outputs = operation(inputs). The operation is of the dialects graph and dist, with its own operands, attributes, verifier and
    cost; it stands alone in the region, which is printed as the operation's name and attributes. Which service of the
    runtime computes it, and with which parameters, code generation asks the operation (LibraryInterface).

    `workspace` is memory that a GPU's library may use meanwhile. Collectives and messages have an `id`, equal on all ranks that
    take part, and a `label`, by which diagnostics name them: place-awaits gives both, and `exec.await` waits for them.
    They are never merged or removed, for the other ranks expect them.

    Inserted by form-kernels.

    1. The region holds one operation, of graph or dist, on the block's arguments in their order, and a yield of its results in theirs.
    2. The block's arguments have the types of the inputs, the yielded values those of the outputs.
    3. Only collectives and messages have an `id`; that of a message is the one of its operation.
    4. The workspace is a one-dimensional tensor of i8.
    5. `offsets` has a place for each result, the workspace's last.

    ```mlir
    %5 = exec.call graph.matmul {transpose_rhs} (%4, %w) {offsets = array<i64: 47232>}
      : (tensor<32x32xf32>, tensor<10x32xf32>) -> tensor<32x10xf32>
    %6 = exec.call dist.all_reduce {axes = ["data"], kind = #dist<reduction sum>} (%g) {id = 0 : i64, label = "all_reduce of fc1.bias"}
      : (tensor<32xf32>) -> tensor<32xf32>
    ```
  }];
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
  }];
}

def Exec_AwaitOp : Exec_Item<"await"> {
  let summary = "waits until a collective or a message is complete";
  let description = [{
    `id` is that of the exec.call that started it; `held` are its operands and results, which keep their places until here.
    Inserted by place-awaits.
  }];
  let arguments = (ins I64Attr:$id, Variadic<AnyRankedTensor>:$held, OptionalAttr<I64Attr>:$when);
  let assemblyFormat = "$id `(` $held `)` attr-dict `:` type($held)";
}

def Exec_CopyOp : Exec_Item<"copy"> {
  let summary = "copies a value to another place (a new state that could not be written over the old one)";
  let description = [{
    output = input. Inserted by assign-buffers, with its place.
  }];
  let arguments = (ins AnyRankedTensor:$input, OptionalAttr<I64Attr>:$when, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $output)";
  let hasVerifier = 1;
}

#endif
