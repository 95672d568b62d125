#ifndef DIVISI_PASSES_LAYOUT_LAYOUTINTERFACE
#define DIVISI_PASSES_LAYOUT_LAYOUTINTERFACE

include "mlir/IR/OpBase.td"

def LayoutInterface : OpInterface<"LayoutInterface"> {
  let cppNamespace = "::divisi::layout";
  let description = [{
    An operation that can work on another order of its first operand's dimensions. Attached from outside (Layouts.cpp).
  }];
  let methods = [
    InterfaceMethod<[{
      The operation's results, computed from `source`, of which the first operand is the transpose by `permutation`
      (dimension i of the operand is dimension permutation[i] of the source). Results are in the old order. Nothing, if
      another operand or an attribute stands in the way.
    }], "::llvm::SmallVector<::mlir::Value>", "buildOnSource",
      (ins "::divisi::graph::GraphBuilder &":$builder, "::mlir::Value":$source,
           "::llvm::ArrayRef<int64_t>":$permutation)>
  ];
}

#endif
