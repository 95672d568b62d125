#ifndef DIVISI_CODEGEN_KERNELS_PASSES
#define DIVISI_CODEGEN_KERNELS_PASSES

include "mlir/Pass/PassBase.td"

def DecomposePass : Pass<"decompose", "::mlir::func::FuncOp"> {
  let summary = "Replaces composite operations by simpler ones";
  let description = [{
    Input: graph operations of any kind. Output: no operation with the decompose interface, except those that a library computes.
    Run canonicalize and cse after it: values that the forward and the backward pass have in common (a softmax's maximum and
    sum, a norm's statistics) then exist once.
  }];
  let options = [Option<"all", "all", "bool", "false", "what was kept whole for fuse-epilogues, too">];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def FuseEpiloguesPass : Pass<"fuse-epilogues", "::mlir::func::FuncOp"> {
  let summary = "Epilogue fusion: matmuls compute a bias, an activation, gelu's gradient or a sum in the same library call";
  let description = [{
    For GPUs, in a step that is already partitioned. While a matmul's elements are in registers, cuBLASLt can add a bias, apply
    relu or gelu, multiply by gelu's gradient, and sum an operand (the gradient of a bias). Matmuls of 16 bits or with tf32
    whose sizes are multiples of 8 become graph.matmul_epilogue where that reduces the memory traffic: a value that only kernels
    use is left to the kernels.

    ```mlir
    %1 = graph.matmul %x, %w {transpose_rhs} : (tensor<256x64xbf16>, tensor<128x64xbf16>) -> tensor<256x128xbf16>
    %2 = graph.cast %1 : (tensor<256x128xbf16>) -> tensor<256x128xf32>
    %3 = graph.broadcast %bias {dims = array<i64: 1>} : (tensor<128xf32>) -> tensor<256x128xf32>
    %4 = graph.add %2, %3 : tensor<256x128xf32>
    %5 = graph.relu %4 : tensor<256x128xf32>
    %6 = graph.cast %5 : (tensor<256x128xf32>) -> tensor<256x128xbf16>
    // becomes
    %1 = graph.cast %bias : (tensor<128xf32>) -> tensor<128xbf16>
    %6 = graph.matmul_epilogue relu %x, %w, %1 {transpose_rhs} : (tensor<256x64xbf16>, tensor<128x64xbf16>, tensor<128xbf16>) -> tensor<256x128xbf16>
    ```
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def SplitReductionsPass : Pass<"split-reductions", "::mlir::func::FuncOp"> {
  let summary = "Splits large reductions over leading dimensions into partial ones";
  let description = [{
    A sum over the rows of a matrix has no parallel rows. It becomes a fixed number of partial sums, which are parallel, and a
    sum of these. The number is fixed so that the result does not depend on the number of threads. A GPU gets more of them, and
    where a row is narrow, or not a whole number of loads, several rows are taken as one.

    ```mlir
    %r = graph.reduce_sum %x {dims = [0]} : (tensor<4096x64xf32>) -> tensor<64xf32>
    // becomes
    %s = graph.reshape %x : (tensor<4096x64xf32>) -> tensor<16x256x64xf32>
    %p = graph.reduce_sum %s {dims = [1]} : (tensor<16x256x64xf32>) -> tensor<16x64xf32>
    %r = graph.reduce_sum %p {dims = [0]} : (tensor<16x64xf32>) -> tensor<64xf32>
    ```
  }];
  let options = [Option<"forGpu", "for-gpu", "bool", "false", "enough partial results for all multiprocessors, and wide loads">];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def ExpandTopKPass : Pass<"expand-top-k", "::mlir::func::FuncOp"> {
  let summary = "Computes top_k by comparing each element with each other";
  let description = [{
    For GPUs, whose libraries have no top-k. Along dimensions of at most 512 elements, an element's rank is the number of elements
    that come before it. Other top_k are computed by the host.

    ```mlir
    %v, %i = graph.top_k %x {dim = 1 : i64, k = 2 : i64} : (tensor<64x8xf32>) -> (tensor<64x2xf32>, tensor<64x2xi64>)
    // becomes, for %x's elements [row, mine, other] and then [row, mine, place],
    %p = graph.reduce_sum %before {dims = array<i64: 2>} : (tensor<64x8x8xi64>) -> tensor<64x8xi64>
    %v = graph.reduce_max %here {dims = array<i64: 1>} : (tensor<64x8x2xf32>) -> tensor<64x2xf32>
    ```
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def ExpandScatterPass : Pass<"expand-scatter", "::mlir::func::FuncOp"> {
  let summary = "Computes scatters of which a GPU would use few threads as others";
  let description = [{
    For GPUs. Where at most eight indices are scattered along a dimension (the gradients of top_k and of a class's logarithm), each
    element is compared with them. A scatter_nd that adds slices is a scatter_add of rows.

    ```mlir
    %y = graph.scatter_elements %x, %i, %u {combine = #graph<combine add>, dim = 1 : i64} : (tensor<4x6xf32>, tensor<4x1xi64>, tensor<4x1xf32>) -> tensor<4x6xf32>
    // becomes, with %i and %u broadcast to %j and %v, and %p the numbers of columns,
    %h = graph.compare eq %j, %p : (tensor<4x6xi64>, tensor<4x6xi64>) -> tensor<4x6xi1>
    %s = graph.add %x, %v : tensor<4x6xf32>
    %y = graph.select %h, %s, %x : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    ```
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def PrepareKernelsPass : Pass<"prepare-kernels", "::mlir::func::FuncOp"> {
  let summary = "Drops what kernels do not need";
  let description = [{
    Runs before form-kernels, when nothing merges operations any more: barriers of reshapes, values of 16 bits that are
    widened and narrowed again, and operations on tensors without elements go.

    ```mlir
    %w = graph.cast %x : tensor<4xbf16> to tensor<4xf32>
    %n = graph.cast %w : tensor<4xf32> to tensor<4xbf16>  // its users read %x
    ```
  }];
  let dependentDialects = ["::divisi::graph::GraphDialect"];
}

def FormKernelsPass : Pass<"form-kernels", "::mlir::func::FuncOp"> {
  let summary = "Groups graph operations into fused kernels and library calls";
  let description = [{
    Input: simple graph operations; no barriers (after prepare-kernels). Output: exec.kernel, exec.call, constants, and reshapes of whole
    buffers. Fails when an operation has no lowering. Which values are computed once and which are recomputed where they
    are used: see step/Fusion.h.
  }];
  let options = [Option<"forGpu", "for-gpu", "bool", "false", "recompute in a kernel what would take longer to read">];
  let dependentDialects = ["::divisi::exec::ExecDialect", "::divisi::graph::GraphDialect"];
}

def OrderUpdatesPass : Pass<"order-updates", "::mlir::func::FuncOp"> {
  let summary = "Moves the updates of parameters behind their gradients";
  let description = [{
    Runs after form-kernels. Kernels and calls from the first update on move to where their operands are computed and nothing reads
    the old state any more, so that a gradient's memory is free again at once (the rule: step/UpdateOrder.h). Updates that wait
    for all gradients (gradient clipping, loss scaling) stay at the end. So do all of a step in microbatches, whose updates are a
    task of their own, and all of a partitioned step, whose last collectives run beside them.

    ```mlir
    %dw2 = exec.call graph.matmul {transpose_lhs} (%h, %dy)
    %dh = exec.call graph.matmul {transpose_rhs} (%dy, %w2)
    %dw1 = exec.call graph.matmul {transpose_lhs} (%x, %dh)
    %w2.new = exec.kernel rows 4096(%w2, %dw2) // moves here: before %dw1
    %w1.new = exec.kernel rows 4096(%w1, %dw1)
    ```
  }];
  let options = [Option<"forGpu", "for-gpu", "bool", "false", "move updates in groups, each of which is one launch">];
  let dependentDialects = ["::divisi::exec::ExecDialect"];
}

def BatchKernelsPass : Pass<"batch-kernels", "::mlir::func::FuncOp"> {
  let summary = "Batches kernels that a GPU runs in one launch";
  let description = [{
    Runs after order-updates and place-awaits. Consecutive elementwise kernels that do not depend on each other and share only scalars (an
    optimizer's updates of many parameters) get the same `batch`: they are one launch, in which each has its own blocks.
    assign-buffers lets their values be live at the same time.
  }];
  let dependentDialects = ["::divisi::exec::ExecDialect"];
}

def PlaceAwaitsPass : Pass<"place-awaits", "::mlir::ModuleOp"> {
  let summary = "Numbers the collectives and awaits each as late as possible";
  let description = [{
    Input: tasks after form-kernels, in which a collective is a call that starts it. Output: each collective has an id and a
    label, and an exec.await before the first operation that reads its result, or before the fourth collective after it, so that
    few are in flight at a time. Until then it overlaps with computation.
  }];
  let dependentDialects = ["::divisi::exec::ExecDialect"];
}

def AssignBuffersPass : Pass<"assign-buffers", "::mlir::ModuleOp"> {
  let summary = "Assigns every value a place in the arena";
  let description = [{
    Input: tasks of exec operations. Output: the same with `offsets` on operations and `exec.offset` on arguments and results.
    State, inputs and scalars have fixed places that all tasks share. Renewed state replaces the old state in its place. Other
    values share the rest of the arena by liveness.
  }];
  let dependentDialects = ["::divisi::exec::ExecDialect"];
}

def CollapseLoopsPass : Pass<"collapse-loops"> {
  let summary = "Makes one loop of nested ones whose indices run on";
  let description = [{
    Input: a kernel's loops, after canonicalize. A loop and the only one in it become one if every index that is computed from
    their counters depends on outer * extent of inner + inner alone: long loops vectorize better, and LLVM needs less time for
    fewer of them. The inner loop must go on with the values that the outer one carries, and carry them back. Sums of more
    than 2^20 elements stay nested, since parts that are added up by themselves round less.

    ```mlir
    scf.for %i = %c0 to %c8 step %c1 { scf.for %j = %c0 to %c16 step %c1 { .. %x[%i * 16 + %j] .. } }
    // becomes
    scf.for %j = %c0 to %c128 step %c1 { .. %x[%j] .. }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def SplitLoopsPass : Pass<"split-loops"> {
  let summary = "Splits loops where what they compute changes, as at the parts of a concatenation";
  let description = [{
    Input: a kernel's loops. A loop over a concatenation or a padded tensor compares its counter with
    constants, to select an operand, and clamps indices. It becomes one loop for each range in which the comparisons do not
    change, so that each reads one operand at consecutive places, which vectorizes. A loop becomes at most 64.

    ```mlir
    scf.for %i = %c0 to %c8 step %c1 { %0 = arith.cmpi sge, %i, %c6 .. arith.select %0, %x, %y .. }
    // becomes
    scf.for %i = %c0 to %c6 step %c1 { .. %y .. }
    scf.for %i = %c0 to %c2 step %c1 { .. %x .. }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

#endif
