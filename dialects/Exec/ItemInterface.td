#ifndef DIVISI_DIALECTS_EXEC_ITEMINTERFACE
#define DIVISI_DIALECTS_EXEC_ITEMINTERFACE

include "mlir/IR/OpBase.td"

def ItemInterface : OpInterface<"ItemInterface"> {
  let cppNamespace = "::divisi::exec";
  let description = [{
    What a task runs, one after the other: kernels, calls, copies and awaits. FLOPs and bytes are those of
    graph::CostInterface.
  }];
  let methods = [
    InterfaceMethod<"The bits (DivisiWhen) of the reports for which alone it runs; nothing if it runs in every step.",
      "std::optional<uint64_t>", "getWhen">,
    InterfaceMethod<"Where each result lies: bytes in the arena, with `slotBit` in the slot of a microbatch in flight. Null before "
      "assign-buffers.", "::mlir::DenseI64ArrayAttr", "getOffsetsAttr", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"Places the results, of which there must be some.", "void", "setOffsetsAttr",
      (ins "::mlir::DenseI64ArrayAttr":$offsets), "", [{ llvm_unreachable("an item without results has no places"); }]>
  ];
}

#endif
