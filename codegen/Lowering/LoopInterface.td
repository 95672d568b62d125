#ifndef DIVISI_CODEGEN_LOWERING_LOOPINTERFACE
#define DIVISI_CODEGEN_LOWERING_LOOPINTERFACE

include "mlir/IR/OpBase.td"

// Facet 5 of an operation, its lowering, comes in three kinds. Each is attached to the operations from outside, one row per
// operation in the family files of this folder.

def LoopInterface : OpInterface<"LoopInterface"> {
  let cppNamespace = "::divisi::codegen";
  let description = [{
    An operation whose every result element is a function of its operands at some indices, with or without a reduction.
    Code generation asks for one element at an index, and so can inline a producer into any consumer, on any target.
  }];
  let methods = [
    InterfaceMethod<"The iteration space; by default the first result's shape, nothing reduced.",
      "::divisi::codegen::LoopDomain", "getLoopDomain", (ins), "", [{
        return ::divisi::codegen::LoopDomain::pointwise($_op);
      }]>,
    InterfaceMethod<"The accumulators of a reduction before the first step.", "::llvm::SmallVector<::mlir::Value>",
      "emitInit", (ins "::divisi::codegen::ScalarBuilder &":$builder), "", [{ return {}; }]>,
    InterfaceMethod<[{
      One point of the iteration space. Without reduction: the results' elements; with one: the new accumulators.
    }], "::llvm::SmallVector<::mlir::Value>", "emitStep",
      (ins "::divisi::codegen::ScalarBuilder &":$builder, "::mlir::ValueRange":$point,
           "::mlir::ValueRange":$accumulators, "::divisi::codegen::Load":$load)>,
    InterfaceMethod<[{
      The accumulators of two parts of a reduction in one, whichever comes first. Empty if the operation cannot be computed in parts.
    }], "::llvm::SmallVector<::mlir::Value>", "emitCombine",
      (ins "::divisi::codegen::ScalarBuilder &":$builder, "::mlir::ValueRange":$a, "::mlir::ValueRange":$b), "", [{ return {}; }]>
  ];
}

def SerialInterface : OpInterface<"SerialInterface"> {
  let cppNamespace = "::divisi::codegen";
  let description = [{
    An operation that updates its result in a fixed order (scatter, running sums), parallel over an extent that the order
    does not touch.
  }];
  let methods = [
    InterfaceMethod<"The extent that may be split over threads.", "int64_t", "getParallelExtent">,
    InterfaceMethod<"Whether each element of its operands is read once: they may be computed there.", "bool", "readsOnce",
      (ins), "", [{ return false; }]>,
    InterfaceMethod<"The loops over one piece.", "void", "emitSerial",
      (ins "::divisi::codegen::ScalarBuilder &":$builder, "const ::divisi::codegen::SerialPiece &":$piece,
           "::divisi::codegen::Load":$load, "::mlir::Value":$result)>
  ];
}

def LibraryInterface : OpInterface<"LibraryInterface"> {
  let cppNamespace = "::divisi::codegen";
  let description = [{
    An operation that one call of a runtime service computes (see divisi/abi.h).
  }];
  let methods = [
    InterfaceMethod<"The service and its parameter block, or a located error if it cannot serve.",
      "::mlir::FailureOr<::divisi::codegen::LibraryCall>", "getLibraryCall">
  ];
}

#endif
