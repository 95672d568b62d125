#ifndef DIVISI_DIALECTS_EXEC_OPS
#define DIVISI_DIALECTS_EXEC_OPS

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::divisi::exec";
  let summary = "tasks over buffers at fixed offsets of an arena";
  let description = [{
    A task is a function whose operations run one after the other: fused kernels and library calls. form-kernels inserts
    them; assign-buffers writes where each value lies (`offsets`, bytes in the arena); code generation removes them.
    An operation with the attribute `exec.when` runs only in steps in which somebody looks (DivisiWhen in the ABI).
  }];
}

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

def Exec_KernelOp : Exec_Op<"kernel", [IsolatedFromAbove, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "graph operations fused into one loop nest";
  let description = [{
    The region's graph operations are computed row by row: the leading dimensions of every value in `stages` multiply to
    `rows`, and no row depends on another. Values that are not stages are recomputed wherever they are used.
    Inserted by form-kernels.

    ```mlir
    %1 = exec.kernel rows 256 (%0, %b) : (tensor<256x10xf32>, tensor<10xf32>) -> tensor<256x10xf32> {
    ^bb0(%x: tensor<256x10xf32>, %bias: tensor<10xf32>):
      %2 = graph.broadcast %bias {dims = array<i64: 1>} : (tensor<10xf32>) -> tensor<256x10xf32>
      %3 = graph.add %x, %2 {exec.stage} : tensor<256x10xf32>
      exec.yield %3 : tensor<256x10xf32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$rows, Variadic<AnyRankedTensor>:$inputs, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `rows` $rows `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body
  }];
  let hasVerifier = 1;
}

def Exec_YieldOp : Exec_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["KernelOp"]>]> {
  let summary = "the results of a kernel";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Exec_CallOp : Exec_Op<"call", [Pure]> {
  let summary = "a service of the runtime (GEMM, convolution, top-k)";
  let description = [{
    `params` are the words of the service's parameter block (divisi/abi.h). With `exec.workspace` the last result is memory that
    the service uses meanwhile. Inserted by form-kernels.
  }];
  let arguments = (ins StrAttr:$service, DenseI64ArrayAttr:$params, Variadic<AnyRankedTensor>:$inputs,
                       OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = "$service `(` $inputs `)` $params attr-dict `:` functional-type($inputs, $outputs)";
}

def Exec_AwaitOp : Exec_Op<"await"> {
  let summary = "waits until a collective is complete";
  let description = [{
    `id` is the first word of the parameters of the exec.call that started it; `held` are its operands and results, which keep
    their places until here. Inserted by place-awaits.
  }];
  let arguments = (ins I64Attr:$id, Variadic<AnyRankedTensor>:$held);
  let assemblyFormat = "$id `(` $held `)` attr-dict `:` type($held)";
}

def Exec_CopyOp : Exec_Op<"copy", [Pure]> {
  let summary = "copies a value to another place (a new state that could not be written over the old one)";
  let arguments = (ins AnyRankedTensor:$input, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $output)";
}

#endif
